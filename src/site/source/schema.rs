//! The kinds of authored files, and the JSON Schema (draft 2020-12) of each, generated from the authoring
//! types.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::types::{Audiences, Content, Groups, Queries, Route, Site};

/// A kind of authored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    Site,
    Audiences,
    Groups,
    Queries,
    Route,
    Content,
}

impl FileKind {
    pub const ALL: [FileKind; 6] = [
        FileKind::Site,
        FileKind::Audiences,
        FileKind::Groups,
        FileKind::Queries,
        FileKind::Route,
        FileKind::Content,
    ];

    /// Returns the name of the kind on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Site => "site",
            FileKind::Audiences => "audiences",
            FileKind::Groups => "groups",
            FileKind::Queries => "queries",
            FileKind::Route => "route",
            FileKind::Content => "content",
        }
    }

    fn title(self) -> &'static str {
        match self {
            FileKind::Site => "site.json: the settings of the site",
            FileKind::Audiences => "audiences.json: named sets of visitors",
            FileKind::Groups => "groups.json: named lists of values, for $inGroup and $notInGroup",
            FileKind::Queries => "queries.json: named content queries",
            FileKind::Route => "routes/**/*.json: a page or a redirect",
            FileKind::Content => "content/<collection>.json: the items of a collection",
        }
    }
}

/// Returns the JSON Schema of a kind of file. Editors and the validator use the same schema.
pub fn schema(kind: FileKind) -> Value {
    let mut schema = match kind {
        FileKind::Site => generate::<Site>(),
        FileKind::Audiences => generate::<Audiences>(),
        FileKind::Groups => generate::<Groups>(),
        FileKind::Queries => generate::<Queries>(),
        FileKind::Route => generate::<Route>(),
        FileKind::Content => generate::<Content>(),
    };
    schema.insert("title".to_owned(), kind.title().into());
    schema.to_value()
}

fn generate<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12();
    settings.with_transform(RecursiveTransform(remove_format)).into_generator().into_root_schema_for::<T>()
}

/// Removes `format`. It names the Rust type of a number, which is no use to an author.
fn remove_format(schema: &mut Schema) {
    schema.remove("format");
}
