//! The types of `routes/**/*.json`: routes, layouts, zones and rules.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{AnyObject, Experiment, ItemCondition, Members, RawJson, VisitorCondition};
use crate::nfc;
use crate::site::source::pattern::{ITEM_PATH, Name, ROUTE_PATH, VARIANT_KEY};

/// A page or a redirect. `path` sets its URL path; the name of the file has no meaning.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub enum Route {
    Page(PageRoute),
    Redirect(RedirectRoute),
}

/// A route that shows a page.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageRoute {
    /// The URL path, such as `/pricing`, or a pattern, such as `/blog/:slug` or `/docs/*`.
    #[serde(deserialize_with = "normalized")]
    #[schemars(extend("pattern" = ROUTE_PATH.regex))]
    pub path: String,
    /// The time of the last change (RFC 3339).
    pub updated_at: Option<String>,
    /// Generates one path of the pattern for each item of a collection. Other paths then get 404. Default:
    /// the pattern matches any value.
    pub each: Option<EachItem>,
    /// The content of the page.
    pub layout: Layout,
}

/// The items that generate the paths of a pattern. Each parameter of the pattern needs a member with the item
/// field that fills it: `"slug": "fields.slug"`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct EachItem {
    /// The collection: `content/<collection>.json`.
    pub collection: Name,
    /// A condition over the items' fields that selects the items. Default: all.
    #[serde(rename = "where")]
    #[schemars(with = "Option<ItemCondition>")]
    pub condition: Option<Value>,
    /// The item field for each parameter of the pattern.
    #[serde(flatten)]
    pub params: BTreeMap<String, ItemPath>,
}

/// A part of an item: `id`, `type`, or a field such as `fields.slug`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline, extend("pattern" = ITEM_PATH.regex))]
pub struct ItemPath(pub String);

/// A route that redirects to another path or URL.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedirectRoute {
    /// The URL path, such as `/pricing`, or a pattern, such as `/blog/:slug` or `/docs/*`.
    #[serde(deserialize_with = "normalized")]
    #[schemars(extend("pattern" = ROUTE_PATH.regex))]
    pub path: String,
    /// The time of the last change (RFC 3339).
    pub updated_at: Option<String>,
    /// The target and the status of the redirect.
    pub redirect: Redirect,
}

/// The target and the status of a redirect.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// A path of this site that begins with one `/`, or a URL with its scheme. After the host, `:name` and `*` are
    /// replaced by the values of the pattern. Write `%3A` and `%2A` for a colon and an asterisk.
    #[schemars(length(min = 1))]
    pub to: String,
    /// The HTTP status of the redirect, for the page's code to send.
    #[schemars(extend("enum" = [301, 302, 303, 307, 308]))]
    pub status: u16,
}

impl Route {
    pub fn path(&self) -> &str {
        match self {
            Route::Page(page) => &page.path,
            Route::Redirect(redirect) => &redirect.path,
        }
    }

    pub fn updated_at(&self) -> Option<&str> {
        match self {
            Route::Page(page) => page.updated_at.as_deref(),
            Route::Redirect(redirect) => redirect.updated_at.as_deref(),
        }
    }
}

/// Reads a path in Unicode normalization form C, in which requested paths are compared with it.
fn normalized<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|path| nfc::normalize(&path).into_owned())
}

/// Selects the form by parsing the text. The buffering of serde's untagged enums would lose the text of
/// props.
impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        if let Ok(redirect) = serde_json::from_str(text) {
            return Ok(Route::Redirect(redirect));
        }
        serde_json::from_str(text).map(Route::Page).map_err(D::Error::custom)
    }
}

/// The content of a page.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The page itself, as a component.
    pub root: Root,
    /// The zones of the page by name. Responses keep this order.
    pub zones: Members<Name, Zone>,
}

impl Layout {
    /// Calls `visit` with the pointer of each rule and the rule, in the order of the file.
    pub(in crate::site) fn for_each_rule<'s>(&'s self, visit: &mut dyn FnMut(&str, &'s Rule)) {
        visit_zones(&self.zones, "/layout", visit);
    }
}

