//! What stands behind an operator: literals, regular expressions, groups, counts, durations.
//!
//! In comes an operand as written, out goes the test that it makes; operands of a wrong type are
//! faults, and read as JavaScript would where it would make sense of them.

use serde_json::Value as Json;

use super::parse::{Parser, Subject, holds_operators};
use super::tree::{Check, Node};
use super::{Kind, Operator, pattern};
use crate::limits::TIMES_KEPT;
use crate::nearest::nearest;

/// What may stand in a `$count`.
const COUNT_MEMBERS: [&str; 7] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "within"];
/// What `$type` tells apart.
const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// Literals.
impl Parser<'_> {
    pub(super) fn compare(&mut self, operator: Operator, operand: &Json, subject: Subject) -> Node {
        use Operator::{All, Alli, Eq, Exists, Gt, Gte, In, Ini, Is, Lt, Lte, Ne, Nin, Nini, Type};
        if !matches!(operator, Exists | Type | In | Nin | Ini | Nini | All | Alli)
            && let Some(param) = self.param(operator, operand)
        {
            return param;
        }
        let operand = match operator {
            Exists => Json::Bool(self.flag(operand)),
            Type => self.type_name(operand),
            In | Nin | Ini | Nini | All | Alli => match operand {
                Json::Array(items) => self.each(items, |p, item| p.item(item, subject)).into(),
                _ => return self.never("an array", operand),
            },
            Is | Eq | Ne => self.value(operand, subject),
            Gt | Gte | Lt | Lte => self.ordered(operand, subject),
            _ => self.version(operand),
        };
        Node::test(operator, operand, Check::Compare)
    }

    /// The comparison with `{"$param": name}`, where that is what is written and conditions have parameters.
    pub(super) fn param(&mut self, operator: Operator, source: &Json) -> Option<Node> {
        let names = self.vocabulary.param_names()?;
        let name = source.as_object().filter(|members| members.len() == 1)?.get("$param")?;
        let index = name.as_str().and_then(|name| names.iter().position(|known| *known == name));
        Some(match index {
            Some(index) => Node::Param { operator, index: index as u16 },
            None => self.at("$param", |p| {
                let nearest = nearest(name.as_str().unwrap_or_default(), names);
                p.unknown("a parameter of the query", &plain(name), nearest)
            }),
        })
    }

    fn item(&mut self, source: &Json, subject: Subject) -> Json {
        let is_plain = !source.as_object().is_some_and(holds_operators);
        self.expect(is_plain, "a value, which operators are not", source);
        self.value(source, subject)
    }

    /// Numbers have an order, and strings have one.
    fn ordered(&mut self, source: &Json, subject: Subject) -> Json {
        if source.is_number() || source.is_string() {
            return self.value(source, subject);
        }
        self.never("a number or a string", source);
        source.clone()
    }

    fn version(&mut self, source: &Json) -> Json {
        self.expect(source.is_number() || source.is_string(), "a version", source);
        source.clone()
    }

    /// A literal as it is compared: where times are, in milliseconds.
    fn value(&mut self, source: &Json, subject: Subject) -> Json {
        let inside = self.vocabulary.param_names().is_some() && holds_param(source);
        self.expect(!inside, "$param as the whole value, not inside another", source);
        if subject.kind != Some(Kind::Time) {
            return source.clone();
        }
        let time = match source {
            Json::String(text) => self.vocabulary.time_ms(text).map(Json::from),
            Json::Number(_) | Json::Null => Some(source.clone()),
            _ => None,
        };
        self.expect(time.is_some(), "a time (RFC 3339), or milliseconds since 1970", source);
        time.unwrap_or_default()
    }

    fn flag(&mut self, source: &Json) -> bool {
        self.expect(source.is_boolean(), "true or false", source);
        let is_falsy =
            matches!(source, Json::Null | Json::Bool(false)) || source.as_f64() == Some(0.0) || source == "";
        !is_falsy
    }

    fn type_name(&mut self, source: &Json) -> Json {
        let name = source.as_str().unwrap_or_default();
        if !TYPES.contains(&name) {
            let expected = format!("one of {}", TYPES.join(" "));
            self.unknown(&expected, &plain(source), nearest(name, TYPES));
        }
        source.clone()
    }
}

