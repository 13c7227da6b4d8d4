//! Parsing of operands: literals, regular expressions, groups, counts and durations.
//!
//! Each operand becomes a test. An operand of a wrong type is an error. The lenient parser continues with
//! JavaScript's interpretation where there is one.

use serde_json::Value as Json;

use super::parse::{Parser, Subject, has_only_operators};
use super::tree::{Check, Node};
use super::{FieldKind, Operator, pattern};
use crate::limits::TIMES_KEPT;
use crate::nearest::nearest;

/// The members that a `$count` may have.
const COUNT_MEMBERS: [&str; 7] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "within"];
/// The type names for `$type`.
pub(crate) const TYPE_NAMES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

// Literals.
impl Parser<'_> {
    pub(super) fn parse_comparison(&mut self, operator: Operator, operand: &Json, subject: Subject) -> Node {
        use Operator::{All, Alli, Eq, Exists, Gt, Gte, In, Ini, LooseEq, Lt, Lte, Ne, Nin, Nini, Type};
        if !matches!(operator, Exists | Type | In | Nin | Ini | Nini | All | Alli)
            && let Some(param) = self.parse_param(operator, operand)
        {
            return param;
        }
        let operand = match operator {
            Exists => Json::Bool(self.parse_flag(operand)),
            Type => self.parse_type_name(operand),
            In | Nin | Ini | Nini | All | Alli => match operand {
                Json::Array(items) => self.parse_each(items, |p, item| p.parse_item(item, subject)).into(),
                _ => return self.reject("an array", operand),
            },
            LooseEq | Eq | Ne => self.parse_value(operand, subject),
            Gt | Gte | Lt | Lte => self.parse_ordered(operand, subject),
            _ => self.parse_version(operand),
        };
        Node::test(operator, operand, Check::Compare)
    }

    /// Parses `{"$param": name}`. Returns `None` for any other operand, and if conditions have no parameters.
    pub(super) fn parse_param(&mut self, operator: Operator, operand: &Json) -> Option<Node> {
        let names = self.vocabulary.param_names()?;
        let name = operand.as_object().filter(|members| members.len() == 1)?.get("$param")?;
        let index = name.as_str().and_then(|name| names.iter().position(|known| *known == name));
        Some(match index {
            Some(index) => Node::Param { operator, index: index as u16 },
            None => self.at_token("$param", |p| {
                let nearest = nearest(name.as_str().unwrap_or_default(), names);
                p.reject_with_hint("a parameter of the query", &display_text(name), nearest)
            }),
        })
    }

    fn parse_item(&mut self, source: &Json, subject: Subject) -> Json {
        let is_plain = !source.as_object().is_some_and(has_only_operators);
        self.check(is_plain, "a value, not operators", source);
        self.parse_value(source, subject)
    }

    /// Parses an operand of an ordering operator. Only numbers and strings have an order.
    fn parse_ordered(&mut self, operand: &Json, subject: Subject) -> Json {
        if operand.is_number() || operand.is_string() {
            return self.parse_value(operand, subject);
        }
        self.reject("a number or a string", operand);
        operand.clone()
    }

    fn parse_version(&mut self, operand: &Json) -> Json {
        self.check(operand.is_number() || operand.is_string(), "a version", operand);
        operand.clone()
    }

    /// Parses a literal. For fields that are times the result is in milliseconds.
    fn parse_value(&mut self, source: &Json, subject: Subject) -> Json {
        let inside = self.vocabulary.param_names().is_some() && contains_param(source);
        self.check(!inside, "$param as the whole value, not inside another value", source);
        if subject.kind != Some(FieldKind::Time) {
            return source.clone();
        }
        let time = match source {
            Json::String(text) => self.vocabulary.time_ms(text).map(Json::from),
            Json::Number(_) | Json::Null => Some(source.clone()),
            _ => None,
        };
        let expected = "a time with a UTC offset, such as \"2026-01-05T10:00:00Z\" (RFC 3339), or milliseconds since 1970";
        self.check(time.is_some(), expected, source);
        time.unwrap_or_default()
    }

    fn parse_flag(&mut self, operand: &Json) -> bool {
        self.check(operand.is_boolean(), "true or false", operand);
        let is_zero = operand.as_f64() == Some(0.0);
        !(is_zero || operand == "" || matches!(operand, Json::Null | Json::Bool(false)))
    }

    fn parse_type_name(&mut self, operand: &Json) -> Json {
        let name = operand.as_str().unwrap_or_default();
        if !TYPE_NAMES.contains(&name) {
            let expected = format!("one of {}", TYPE_NAMES.join(" "));
            self.reject_with_hint(&expected, &display_text(operand), nearest(name, TYPE_NAMES));
        }
        operand.clone()
    }

    // Regular expressions and groups.

    pub(super) fn parse_pattern(&mut self, operator: Operator, operand: &Json, is_caseless: bool) -> Node {
        let Json::String(written) = operand else {
            return self.reject("a regular expression as a string", operand);
        };
        match pattern::prepare_source(written, is_caseless) {
            Ok(source) => Node::test(operator, operand.clone(), Check::Pattern { source }),
            Err(fault) => self.reject(&format!("a regular expression ({fault})"), operand),
        }
    }

    pub(super) fn parse_group(&mut self, operator: Operator, operand: &Json) -> Node {
        let name = operand.as_str();
        let members = name.and_then(|name| self.vocabulary.group(name));
        let members = members.map(<[Json]>::to_vec);
        if members.is_none() {
            let nearest = nearest(name.unwrap_or_default(), self.vocabulary.group_names());
            self.reject_with_hint("the name of a group", &display_text(operand), nearest);
        }
        Node::test(operator, operand.clone(), Check::Group { members: members.unwrap_or_default() })
    }

    // `$count` and durations.

    pub(super) fn parse_within(&mut self, operand: &Json) -> Node {
        match self.parse_duration(operand) {
            Some(ms) => Node::test(Operator::Within, operand.clone(), Check::Within { ms }),
            None => Node::Never,
        }
    }

    pub(super) fn parse_count(&mut self, operand: &Json) -> Node {
        let Json::Object(members) = operand else {
            return self.reject("an object such as {\"$gte\":3,\"within\":\"7d\"}", operand);
        };
        let within = members.get("within");
        let within_ms = within.and_then(|within| self.at_token("within", |p| p.parse_duration(within)));
        let comparisons = members.iter().filter(|(key, _)| *key != "within");
        let bounds: Vec<_> = comparisons
            .filter_map(|(key, bound)| self.at_token(key, |p| p.parse_bound(key, bound, within.is_some())))
            .collect();
        self.check(members.keys().any(|key| key != "within"), "at least one comparison", operand);
        Node::test(Operator::Count, operand.clone(), Check::Count { within_ms, bounds })
    }

    /// Parses a bound of a `$count`. Without `within` the profile has the exact count, so any bound can be
    /// decided. With `within` only the kept times are counted, so a bound that needs more times than are kept
    /// is an error.
    fn parse_bound(&mut self, key: &str, source: &Json, is_windowed: bool) -> Option<(Operator, u64)> {
        let known = COUNT_MEMBERS.contains(&key).then(|| Operator::from_name(key)).flatten();
        let Some(operator) = known else {
            self.reject_with_hint("a comparison operator or within", key, nearest(key, COUNT_MEMBERS));
            return None;
        };
        let max = match operator {
            Operator::Gte | Operator::Lt if is_windowed => TIMES_KEPT,
            _ if is_windowed => TIMES_KEPT - 1,
            _ => u64::MAX,
        };
        let Some(bound) = source.as_u64().filter(|bound| *bound <= max) else {
            let reason = format!(" up to {max}, since only the last {TIMES_KEPT} times are kept");
            let reason = if is_windowed { reason } else { String::new() };
            self.reject(&format!("a whole number{reason}"), source);
            return None;
        };
        Some((operator, bound))
    }

    fn parse_duration(&mut self, source: &Json) -> Option<i64> {
        let ms = source.as_str().and_then(parse_duration_ms);
        self.check(ms.is_some(), "a whole number of s, m, h or d, such as \"7d\"", source);
        ms
    }
}

fn contains_param(source: &Json) -> bool {
    match source {
        Json::Object(members) => members.contains_key("$param") || members.values().any(contains_param),
        Json::Array(items) => items.iter().any(contains_param),
        _ => false,
    }
}

/// Returns a string as it is, any other value as JSON.
fn display_text(source: &Json) -> String {
    source.as_str().map_or_else(|| source.to_string(), str::to_owned)
}

/// Parses a duration such as "24h", of at least one second, to milliseconds.
pub(crate) fn parse_duration_ms(text: &str) -> Option<i64> {
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
