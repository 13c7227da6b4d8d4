//! The kinds of authored files, and the JSON Schema (draft 2020-12) of each, made from the types of `source`.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::types::{Audiences, Content, Groups, Queries, Route, Site};

/// A kind of authored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Site,
    Audiences,
    Groups,
    Queries,
    Route,
    Content,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Site, Kind::Audiences, Kind::Groups, Kind::Queries, Kind::Route, Kind::Content];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Site => "site",
            Kind::Audiences => "audiences",
            Kind::Groups => "groups",
            Kind::Queries => "queries",
            Kind::Route => "route",
            Kind::Content => "content",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Kind::Site => "site.json: the site itself",
            Kind::Audiences => "audiences.json: sets of visitors by name",
            Kind::Groups => "groups.json: lists of values by name, for $inGroup and $notInGroup",
            Kind::Queries => "queries.json: content queries by name",
            Kind::Route => "routes/**/*.json: one page or redirect",
            Kind::Content => "content/<collection>.json: the items of a collection",
        }
    }
}

/// The JSON Schema of a kind of file: what editors show and what is enforced.
pub fn schema(kind: Kind) -> Value {
    let mut schema = match kind {
        Kind::Site => generated::<Site>(),
        Kind::Audiences => generated::<Audiences>(),
        Kind::Groups => generated::<Groups>(),
        Kind::Queries => generated::<Queries>(),
        Kind::Route => generated::<Route>(),
        Kind::Content => generated::<Content>(),
    };
    schema.insert("title".to_owned(), kind.title().into());
    schema.to_value()
}

fn generated<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12();
    settings.with_transform(RecursiveTransform(without_format)).into_generator().into_root_schema_for::<T>()
}

/// `format` says how Rust holds a number, which concerns no author.
fn without_format(schema: &mut Schema) {
    schema.remove("format");
}