fn visit_zones<'s>(zones: &'s Members<Name, Zone>, pointer: &str, visit: &mut dyn FnMut(&str, &'s Rule)) {
    for (name, zone) in &zones.0 {
        let pointer = format!("{pointer}/zones/{name}");
        match zone {
            Zone::Plain(nodes) => visit_nodes(nodes, &pointer, visit),
            Zone::Personalized(zone) => {
                visit_nodes(&zone.default, &format!("{pointer}/default"), visit);
                for (key, nodes) in &zone.variants.0 {
                    visit_nodes(nodes, &format!("{pointer}/variants/{key}"), visit);
                }
                for (i, rule) in zone.rules.iter().enumerate() {
                    visit(&format!("{pointer}/rules/{i}"), rule);
                }
            }
        }
    }
}

fn visit_nodes<'s>(nodes: &'s [Node], pointer: &str, visit: &mut dyn FnMut(&str, &'s Rule)) {
    for (i, node) in nodes.iter().enumerate() {
        if let Some(zones) = &node.zones {
            visit_zones(zones, &format!("{pointer}/{i}"), visit);
        }
    }
}

/// The page itself, as a component.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// The props of the page, such as its title. Responses contain them as written. In a route with `each`,
    /// `{"$item": "fields.title"}` is a value of the item, and so is `{$item.fields.title}` inside a text.
    #[schemars(with = "AnyObject")]
    pub props: RawJson,
}

/// A place for components: an array is the same for all visitors, an object is personalized.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub enum Zone {
    Plain(Vec<Node>),
    Personalized(PersonalizedZone),
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ZoneVisitor)
    }
}

struct ZoneVisitor;

impl<'de> Visitor<'de> for ZoneVisitor {
    type Value = Zone;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of nodes or a personalized zone")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Zone, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(array)).map(Zone::Plain)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Zone, A::Error> {
        Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Zone::Personalized)
    }
}

/// A zone whose content depends on the visitor. No other personalized zone of the route may have the same
/// name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonalizedZone {
    /// The content if no rule matches.
    pub default: Vec<Node>,
    /// The alternative contents, by variant key.
    #[schemars(with = "BTreeMap<VariantKey, Vec<Node>>")]
    pub variants: Members<Name, Vec<Node>>,
    /// The rules, tried in order. The first rule that matches selects the variant.
    pub rules: Vec<Rule>,
}

/// The schema of a variant key.
#[derive(JsonSchema)]
#[schemars(inline, extend("pattern" = VARIANT_KEY.regex))]
struct VariantKey(#[expect(dead_code, reason = "only the schema of its type is used")] String);

/// A component of the page.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The ID of the component, for the page's code.
    pub id: Name,
    /// The type of the component, as the page's code names it.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub kind: String,
    /// The props of the component. Responses contain them as written. In a route with `each`,
    /// `{"$item": "fields.title"}` is a value of the item, and so is `{$item.fields.title}` inside a text.
    #[schemars(with = "AnyObject")]
    pub props: RawJson,
    /// Zones inside this component.
    pub zones: Option<Members<Name, Zone>>,
    /// A content query. Responses contain the first page of its items in this node.
    pub query: Option<EmbeddedQuery>,
}

/// A content query whose items are part of a node.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddedQuery {
    /// The key of the query in `queries.json`.
    pub id: Name,
    /// The parameter values by name. In a pattern route, `{"$route": "slug"}` is that part of the path.
    #[schemars(with = "Option<BTreeMap<Name, Value>>")]
    pub params: Option<Members<Name, RawJson>>,
}

/// A rule that selects a variant: for an audience, by a condition, or by an experiment.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Rule {
    Audience {
        /// The key of the audience in `audiences.json`.
        audience: Name,
        /// The key of the variant, or `default`.
        variant: Name,
    },
    When {
        /// A condition over the visitor's profile.
        #[schemars(with = "VisitorCondition")]
        when: Value,
        /// The key of the variant, or `default`.
        variant: Name,
    },
    Experiment {
        /// The experiment that selects the variant.
        experiment: Box<Experiment>,
        /// A condition over the visitor's profile. Only visitors that match take part. Default: all visitors.
        #[schemars(with = "Option<VisitorCondition>")]
        when: Option<Value>,
    },
}