/// What a site names, and expressions.
impl Parser<'_> {
    pub(super) fn pattern(&mut self, operator: Operator, operand: &Json, caseless: bool) -> Node {
        let Json::String(written) = operand else {
            return self.never("a string: a regular expression", operand);
        };
        match pattern::source(written, caseless) {
            Ok(source) => Node::test(operator, operand.clone(), Check::Pattern { source }),
            Err(fault) => self.never(&format!("a regular expression ({fault})"), operand),
        }
    }

    pub(super) fn group(&mut self, operator: Operator, operand: &Json) -> Node {
        let name = operand.as_str();
        let members = name.and_then(|name| self.vocabulary.group(name));
        let members = members.map(<[Json]>::to_vec);
        if members.is_none() {
            let nearest = nearest(name.unwrap_or_default(), self.vocabulary.group_names());
            self.unknown("the name of a group", &plain(operand), nearest);
        }
        Node::test(operator, operand.clone(), Check::Group { members: members.unwrap_or_default() })
    }
}

/// `$count` and durations.
impl Parser<'_> {
    pub(super) fn within(&mut self, operand: &Json) -> Node {
        match self.duration_ms(operand) {
            Some(ms) => Node::test(Operator::Within, operand.clone(), Check::Within { ms }),
            None => Node::Never,
        }
    }

    pub(super) fn count(&mut self, operand: &Json) -> Node {
        let Json::Object(members) = operand else {
            return self.never("an object such as {\"$gte\":3,\"within\":\"7d\"}", operand);
        };
        let within = members.get("within");
        let within_ms = within.and_then(|within| self.at("within", |p| p.duration_ms(within)));
        let comparisons = members.iter().filter(|(key, _)| *key != "within");
        let bounds: Vec<_> = comparisons
            .filter_map(|(key, bound)| self.at(key, |p| p.bound(key, bound, within.is_some())))
            .collect();
        self.expect(members.keys().any(|key| key != "within"), "a comparison", operand);
        Node::test(Operator::Count, operand.clone(), Check::Count { within_ms, bounds })
    }

    /// Without `within` the whole count is known, and any bound can be decided. The times of a
    /// window are among those kept, so what needs more than are kept cannot be.
    fn bound(&mut self, key: &str, source: &Json, in_window: bool) -> Option<(Operator, u64)> {
        let known = COUNT_MEMBERS.contains(&key).then(|| Operator::named(key)).flatten();
        let Some(operator) = known else {
            self.unknown("a comparison, or within", key, nearest(key, COUNT_MEMBERS));
            return None;
        };
        let max = match operator {
            _ if !in_window => u64::MAX,
            Operator::Gte | Operator::Lt => TIMES_KEPT,
            _ => TIMES_KEPT - 1,
        };
        let Some(bound) = source.as_u64().filter(|bound| *bound <= max) else {
            let reason = format!(" up to {max}, for the last {TIMES_KEPT} times are kept");
            let reason = if in_window { reason } else { String::new() };
            self.never(&format!("a whole number{reason}"), source);
            return None;
        };
        Some((operator, bound))
    }

    fn duration_ms(&mut self, source: &Json) -> Option<i64> {
        let ms = source.as_str().and_then(duration_ms);
        self.expect(ms.is_some(), "a whole number of s, m, h or d, such as \"7d\"", source);
        ms
    }
}

fn holds_param(source: &Json) -> bool {
    match source {
        Json::Object(members) => members.contains_key("$param") || members.values().any(holds_param),
        Json::Array(items) => items.iter().any(holds_param),
        _ => false,
    }
}

/// A name as it is written, anything else as JSON.
fn plain(source: &Json) -> String {
    source.as_str().map_or_else(|| source.to_string(), str::to_owned)
}

/// Milliseconds of a text like "24h", at least one second.
fn duration_ms(text: &str) -> Option<i64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: i64 = digits.parse().ok().filter(|count| is_number && *count > 0)?;
    count.checked_mul(unit_ms)
}
