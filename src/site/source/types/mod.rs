//! The authoring types: what stands in a site's folder, file by file.
//!
//! From these types come both the JSON Schema that an author's editor shows (`schema`; the doc comments are its texts) and, by
//! `shape`, what is enforced: a member's doc comment speaks to the author of a site, and a bound stands here or nowhere.
//! What always holds of a value: its file was checked against the schema before. What `compile` decides (references, paths,
//! conditions, time zones, times, origins, weights) is still open. JSON `null` counts as absent for optional members. They are
//! read from text by `serde_json::from_str` only, since that alone can hand out an author's text.

mod query;
mod route;
mod site;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize as Read;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::pattern::Name;
pub use query::{Param, ParamKind, Query, Scalar};
pub use route::{
    Each, EmbeddedQuery, Experiment, ItemPath, Layout, Node, PageRoute, PersonalizedZone, Redirect,
    RedirectRoute, Root, Route, Rule, Share, Zone,
};
pub use site::{Bots, Cache, CacheTimes, IpAddresses, Privacy, Site};

/// audiences.json
pub type Audiences = BTreeMap<Name, Audience>;
/// groups.json: lists of values by name.
pub type Groups = BTreeMap<Name, Vec<Value>>;
/// queries.json
pub type Queries = BTreeMap<Name, Query>;
/// content/<collection>.json
pub type Content = Vec<Item>;

/// A JSON value whose text is kept as authored, token by token.
pub type Authored = Box<RawValue>;

/// A JSON object of any members, as the schema shows it.
type AnyObject = Map<String, Value>;

/// A set of visitors, said by a condition.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Audience {
    /// The audience's name for people.
    pub name: Option<String>,
    /// Who belongs to it: a condition over the visitor's profile.
    #[schemars(with = "AnyObject")]
    pub when: Value,
}

/// An item of content.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The item's id, the only one in its collection.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
    /// What kind of item it is.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub kind: String,
    /// The item's fields. Answered as they are written.
    #[schemars(with = "AnyObject")]
    pub fields: Members<String, Authored>,
}

/// The members of an object in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members<K, V>(pub Vec<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Members<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for MembersVisitor<K, V> {
    type Value = Members<K, V>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

impl<K: JsonSchema, V: JsonSchema> JsonSchema for Members<K, V> {
    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<K, V>::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<K, V>::json_schema(generator)
    }
}
