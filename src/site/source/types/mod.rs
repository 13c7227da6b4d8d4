//! The authoring types: the contents of a site directory, file by file.
//!
//! The JSON Schema of each file is generated from these types, and both editors and the validator use it. So
//! the doc comment of a member is the text that the author of a site reads, and a bound that is not in a type
//! is not checked. A value of these types passed schema validation before. References, paths, conditions,
//! time zones, times, origins and weights are checked later, by `compile`. JSON `null` counts as absent for
//! optional members. Deserialize these types only with `serde_json::from_str`, because only it can return the
//! author's text of a value.

mod experiment;
mod goal;
mod query;
mod route;
mod segment;
mod site;
mod test;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::pattern::Name;
pub(crate) use experiment::{AuthoredCap, AuthoredCoverage, CoverageStep, Experiment, Guardrail};
pub(crate) use goal::{AttributionModel, Goal};
pub(crate) use query::{Param, ParamKind, Query, Scalar};
pub(crate) use route::{
    EachItem, EmbeddedQuery, ItemPath, Layout, Node, PageRoute, PersonalizedZone, Redirect,
};
pub use route::{Route, Rule, Zone};
pub use segment::Segment;
pub use site::{Bots, CacheTimes, IpPolicy, Site};
pub(crate) use site::{ConsentCategories, Verification};
pub use test::{ARM_IDS_MAX, CASE_EVENTS_MAX, CASE_NAME_CHARS_MAX, CASES_MAX, Test};
pub(crate) use test::{Case, CaseVisitor, Expectations, ExpectedRedirect};

/// The audiences of a site (`audiences.json`), by key.
pub type Audiences = BTreeMap<Name, Audience>;
/// The goals of a site, by key.
pub type Goals = BTreeMap<Name, Goal>;
/// The segments of a site, by key.
pub type Segments = BTreeMap<Name, Segment>;
/// Named lists of values (`groups.json`).
pub type Groups = BTreeMap<Name, Vec<Value>>;
/// The content queries of a site (`queries.json`), by key.
pub type Queries = BTreeMap<Name, Query>;
/// The items of a collection (`content/<collection>.json`).
pub type Content = Vec<Item>;

/// A JSON value with the author's text, unchanged.
pub(crate) type RawJson = Box<RawValue>;

/// A JSON object with any members, for the schema.
type AnyObject = Map<String, Value>;

/// A condition over visitors, for the schema. [`super::schema`] describes its paths and operators to editors.
#[derive(JsonSchema)]
struct VisitorCondition(#[expect(dead_code, reason = "only its schema is used")] AnyObject);

/// A condition over content items, for the schema.
#[derive(JsonSchema)]
struct ItemCondition(#[expect(dead_code, reason = "only its schema is used")] AnyObject);

/// A set of visitors, defined by a condition.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Audience {
    /// A display name.
    pub name: Option<String>,
    /// A condition over the visitor's profile. Visitors that match belong to the audience.
    #[schemars(with = "VisitorCondition")]
    pub when: Value,
}

/// A content item.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The item's ID, unique in its collection.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
    /// The item's type, such as `article`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub kind: String,
    /// The item's fields. Responses contain them as written.
    #[schemars(with = "AnyObject")]
    pub fields: Members<String, RawJson>,
}

/// The members of an object, in the author's order.
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
