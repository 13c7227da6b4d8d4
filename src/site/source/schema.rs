//! The kinds of authored files, and the JSON Schema (draft 2020-12) of each, generated from the authoring
//! types.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::condition_schema;
use super::types::{Audiences, Content, Groups, Queries, Route, Site, Test};

/// A kind of authored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    Site,
    Audiences,
    Groups,
    Queries,
    Route,
    Content,
    Test,
}

impl FileKind {
    pub const ALL: [Self; 7] =
        [Self::Site, Self::Audiences, Self::Groups, Self::Queries, Self::Route, Self::Content, Self::Test];

    /// Returns the name of the kind on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Site => "site",
            FileKind::Audiences => "audiences",
            FileKind::Groups => "groups",
            FileKind::Queries => "queries",
            FileKind::Route => "route",
            FileKind::Content => "content",
            FileKind::Test => "test",
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
            FileKind::Test => "tests/*.json: the cases of `parallax test`",
        }
    }
}

/// The member by which a file names its schema for editors. The reader ignores it.
pub(super) const SCHEMA_MEMBER: &str = "$schema";

/// Returns the JSON Schema of a kind of file for editors: its structure, and its conditions with all paths and
/// operators.
pub fn schema(kind: FileKind) -> Value {
    let mut schema = structure(kind);
    condition_schema::describe_conditions(&mut schema);
    schema
}

/// Returns the JSON Schema that the validator uses. In it a condition is any object, because the parser of
/// conditions has better diagnostics.
pub fn structure(kind: FileKind) -> Value {
    let mut schema = match kind {
        FileKind::Site => generate::<Site>(),
        FileKind::Audiences => generate::<Audiences>(),
        FileKind::Groups => generate::<Groups>(),
        FileKind::Queries => generate::<Queries>(),
        FileKind::Route => generate::<Route>(),
        FileKind::Content => generate::<Content>(),
        FileKind::Test => generate::<Test>(),
    };
    schema.insert("title".to_owned(), kind.title().into());
    let mut schema = schema.to_value();
    allow_schema_member(&mut schema);
    schema
}

/// Allows the member `$schema` in each object that the whole file can be.
fn allow_schema_member(schema: &mut Value) {
    let forms = schema["anyOf"].as_array().into_iter().flatten();
    let mut forms: Vec<String> =
        forms.filter_map(|form| Some(form["$ref"].as_str()?.trim_start_matches('#').to_owned())).collect();
    if forms.is_empty() {
        forms.push(String::new());
    }
    for form in forms {
        let form = schema.pointer_mut(&form).expect("a reference leads to a definition");
        if form["type"] == "object" {
            form["properties"][SCHEMA_MEMBER] =
                json!({ "type": "string", "description": "The JSON Schema of this file, for editors." });
        }
    }
}

fn generate<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12();
    settings.with_transform(RecursiveTransform(remove_format)).into_generator().into_root_schema_for::<T>()
}

/// Removes `format`. It names the Rust type of a number, which is no use to an author.
fn remove_format(schema: &mut Schema) {
    schema.remove("format");
}
