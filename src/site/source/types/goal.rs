//! The type of a goal in `site.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Number;

use crate::limits::{EVENT_NAME_CHARS_MAX, GOAL_NAME_CHARS_MAX, GOAL_TEST_VALUES_MAX};
use crate::site::goals::{PropertyPath, PropertyTest};
use crate::site::source::pattern::{PROPERTY, ROUTE_PATH};

/// A goal: an event or a page that visitors should reach. It has either an `event` or a `page`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// A display name, such as `Purchase`.
    #[schemars(length(min = 1, max = GOAL_NAME_CHARS_MAX))]
    pub name: String,
    /// The name of a track or screen event, such as `Order Placed`. A `*` at the end matches any rest.
    #[schemars(length(min = 1, max = EVENT_NAME_CHARS_MAX))]
    pub event: Option<String>,
    /// The path of a page, such as `/thanks`. A `*` at the end matches any rest.
    #[schemars(regex(pattern = ROUTE_PATH.regex))]
    pub page: Option<String>,
    /// Tests of properties of the event, by the path of the property, such as `properties.form`. All of them must hold.
    #[serde(default, rename = "where")]
    #[schemars(with = "BTreeMap<PropertyName, PropertyOperators>")]
    pub tests: BTreeMap<PropertyPath, PropertyTest>,
    /// The property with the amount, such as `properties.revenue`.
    #[schemars(with = "Option<PropertyName>")]
    pub value: Option<PropertyPath>,
    /// The property with the currency of the amount, such as `properties.currency`. Amounts of different currencies are never
    /// added up. Needs a `value`.
    #[schemars(with = "Option<PropertyName>")]
    pub currency: Option<PropertyPath>,
}

/// The visit to which conversions are credited if their own visit has no source.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attribution {
    /// The longest time between a visit and a conversion that is credited to it, such as `30d`: a whole number of `s`, `m`, `h` or
    /// `d`, at most 366 days.
    #[serde(default = "thirty_days")]
    pub window: String,
    /// The model.
    #[serde(default)]
    #[schemars(extend("default" = "last"))]
    pub model: AttributionModel,
}

impl Default for Attribution {
    fn default() -> Self {
        Self { window: thirty_days(), model: AttributionModel::Last }
    }
}

fn thirty_days() -> String {
    "30d".to_owned()
}

/// The visit that a conversion is credited to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttributionModel {
    /// The visit of the conversion, if it has a source, else the latest earlier visit with a source.
    #[default]
    Last,
    /// The earliest visit with a source.
    First,
}

/// The path of a property, for the schema of a [`PropertyPath`].
#[derive(JsonSchema)]
#[schemars(inline, extend("pattern" = PROPERTY.regex))]
pub(super) struct PropertyName(#[expect(dead_code, reason = "only its schema is used")] String);

/// The tests of one property, for the schema of a [`PropertyTest`]. All of them must hold. A comparison with a value of another
/// type does not hold.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct PropertyOperators {
    /// The property is this string, number or boolean.
    #[schemars(rename = "$eq")]
    eq: Option<PropertyValue>,
    /// The property is not this string, number or boolean. Holds without the property.
    #[schemars(rename = "$ne")]
    ne: Option<PropertyValue>,
    /// The property is one of these.
    #[schemars(rename = "$in", length(min = 1, max = GOAL_TEST_VALUES_MAX))]
    one_of: Option<Vec<PropertyValue>>,
    /// The property is none of these. Holds without the property.
    #[schemars(rename = "$nin", length(min = 1, max = GOAL_TEST_VALUES_MAX))]
    none_of: Option<Vec<PropertyValue>>,
    /// The property is greater than this number or string.
    #[schemars(rename = "$gt")]
    gt: Option<PropertyBound>,
    /// The property is greater than this number or string, or equal.
    #[schemars(rename = "$gte")]
    gte: Option<PropertyBound>,
    /// The property is less than this number or string.
    #[schemars(rename = "$lt")]
    lt: Option<PropertyBound>,
    /// The property is less than this number or string, or equal.
    #[schemars(rename = "$lte")]
    lte: Option<PropertyBound>,
    /// With `true`, the property is present and not null. With `false`, it is missing or null.
    #[schemars(rename = "$exists")]
    exists: Option<bool>,
}

/// A string, a number or a boolean.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum PropertyValue {
    Text(String),
    Number(Number),
    Boolean(bool),
}

/// A string or a number.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum PropertyBound {
    Text(String),
    Number(Number),
}
