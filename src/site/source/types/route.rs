//! `routes/**/*.json`: routes, layouts, zones and rules.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize as Read;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{AnyObject, Authored, Members};
use crate::site::source::pattern::{ITEM_PATH, Name, ROUTE_PATH, VARIANT_KEY};

/// One page of the site. Its path counts, not the file's name.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub enum Route {
    Page(PageRoute),
    Redirect(RedirectRoute),
}

/// A path that shows a layout.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageRoute {
    /// The path: `/pricing`, or a pattern: `/blog/:slug`, `/docs/*`.
    #[schemars(extend("pattern" = ROUTE_PATH.regex))]
    pub path: String,
    /// When the page was last changed (RFC 3339).
    pub updated_at: Option<String>,
    /// The items of a collection, each of which makes one path of the pattern. Left out: the pattern takes any value.
    pub each: Option<Each>,
    /// What the page shows.
    pub layout: Layout,
}

/// The items that make the paths of a pattern. For each of the pattern's parameters there is a member that says what of the
/// item its value is: `"slug": "fields.slug"`.
#[derive(Debug, Clone, Read, JsonSchema)]
pub struct Each {
    /// The collection: `content/<collection>.json`.
    pub collection: Name,
    /// Which of its items: a condition over their fields. Left out: all.
    #[serde(rename = "where")]
    #[schemars(with = "Option<AnyObject>")]
    pub matching: Option<Value>,
    /// What of an item each of the pattern's parameters is.
    #[serde(flatten)]
    pub params: BTreeMap<String, ItemPath>,
}

/// What of an item a value is: `id`, `type`, or a field: `fields.slug`.
#[derive(Debug, Clone, Read, JsonSchema)]
#[schemars(inline, extend("pattern" = ITEM_PATH.regex))]
pub struct ItemPath(pub String);

/// A path that leads to another.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedirectRoute {
    /// The path: `/pricing`, or a pattern: `/blog/:slug`, `/docs/*`.
    #[schemars(extend("pattern" = ROUTE_PATH.regex))]
    pub path: String,
    /// When the redirect was last changed (RFC 3339).
    pub updated_at: Option<String>,
    /// Where it leads.
    pub redirect: Redirect,
}

/// Where a redirect leads.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// A path of this site, or a URL.
    #[schemars(length(min = 1))]
    pub to: String,
    /// The HTTP status it stands for.
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

/// Either form, told by its text: serde's own buffering for this would lose the text of props.
impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        if let Ok(redirect) = serde_json::from_str(text) {
            return Ok(Route::Redirect(redirect));
        }
        serde_json::from_str(text).map(Route::Page).map_err(D::Error::custom)
    }
}

/// What a page shows.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    pub root: Root,
    /// The zones of the page by name, in the order in which they are answered.
    pub zones: Members<Name, Zone>,
}

/// The page itself, as a component.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// The page's props, such as its title. Answered as they are written.
    #[schemars(with = "AnyObject")]
    pub props: Authored,
}

/// A place for nodes: the same for everyone (an array), or personalized (an object).
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

    fn visit_seq<A: SeqAccess<'de>>(self, nodes: A) -> Result<Zone, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(nodes)).map(Zone::Plain)
    }

    fn visit_map<A: MapAccess<'de>>(self, zone: A) -> Result<Zone, A::Error> {
        Deserialize::deserialize(MapAccessDeserializer::new(zone)).map(Zone::Personalized)
    }
}

/// A zone whose nodes depend on the visitor. Its name is the only one of a personalized zone in its route.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonalizedZone {
    /// What is shown where no rule matches.
    pub default: Vec<Node>,
    /// What else may be shown, by key.
    #[schemars(with = "BTreeMap<VariantKey, Vec<Node>>")]
    pub variants: Members<Name, Vec<Node>>,
    /// Tried in order; the first that matches decides.
    pub rules: Vec<Rule>,
}

/// The schema of a variant's key.
#[derive(JsonSchema)]
#[schemars(inline, extend("pattern" = VARIANT_KEY.regex))]
struct VariantKey(#[expect(dead_code, reason = "only the schema of its type is used")] String);

/// A component of the page.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub id: Name,
    /// The component's type, as the page's code names it.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub kind: String,
    /// The component's props. Answered as they are written.
    #[schemars(with = "AnyObject")]
    pub props: Authored,
    /// Zones inside this component.
    pub zones: Option<Members<Name, Zone>>,
    /// A content query whose items the answer carries with this node.
    pub query: Option<EmbeddedQuery>,
}

/// A content query whose items an answer carries.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddedQuery {
    /// The query's name in `queries.json`.
    pub id: Name,
    /// Its parameters by name. In a pattern route, `{"$route": "slug"}` stands for a part of the path.
    #[schemars(with = "Option<BTreeMap<Name, Value>>")]
    pub params: Option<Members<Name, Authored>>,
}

/// Who sees a variant: an audience, whom a condition matches, or a share of the visitors in an experiment.
#[derive(Debug, Clone, Read, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Rule {
    Audience {
        /// The audience's name in `audiences.json`.
        audience: Name,
        /// The variant's key, or `default`.
        variant: Name,
    },
    When {
        /// A condition over the visitor's profile.
        #[schemars(with = "AnyObject")]
        when: Value,
        /// The variant's key, or `default`.
        variant: Name,
    },
    Experiment {
        experiment: Experiment,
        /// Who takes part: a condition over the visitor's profile. Left out: everyone.
        #[schemars(with = "Option<AnyObject>")]
        when: Option<Value>,
    },
}

/// An experiment. The same key in several zones is one experiment, whose zones move together.
#[derive(Debug, Clone, PartialEq, Read, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub key: Name,
    /// The keys of its arms; `default` is the zone's own nodes.
    #[schemars(length(min = 1))]
    pub variants: Vec<Name>,
    /// The share of each arm; their sum is 1. Left out: equal.
    pub weights: Option<Vec<Share>>,
    /// The share of visitors that takes part.
    #[serde(default = "everyone")]
    #[schemars(extend("default" = 1))]
    pub coverage: Share,
    /// What is hashed with the visitor's id. Left out: the key.
    #[schemars(length(min = 1))]
    pub seed: Option<String>,
    /// A name and the range of its visitors, 0 to 1, that takes part: experiments in ranges apart never share a visitor.
    pub namespace: Option<(Name, Share, Share)>,
    /// The share of visitors that is kept at `default` and meets no later rule.
    pub holdout: Option<Share>,
}

fn everyone() -> Share {
    Share(1.0)
}

/// A share, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Read, JsonSchema)]
#[schemars(inline, extend("minimum" = 0, "maximum" = 1))]
pub struct Share(pub f64);
