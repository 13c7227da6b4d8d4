//! `queries.json`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value};

use super::AnyObject;
use crate::site::source::pattern::Name;

/// A content query.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// The collection that is asked: `content/<collection>.json`.
    pub collection: Name,
    /// What a caller may give.
    #[serde(default)]
    pub params: BTreeMap<Name, Param>,
    /// Which items match: a condition over their fields, in which `{"$param": "name"}` stands for what the caller gave. A clause
    /// whose parameter is not given is left out, and so is what then holds nothing: an alternative of an `$or`, a `$not`.
    #[serde(rename = "where")]
    #[schemars(with = "Option<AnyObject>")]
    pub matching: Option<Value>,
    /// Fields to sort by, `-` before those that descend. Items that are equal in all of them stand by `id`.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub order_by: Vec<String>,
    /// The fields that an answer has. Left out: all.
    #[schemars(inner(length(min = 1)))]
    pub select: Option<Vec<String>>,
    /// How many items a page of the answer has, unless the caller says otherwise. Left out: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// What a caller may give to a query.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// The type of its values, exactly: `"1"` is no number.
    #[serde(rename = "type")]
    pub kind: ParamKind,
    /// The only values it may have.
    #[serde(rename = "enum")]
    #[schemars(length(min = 1))]
    pub values: Option<Vec<Scalar>>,
    /// Its value where the caller gives none.
    pub default: Option<Scalar>,
    /// Whether the caller may leave it out; clauses that use it are then left out too.
    #[serde(default)]
    pub optional: bool,
    /// The least number it may be.
    pub minimum: Option<Number>,
    /// The greatest number it may be.
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

/// A value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    String(String),
    Number(Number),
    Boolean(bool),
}

/// As a message repeats it.
impl fmt::Display for Scalar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::String(text) => write!(out, "{text:?}"),
            Scalar::Number(number) => number.fmt(out),
            Scalar::Boolean(boolean) => boolean.fmt(out),
        }
    }
}
