//! The types of `queries.json`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value};

use super::ItemCondition;
use crate::site::source::pattern::Name;

/// A content query.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// The collection to search: `content/<collection>.json`.
    pub collection: Name,
    /// The parameters that a caller can pass, by name.
    #[serde(default)]
    pub params: BTreeMap<Name, Param>,
    /// A condition over the items' fields. `{"$param": "name"}` is the value that the caller passes. If the
    /// caller leaves an optional parameter out, the clauses that use it are removed. An alternative of an
    /// `$or`, or a `$not`, that becomes empty is removed too.
    #[serde(rename = "where")]
    #[schemars(with = "Option<ItemCondition>")]
    pub condition: Option<Value>,
    /// The fields to sort by; a leading `-` sorts in descending order. Items with equal values are sorted by
    /// `id`.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub order_by: Vec<String>,
    /// The fields to return. Default: all.
    #[schemars(inner(length(min = 1)))]
    pub select: Option<Vec<String>>,
    /// The number of items per page if the caller does not set one. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// A parameter of a query.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// The type of the values. There is no conversion: `"1"` is not a number.
    #[serde(rename = "type")]
    pub kind: ParamKind,
    /// The allowed values. Default: all values of the type.
    #[serde(rename = "enum")]
    #[schemars(length(min = 1))]
    pub values: Option<Vec<Scalar>>,
    /// The value to use if the caller passes none.
    pub default: Option<Scalar>,
    /// Whether the caller may leave the parameter out. The clauses that use it are then removed.
    #[serde(default)]
    pub optional: bool,
    /// The smallest allowed number.
    pub minimum: Option<Number>,
    /// The largest allowed number.
    pub maximum: Option<Number>,
}

/// The type of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ParamKind {
    String,
    Number,
    Boolean,
}

/// A value of a parameter: a string, a number or a boolean.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    String(String),
    Number(Number),
    Boolean(bool),
}

/// Writes the value as diagnostics quote it.
impl fmt::Display for Scalar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::String(text) => write!(out, "{text:?}"),
            Scalar::Number(number) => number.fmt(out),
            Scalar::Boolean(boolean) => boolean.fmt(out),
        }
    }
}
