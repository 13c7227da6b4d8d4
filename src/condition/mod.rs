//! Conditions: the predicates of audiences, rules and content queries.
//!
//! A condition is a Mongo-style JSON document in GrowthBook's dialect. It is evaluated over another document.
//! The result is whether it holds, and on request the test that decided. The steps are: JSON > `parse_strict`
//! or `parse_lenient` > [`Condition`] > [`Condition::compile`] > [`program::Program`] in a snapshot file >
//! [`verify()`] > [`Evaluator`]. The module also has the hashing that assigns visitors to the shares of an
//! experiment ([`hash`], [`bucket_ranges`]).
//!
//! Invariants:
//!
//! * Evaluation allocates nothing, except for explanations.
//! * It takes time linear in the size of the program times the size of the document.
//! * It decodes nothing: the constants, names and texts of a program are used where they are in the file.
//! * Verification refuses every program with which evaluation would not end or would panic.
//!
//! The module knows neither profiles nor content. A [`Vocabulary`] defines the paths, and a [`Document`] has
//! the values.
//!
//! GrowthBook's test cases are the definition. Where they are silent, the operators treat null, booleans,
//! numbers and strings as GrowthBook's JavaScript does. The exception is null: it has no text, so it matches
//! no regular expression and equals no string. Arrays and objects are compared by their contents and have
//! neither a text nor a number.

mod bucket;
mod compare;
mod compile;
mod evaluate;
mod open;
mod operand;
mod operator;
mod params;
mod parse;
mod pattern;
pub mod program;
mod tree;
pub(crate) mod value;
mod verify;

pub(crate) use bucket::{RESIDUE_MAX, ranges_of_weights, without_residue};
pub use bucket::{
    bucket_ranges, bucket_shares, choose_variation, equal_weights, hash, hash_after_seed, in_namespace,
    seed_hash,
};
pub(crate) use compare::to_number;
pub(crate) use evaluate::DecidingTest;
pub use evaluate::{Audiences, EncodedDocument, Evaluator, Memo, NoAudiences};
pub(crate) use open::{AudienceResults, OpenResult};
pub(crate) use operand::{TYPE_NAMES, parse_duration_ms};
pub(crate) use operator::OperandKind;
pub use operator::Operator;
pub use parse::{ConditionError, parse_lenient, parse_strict};
pub use pattern::{Patterns, TABLE_FORMAT};
pub use tree::{Condition, find_overlong_chain};
pub use value::{Value, encode};
pub(crate) use value::{encode_scalar, encode_value};
pub use verify::{References, verify, verify_audiences};

use serde_json::Value as Json;

/// The names that the conditions of a site may use.
pub trait Vocabulary {
    /// Returns the field at a dotted path. The error is the most similar known path, if there is one.
    fn field(&self, path: &str) -> Result<Field, Option<String>>;
    /// Describes the known paths, for the error of an unknown one that is similar to none of them.
    fn expected_paths(&self, _unknown_path: &str) -> String {
        "a path of a known field".to_owned()
    }
    /// Returns the members of a group.
    fn group(&self, name: &str) -> Option<&[Json]>;
    fn group_names(&self) -> Vec<&str>;
    /// Returns the index of an audience of the site, below [`crate::limits::AUDIENCES_MAX`]. By default there
    /// are no audiences.
    fn audience(&self, _name: &str) -> Option<u16> {
        None
    }
    fn audience_names(&self) -> Vec<&str> {
        Vec::new()
    }
    /// Parses an author's time (RFC 3339) to milliseconds since 1970. Only fields that are times need it.
    fn time_ms(&self, _text: &str) -> Option<i64> {
        None
    }
    /// Returns the names of the parameters by index, or `None` if conditions have no parameters.
    fn param_names(&self) -> Option<Vec<&str>> {
        None
    }
}

/// A field that a path names. `code` and `name` are the arguments for [`Document::get`] and have a meaning
/// only for the vocabulary and the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub code: u16,
    pub name: String,
    pub kind: FieldKind,
}

/// The kind of a field, which determines the operators that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Any JSON value. Accepts all operators except `$within` and `$count`.
    Any,
    /// Milliseconds since 1970, or null. Accepts comparisons (also with a time as text), `$exists`, `$type`
    /// and `$within`.
    Time,
    /// The times of an event or page. Accepts `$count`.
    History,
}

impl FieldKind {
    fn accepts(self, operator: Operator) -> bool {
        use Operator::{Count, Eq, Exists, Gt, Gte, In, LooseEq, Lt, Lte, Ne, Nin, Not, Type, Within};
        match self {
            FieldKind::Any => !matches!(operator, Within | Count),
            FieldKind::History => matches!(operator, Count | Not),
            FieldKind::Time => matches!(
                operator,
                LooseEq | Eq | Ne | Gt | Gte | Lt | Lte | In | Nin | Exists | Type | Not | Within
            ),
        }
    }
}

/// A document over which conditions are evaluated.
pub trait Document {
    /// Returns the value of a field. `None` means that the field is missing. Conditions treat a missing field
    /// as null.
    fn get(&self, code: u16, name: &str) -> Option<Value<'_>>;
    /// Counts the occurrences in a history field, in total or since a time (inclusive). A count since a time
    /// may be capped at [`crate::limits::TIMES_KEPT`].
    fn count(&self, code: u16, name: &str, since_ms: Option<i64>) -> u64;
    /// Returns the time of the evaluation, in milliseconds since 1970.
    fn now_ms(&self) -> i64;
}

/// Iterates over the names of all operators: first those beside paths, then those on values. `$not` is both.
pub fn operator_names() -> impl Iterator<Item = &'static str> {
    let on_values = Operator::NAMES[1..].iter().map(|(_, name)| *name);
    parse::CONDITION_OPERATORS.into_iter().chain(on_values)
}

/// Iterates over the names of the operators beside paths.
pub(crate) fn condition_operators() -> impl Iterator<Item = &'static str> {
    parse::CONDITION_OPERATORS.into_iter()
}

/// Iterates over the operators on values: their names, and the kinds of their operands.
pub(crate) fn written_operators() -> impl Iterator<Item = (&'static str, OperandKind)> {
    Operator::NAMES[1..].iter().map(|(operator, name)| (*name, operator.operand_kind()))
}

/// Iterates over the names of the operators that a field of this kind accepts.
pub(crate) fn value_operators(kind: FieldKind) -> impl Iterator<Item = &'static str> {
    let written = Operator::NAMES[1..].iter();
    written.filter(move |(operator, _)| kind.accepts(*operator)).map(|(_, name)| *name)
}
