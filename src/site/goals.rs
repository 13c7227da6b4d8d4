//! The goals of a site: the events and pages that the team wants visitors to reach, and the amounts that they bring.
//!
//! `compile` writes the goals into the snapshot. The column files of Insights note for each event which goals it
//! reaches, so that no question reads the properties of events.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;

use super::experiment_metrics::Goal;
use crate::checksum::hash128;
use crate::limits::CURRENCY_CHARS_MAX;
use crate::record::RecordKind;

/// The begin of the path of a property.
const PROPERTIES: &str = "properties.";

/// A goal of a published site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteGoal {
    /// The key. Empty for the goal of an experiment with a `value`, which has no key.
    pub key: String,
    /// The display name.
    pub name: String,
    /// The event or the page. A `*` at the end matches any rest.
    pub target: Goal<String>,
    /// The tests of properties, by the path of the property. All of them must hold.
    pub tests: BTreeMap<PropertyPath, PropertyTest>,
    /// The property with the amount.
    pub value: Option<PropertyPath>,
    /// The property with the currency of the amount.
    pub currency: Option<PropertyPath>,
}

/// The goals of a site, in the order of their numbers, and the properties of its breakdowns.
#[derive(Clone, Default)]
pub struct SiteGoals {
    goals: Arc<[SiteGoal]>,
    /// The properties of breakdowns, sorted.
    properties: Arc<[PropertyPath]>,
    /// A hash of the site ID, the goals and the properties.
    id: u128,
}

/// Writes the ID. The text of an answer's key contains it.
impl fmt::Debug for SiteGoals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "goals {:032x}", self.id)
    }
}

impl PartialEq for SiteGoals {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl SiteGoals {
    /// Creates the goals of a site from the text of a snapshot, and its properties from their names. `None` if the text is
    /// no list of goals, or if a name is no path.
    pub fn parse<'p>(site: &str, text: &str, property_names: impl Iterator<Item = &'p str>) -> Option<Self> {
        let goals: Vec<SiteGoal> = serde_json::from_str(text).ok()?;
        let properties: Vec<PropertyPath> =
            property_names.map(PropertyPath::below_properties).collect::<Option<_>>()?;
        let names: String = properties.iter().map(|path| format!("\0{path}")).collect();
        let is_empty = goals.is_empty() && properties.is_empty();
        let id = if is_empty { 0 } else { hash128(format!("{site}\0{text}{names}").as_bytes()) };
        Some(Self { goals: goals.into(), properties: properties.into(), id })
    }

    /// Returns the text for a snapshot.
    pub(crate) fn to_text(goals: &[SiteGoal]) -> String {
        serde_json::to_string(goals).unwrap_or_default()
    }

    /// Returns a number that identifies the site with its goals and properties. It is 0 if there are none.
    pub(crate) fn id(&self) -> u128 {
        self.id
    }

    /// Returns all goals, in the order of their numbers.
    pub fn all(&self) -> &[SiteGoal] {
        &self.goals
    }

    /// Returns the properties of breakdowns, in the order of their columns.
    pub(crate) fn properties(&self) -> &[PropertyPath] {
        &self.properties
    }

    /// Returns the number and the goal with a key.
    pub(crate) fn by_key(&self, key: &str) -> Option<(usize, &SiteGoal)> {
        self.goals.iter().enumerate().find(|(_, goal)| !goal.key.is_empty() && goal.key == key)
    }

    /// Returns the number of the goal that has the amount of an experiment.
    pub(crate) fn amount_of(
        &self,
        target: &Goal<String>,
        value_path: &PropertyPath,
        currency_path: Option<&PropertyPath>,
    ) -> Option<usize> {
        self.goals.iter().position(|goal| goal.has_amount(target, value_path, currency_path))
    }
}

/// The fact about an event that decides which goals it can reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoalEvent<'e> {
    pub kind: RecordKind,
    /// The name of a track or screen event.
    pub event: Option<&'e str>,
    /// The path of a page event.
    pub path: Option<&'e str>,
}

impl SiteGoal {
    /// Returns whether an event is the event or the page of the goal. The properties can still fail a test.
    pub(crate) fn has_target(&self, event: GoalEvent<'_>) -> bool {
        let (is_kind, text, pattern) = match &self.target {
            Goal::Event(name) => {
                (matches!(event.kind, RecordKind::Track | RecordKind::Screen), event.event, name)
            }
            Goal::Page(path) => (event.kind == RecordKind::Page, event.path, path),
        };
        is_kind && text.is_some_and(|text| matches_pattern(text, pattern))
    }

    /// Returns whether the goal has this amount for each event of the target.
    pub(crate) fn has_amount(
        &self,
        target: &Goal<String>,
        value_path: &PropertyPath,
        currency_path: Option<&PropertyPath>,
    ) -> bool {
        self.target == *target
            && self.tests.is_empty()
            && self.value.as_ref() == Some(value_path)
            && self.currency.as_ref() == currency_path
    }

