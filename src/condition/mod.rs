//! Conditions: who an audience is, when a rule applies, which content a query wants.
//!
//! In comes a Mongo-style document in GrowthBook's dialect and a document that it is about; out
//! goes whether it holds, and why. The way of a condition: JSON > [`strict`] or [`lenient`] >
//! [`Condition`] > [`Condition::compile`] > a program of flat bytes > [`Evaluator`]. Beside it
//! stand the shares of visitors that experiments take ([`hash`], [`bucket_ranges`]).
//!
//! A condition of a content query may name parameters; its program is a template, which [`bind`] turns into a program once
//! their values are known.
//!
//! What always holds: evaluating allocates nothing, takes time linear in the program times the
//! document, and takes any bytes without a panic. The module knows neither profiles nor content:
//! what paths mean says a [`Vocabulary`], what stands there says a [`Document`].
//!
//! The definition is GrowthBook's cases. Where they are silent the operators do what GrowthBook's
//! JavaScript does with null, booleans, numbers and strings, except that null has no text (it
//! matches no regular expression and equals no string); arrays and objects are compared by
//! contents and have neither a text nor a number.

mod bucket;
mod compare;
mod compile;
mod evaluate;
mod operand;
mod parse;
mod pattern;
mod template;
mod tree;
mod value;

pub use bucket::{Range, bucket_ranges, choose_variation, equal_weights, hash, in_namespace};
pub use compare::number_of;
pub use compile::ProgramTooLarge;
pub use evaluate::{Audiences, Encoded, Evaluator, Leaf, Memo};
pub use parse::{Fault, lenient, strict};
pub use pattern::{PatternFault, Patterns, PatternsFault};
pub use template::{Bound, bind};
pub use tree::{Condition, overlong_chain};
pub use value::{Array, Object, Value, encode, encode_scalar};

use serde_json::Value as Json;

/// What the conditions of a site may name.
pub trait Vocabulary {
    /// The field at a dotted path, or else the known path that is nearest to it.
    fn field(&self, path: &str) -> Result<Field, Option<String>>;
    /// The members of a group.
    fn group(&self, name: &str) -> Option<&[Json]>;
    fn group_names(&self) -> Vec<&str>;
    /// The index of an audience among the site's, below [`crate::limits::AUDIENCES_MAX`]; there are none unless said.
    fn audience(&self, _name: &str) -> Option<u16> {
        None
    }
    fn audience_names(&self) -> Vec<&str> {
        Vec::new()
    }
    /// A time as an author writes it (RFC 3339) in milliseconds since 1970; only fields of [`Kind::Time`] ask.
    fn time_ms(&self, _text: &str) -> Option<i64> {
        None
    }
    /// The names of the parameters, by index; `None` where conditions have none.
    fn param_names(&self) -> Option<Vec<&str>> {
        None
    }
}

/// What a path stands for: `code` and `name` are what a [`Document`] is asked for, and mean
/// something only to the vocabulary and the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub code: u16,
    pub name: String,
    pub kind: Kind,
}

/// Which operators a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any JSON value: all operators but `$within` and `$count`.
    Any,
    /// Milliseconds since 1970, or null: comparisons (also with a time as text), `$exists`,
    /// `$type`, `$within`.
    Time,
    /// The times something happened: `$count`.
    History,
}

/// What a condition is evaluated over.
pub trait Document {
    /// The value of a field; `None` where it is not there, which conditions take for null.
    fn get(&self, code: u16, name: &str) -> Option<Value<'_>>;
    /// How often the thing that a history field names happened: ever, or at or after a time. Since
    /// a time it may count no further than [`crate::limits::TIMES_KEPT`].
    fn count(&self, code: u16, name: &str, since_ms: Option<i64>) -> u64;
    /// The time at which the condition is decided, in milliseconds since 1970.
    fn now_ms(&self) -> i64;
}

/// The operators that stand at a value. Their numbers stand in programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Operator {
    /// No operator: the value itself was written, and is compared as loosely as JavaScript does.
    Is,
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    Nin,
    Ini,
    Nini,
    All,
    Alli,
    Exists,
    Type,
    Veq,
    Vne,
    Vgt,
    Vgte,
    Vlt,
    Vlte,
    Regex,
    Regexi,
    NotRegex,
    NotRegexi,
    InGroup,
    NotInGroup,
    Within,
    Count,
    Not,
    ElemMatch,
    Size,
}

impl Operator {
    /// Every operator where its number says, with its name in the dialect.
    const NAMED: [(Operator, &'static str); 32] = [
        (Operator::Is, "$eq"),
        (Operator::Eq, "$eq"),
        (Operator::Ne, "$ne"),
        (Operator::Gt, "$gt"),
        (Operator::Gte, "$gte"),
        (Operator::Lt, "$lt"),
        (Operator::Lte, "$lte"),
        (Operator::In, "$in"),
        (Operator::Nin, "$nin"),
        (Operator::Ini, "$ini"),
        (Operator::Nini, "$nini"),
        (Operator::All, "$all"),
        (Operator::Alli, "$alli"),
        (Operator::Exists, "$exists"),
        (Operator::Type, "$type"),
        (Operator::Veq, "$veq"),
        (Operator::Vne, "$vne"),
        (Operator::Vgt, "$vgt"),
        (Operator::Vgte, "$vgte"),
        (Operator::Vlt, "$vlt"),
        (Operator::Vlte, "$vlte"),
        (Operator::Regex, "$regex"),
        (Operator::Regexi, "$regexi"),
        (Operator::NotRegex, "$notRegex"),
        (Operator::NotRegexi, "$notRegexi"),
        (Operator::InGroup, "$inGroup"),
        (Operator::NotInGroup, "$notInGroup"),
        (Operator::Within, "$within"),
        (Operator::Count, "$count"),
        (Operator::Not, "$not"),
        (Operator::ElemMatch, "$elemMatch"),
        (Operator::Size, "$size"),
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::NAMED.get(usize::from(code)).map(|(operator, _)| *operator)
    }

    /// The operator that is written so. What is not written, [`Operator::Is`], is never found.
    fn named(name: &str) -> Option<Self> {
        let written = &Self::NAMED[1..];
        written.iter().find(|(_, known)| *known == name).map(|(operator, _)| *operator)
    }

    fn name(self) -> &'static str {
        Self::NAMED[self as usize].1
    }
}

/// An operator's number is its place among the names.
const _: () = {
    let mut code = 0;
    while code < Operator::NAMED.len() {
        assert!(Operator::NAMED[code].0 as usize == code);
        code += 1;
    }
};