    /// Returns whether the goal depends on the properties of an event.
    pub(crate) fn reads_properties(&self) -> bool {
        !self.tests.is_empty() || self.value.is_some()
    }

    /// Returns whether all tests of properties hold.
    pub(crate) fn accepts(&self, properties: &Properties<'_>) -> bool {
        self.tests.iter().all(|(path, test)| test.holds(properties.get(path).as_ref()))
    }
}

/// Returns whether a text equals a pattern. A `*` at the end of the pattern matches any rest.
pub(crate) fn matches_pattern(text: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == pattern,
    }
}

/// The path of a property of an event: `properties.` and the names of members, separated by `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PropertyPath(String);

impl PropertyPath {
    /// Parses a path such as `properties.form`. `None` if the text is no path.
    pub fn parse(text: &str) -> Option<Self> {
        Self::below_properties(text.strip_prefix(PROPERTIES)?)
    }

    /// Parses a path without its `properties.`, such as `form`. `None` if the text is no path.
    pub(crate) fn below_properties(names: &str) -> Option<Self> {
        let is_name = |name: &str| {
            !name.is_empty() && !name.contains(|c: char| c.is_control() || ['"', '\\', '*'].contains(&c))
        };
        names.split('.').all(is_name).then(|| Self::of_name(names))
    }

    /// Returns the path with `properties.` before a name such as `revenue`.
    pub(crate) fn of_name(name: &str) -> Self {
        Self(format!("{PROPERTIES}{name}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path without its `properties.`.
    pub(crate) fn name(&self) -> &str {
        &self.0[PROPERTIES.len()..]
    }

    /// Iterates over the names of the members.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.name().split('.')
    }

    /// Returns the path in the syntax of DuckDB.
    pub(crate) fn json_path(&self) -> String {
        let names: String = self.names().map(|name| format!(".\"{name}\"")).collect();
        format!("$.properties{names}")
    }
}

impl TryFrom<String> for PropertyPath {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a property of events such as `properties.form`")
    }
}

impl From<PropertyPath> for String {
    fn from(path: PropertyPath) -> Self {
        path.0
    }
}

impl fmt::Display for PropertyPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The tests of one property. All of them must hold. A comparison with a value of another type does not hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PropertyTest {
    /// The property is this string, number or boolean.
    #[serde(rename = "$eq", skip_serializing_if = "Option::is_none")]
    pub eq: Option<PropertyValue>,
    /// The property is not this string, number or boolean. Holds without the property.
    #[serde(rename = "$ne", skip_serializing_if = "Option::is_none")]
    pub ne: Option<PropertyValue>,
    /// The property is one of these.
    #[serde(rename = "$in", skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<PropertyValue>>,
    /// The property is none of these. Holds without the property.
    #[serde(rename = "$nin", skip_serializing_if = "Option::is_none")]
    pub none_of: Option<Vec<PropertyValue>>,
    /// The property is greater than this number or string.
    #[serde(rename = "$gt", skip_serializing_if = "Option::is_none")]
    pub gt: Option<PropertyBound>,
    /// The property is greater than this number or string, or equal.
    #[serde(rename = "$gte", skip_serializing_if = "Option::is_none")]
    pub gte: Option<PropertyBound>,
    /// The property is less than this number or string.
    #[serde(rename = "$lt", skip_serializing_if = "Option::is_none")]
    pub lt: Option<PropertyBound>,
    /// The property is less than this number or string, or equal.
    #[serde(rename = "$lte", skip_serializing_if = "Option::is_none")]
    pub lte: Option<PropertyBound>,
    /// With `true`, the property is present and not null. With `false`, it is missing or null.
    #[serde(rename = "$exists", skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

/// A string, a number or a boolean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PropertyValue {
    Text(String),
    Number(Number),
    Boolean(bool),
}

/// A string or a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PropertyBound {
    Text(String),
    Number(Number),
}

/// The value of a property.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Property<'p> {
    Text(Cow<'p, str>),
    Number(f64),
    Boolean(bool),
    /// An array or an object.
    Compound,
}

impl PropertyTest {
    /// Returns whether the test has no operator.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether all tests hold. `property` is `None` if the property is missing or null.
    fn holds(&self, property: Option<&Property<'_>>) -> bool {
        let is = |value: &PropertyValue| property.is_some_and(|property| value.equals(property));
        let orders = |bound: &Option<PropertyBound>, accepts: fn(Ordering) -> bool| {
            bound.as_ref().is_none_or(|bound| {
                property.and_then(|property| bound.order_of(property)).is_some_and(accepts)
            })
        };
        self.eq.as_ref().is_none_or(is)
            && !self.ne.as_ref().is_some_and(is)
            && self.one_of.as_ref().is_none_or(|values| values.iter().any(is))
            && !self.none_of.as_ref().is_some_and(|values| values.iter().any(is))
            && orders(&self.gt, Ordering::is_gt)
            && orders(&self.gte, Ordering::is_ge)
            && orders(&self.lt, Ordering::is_lt)
            && orders(&self.lte, Ordering::is_le)
            && self.exists.is_none_or(|exists| exists == property.is_some())
    }
}

impl PropertyValue {
    fn equals(&self, property: &Property<'_>) -> bool {
        match self {
            Self::Text(text) => matches!(property, Property::Text(property) if property == text),
            Self::Number(number) => {
                matches!(property, Property::Number(property) if number.as_f64() == Some(*property))
            }
            Self::Boolean(flag) => matches!(property, Property::Boolean(property) if property == flag),
        }
    }
}

impl PropertyBound {
    /// Returns the order of a property relative to the bound. `None` if it has another type.
    fn order_of(&self, property: &Property<'_>) -> Option<Ordering> {
        match self {
            Self::Text(text) => match property {
                Property::Text(property) => Some(property.as_ref().cmp(text)),
                _ => None,
            },
            Self::Number(number) => match property {
                Property::Number(property) => property.partial_cmp(&number.as_f64()?),
                _ => None,
            },
        }
    }
}

/// The members of a JSON object, in their order. Of two members with one name the first counts, as in DuckDB.
struct Members<'p>(Vec<(Cow<'p, str>, &'p RawValue)>);

impl<'de: 'p, 'p> Deserialize<'de> for Members<'p> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(MemberName(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The name of a member. It is copied only if it has an escape.
#[derive(Deserialize)]
#[serde(transparent)]
struct MemberName<'p>(#[serde(borrow)] Cow<'p, str>);

impl<'p> Members<'p> {
    fn parse(json: &'p str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    fn get(&self, name: &str) -> Option<&'p RawValue> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }
}

/// The properties of an event. The payload is parsed when the first property is read.
pub(crate) struct Properties<'p> {
    payload: &'p str,
    /// The members of the object `properties`. `None` if the payload has no such object.
    members: OnceCell<Option<Members<'p>>>,
}

impl<'p> Properties<'p> {
    /// Creates the properties of an event with this payload.
    pub(crate) fn new(payload: &'p str) -> Self {
        Self { payload, members: OnceCell::new() }
    }

    fn members(&self) -> Option<&Members<'p>> {
        let parse = || {
            let properties = Members::parse(self.payload)?.get("properties")?;
            Members::parse(properties.get())
        };
        self.members.get_or_init(parse).as_ref()
    }

    /// Returns the JSON text of a property. `None` if the property is missing or null.
    pub(crate) fn json(&self, path: &PropertyPath) -> Option<&'p str> {
        let mut names = path.names();
        let mut value = self.members()?.get(names.next()?)?;
        for name in names {
            value = Members::parse(value.get())?.get(name)?;
        }
        Some(value.get()).filter(|json| *json != "null")
    }

    fn get(&self, path: &PropertyPath) -> Option<Property<'p>> {
        let json = self.json(path)?;
        Some(match json.as_bytes()[0] {
            b'"' => Property::Text(serde_json::from_str::<MemberName<'p>>(json).ok()?.0),
            b't' => Property::Boolean(true),
            b'f' => Property::Boolean(false),
            b'[' | b'{' => Property::Compound,
            _ => Property::Number(json.parse().ok()?),
        })
    }

    /// Returns the text of a property in a breakdown: a string, `true`, `false`, an integer of at most 64 bits, or another
    /// number from 0.0001 to below 10^15 or 0, with either sign. Further numbers have no single text in JSON. `None` for
    /// any other property.
    pub(crate) fn breakdown(&self, path: &PropertyPath) -> Option<Cow<'p, str>> {
        let json = self.json(path)?;
        let number = match self.get(path)? {
            Property::Text(text) => return Some(text),
            Property::Boolean(flag) => return Some(Cow::Borrowed(if flag { "true" } else { "false" })),
            Property::Compound => return None,
            Property::Number(number) => number,
        };
        let integer = json.parse::<i64>().map(|integer| integer.to_string());
        let integer = integer.or_else(|_| json.parse::<u64>().map(|integer| integer.to_string()));
        let is_short = number == 0.0 || (1e-4..1e15).contains(&number.abs());
        integer.ok().or_else(|| is_short.then(|| format!("{number:?}"))).map(Cow::Owned)
    }

    /// Returns the text of a currency. `None` if the property is no text, or is too long for a currency.
    pub(crate) fn currency(&self, path: &PropertyPath) -> Option<Cow<'p, str>> {
        match self.get(path)? {
            Property::Text(text) if text.chars().count() <= CURRENCY_CHARS_MAX && !text.is_empty() => {
                Some(text)
            }
            _ => None,
        }
    }
}
