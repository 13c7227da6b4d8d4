//! The question about an experiment: its key, its metrics, and the time in which goals count.

use std::ops::Range;

use crate::insights::amounts::{AMOUNT_NAMES, UNITS_PER_ONE};
use crate::insights::calendar::Zone;
use crate::insights::question::QuestionError;
use crate::insights::statistics::difference::{Method, PLANNED_DEFAULT};
use crate::problem;
use crate::site::experiment_metrics::PLANNED_MIN;
use crate::visitors::events::variants::is_key;

/// Metrics of one question: the goal, its value, and 14 others. Each is a row of the result.
pub const METRICS_MAX: usize = 16;
const DAYS_DEFAULT: i64 = 30;
/// The error rate of a comparison: one false alarm in twenty.
const ALPHA_DEFAULT: f64 = 0.05;
const HOUR_MS: i64 = 3_600_000;
const PAGE_PREFIX: &str = "page:";
const EVENT_PREFIX: &str = "event:";

/// The parameters of the question.
#[rustfmt::skip]
pub(crate) const EXPERIMENT_PARAM_NAMES: [&str; 14] = [
    "key", "from", "to", "bots", "goal", "value", "more", "guardrail", "window", "cap", "planned", "alpha", "method",
    "baseline",
];

/// A goal: an event name, or a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    Event(String),
    Page(String),
}

impl Goal {
    fn parse(text: &str) -> Self {
        match (text.strip_prefix(PAGE_PREFIX), text.strip_prefix(EVENT_PREFIX)) {
            (Some(path), _) => Self::Page(path.to_owned()),
            (None, Some(name)) => Self::Event(name.to_owned()),
            (None, None) => Self::Event(text.to_owned()),
        }
    }

    pub(super) fn is_event(&self, name: &str) -> bool {
        matches!(self, Self::Event(own) if own == name)
    }

    pub(super) fn is_page(&self, path: &str) -> bool {
        matches!(self, Self::Page(own) if own == path)
    }
}

/// The role of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Goal,
    Value,
    More,
    Guardrail,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::Value => "value",
            Self::More => "more",
            Self::Guardrail => "guardrail",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metric {
    pub role: Role,
    /// The goal as it was written.
    pub text: String,
    pub goal: Goal,
    /// The amount whose sum is compared, as an index into `AMOUNT_NAMES`; `None` for the share of visitors that reach
    /// the goal.
    pub column: Option<u8>,
    /// The margin of a guardrail.
    pub margin: Option<f64>,
    pub lower_is_better: bool,
}

/// A question about an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentQuestion {
    /// The key of the experiment.
    pub key: String,
    /// The range in milliseconds, half open.
    pub range: Range<i64>,
    pub bots: bool,
    /// Goals count for this long after the first exposure; `None` until the end of the range.
    pub window_ms: Option<i64>,
    /// Limit of the value of a visitor, in units of 10^-4.
    pub cap_units: Option<i64>,
    /// The error rate of the comparisons.
    pub(super) alpha: f64,
    /// The looks at which the comparisons are valid.
    pub(super) method: Method,
    /// The arm with which the others are compared; `None` for the arm `default`, or the first one.
    pub(super) baseline: Option<String>,
    metrics: Vec<Metric>,
}

impl ExperimentQuestion {
    /// Reads the parameters of the question. Unknown parameters are ignored, and so are empty ones.
    ///
    /// # Errors
    /// The first parameter that is refused.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        let pairs: Vec<(&str, &str)> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        let single = |name: &str| single_value(&pairs, name);
        let key = single("key")?.unwrap_or_default();
        if !is_key(key) {
            return Err(QuestionError::invalid("key", "the key of an experiment", key));
        }
        let time = |name: &str| {
            let expected = "a date or a time, such as '2026-01-05' or '2026-01-05T10:00'";
            let parse = |text| zone.parse(text).ok_or_else(|| QuestionError::invalid(name, expected, text));
            single(name)?.map(parse).transpose()
        };
        let end = time("to")?.unwrap_or_else(|| zone.last_days(now_ms, 1).end);
        let start = time("from")?.unwrap_or_else(|| zone.midnight(zone.day_of(end) - DAYS_DEFAULT));
        if start >= end {
            return Err(QuestionError::invalid(
                "from",
                "a time before 'to'",
                single("from")?.unwrap_or_default(),
            ));
        }
        let bots =
            single("bots")?.map(crate::insights::question::parse_bots).transpose()?.unwrap_or_default();
        let window_ms = single("window")?.map(parse_window).transpose()?;
        let cap_units = single("cap")?.map(parse_cap).transpose()?;
        let alpha = single("alpha")?.map(parse_alpha).transpose()?.unwrap_or(ALPHA_DEFAULT);
        let planned = single("planned")?.map(parse_planned).transpose()?.unwrap_or(PLANNED_DEFAULT);
        let method = parse_method(single("method")?, planned)?;
        let baseline = single("baseline")?.map(parse_baseline).transpose()?;
        let metrics = parse_metrics(&pairs)?;
        let (key, range) = (key.to_owned(), start..end);
        Ok(Self { key, range, bots, window_ms, cap_units, alpha, method, baseline, metrics })
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        self.metrics.clone()
    }
}

fn single_value<'p>(pairs: &[(&'p str, &'p str)], name: &str) -> Result<Option<&'p str>, QuestionError> {
    let mut values = pairs.iter().filter(|(other, _)| *other == name).map(|(_, value)| *value);
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => {
            let expected = "The parameter is given twice; give it once.".to_owned();
            Err(QuestionError {
                kind: problem::REPEATED_PARAM,
                param: name.to_owned(),
                expected,
                actual: None,
            })
        }
    }
}

fn parse_metrics(pairs: &[(&str, &str)]) -> Result<Vec<Metric>, QuestionError> {
    let metric = |role, text: &str| {
        let (text, goal) = (text.to_owned(), Goal::parse(text));
        Metric { role, text, goal, column: None, margin: None, lower_is_better: false }
    };
    let mut metrics = Vec::new();
    let goal = single_value(pairs, "goal")?;
    metrics.extend(goal.map(|goal| metric(Role::Goal, goal)));
    if let Some(value) = single_value(pairs, "value")? {
        let column = AMOUNT_NAMES.iter().position(|name| *name == value);
        let goal =
            goal.map(|goal| metric(Role::Value, goal)).filter(|metric| matches!(metric.goal, Goal::Event(_)));
        let (Some(column), Some(goal)) = (column, goal) else {
            let expected = "'revenue', 'value', 'total' or 'quantity', together with an event as goal";
            return Err(QuestionError::invalid("value", expected, value));
        };
        metrics.push(Metric { column: Some(column as u8), ..goal });
    }
    for (name, text) in pairs {
        match *name {
            "more" => metrics.push(metric(Role::More, text)),
            "guardrail" => {
                let (goal, margin, lower_is_better) = parse_guardrail(text)?;
                metrics.push(Metric {
                    margin: Some(margin),
                    lower_is_better,
                    ..metric(Role::Guardrail, goal)
                });
            }
            _ => {}
        }
        if metrics.len() > METRICS_MAX {
            return Err(QuestionError::invalid(name, "at most 16 metrics", text));
        }
    }
    Ok(metrics)
}

/// Parses `GOAL:MARGIN[:lower]` from its end.
fn parse_guardrail(text: &str) -> Result<(&str, f64, bool), QuestionError> {
    let (rest, lower_is_better) = text.strip_suffix(":lower").map_or((text, false), |rest| (rest, true));
    let parsed = rest.rsplit_once(':').and_then(|(goal, margin)| {
        let margin = margin.parse::<f64>().ok().filter(|margin| margin.is_finite() && *margin > 0.0)?;
        (!goal.is_empty()).then_some((goal, margin, lower_is_better))
    });
    let expected = "a goal and a positive margin, such as 'Refund:0.02' or 'Refund:0.02:lower'";
    parsed.ok_or_else(|| QuestionError::invalid("guardrail", expected, text))
}

/// Parses a duration such as `14d` or `36h`.
fn parse_window(text: &str) -> Result<i64, QuestionError> {
    let parse =
        |digits: &str, unit_ms: i64| digits.parse::<u32>().ok().map(|count| i64::from(count) * unit_ms);
    let days = text.strip_suffix('d').and_then(|digits| parse(digits, 24 * HOUR_MS));
    let window_ms =
        days.or_else(|| parse(text.strip_suffix('h')?, HOUR_MS)).filter(|window_ms| *window_ms > 0);
    window_ms.ok_or_else(|| {
        QuestionError::invalid("window", "a number of days or hours, such as '14d' or '36h'", text)
    })
}

fn parse_alpha(text: &str) -> Result<f64, QuestionError> {
    let alpha = text.parse::<f64>().ok().filter(|alpha| *alpha > 0.0 && *alpha < 1.0);
    alpha.ok_or_else(|| QuestionError::invalid("alpha", "a number above 0 and below 1, such as 0.05", text))
}

fn parse_planned(text: &str) -> Result<u64, QuestionError> {
    let planned = text.parse::<u32>().ok().map(u64::from).filter(|planned| *planned >= PLANNED_MIN);
    planned.ok_or_else(|| QuestionError::invalid("planned", "a number of visitors, 2 or more", text))
}

fn parse_method(text: Option<&str>, planned: u64) -> Result<Method, QuestionError> {
    match text {
        None | Some("anytime") => Ok(Method::Anytime { planned }),
        Some("fixed") => Ok(Method::Fixed),
        Some(text) => Err(QuestionError::invalid("method", "'anytime' or 'fixed'", text)),
    }
}

fn parse_baseline(text: &str) -> Result<String, QuestionError> {
    let arm = is_key(text).then(|| text.to_owned());
    arm.ok_or_else(|| QuestionError::invalid("baseline", "the key of an arm", text))
}

fn parse_cap(text: &str) -> Result<i64, QuestionError> {
    let cap = text
        .parse::<f64>()
        .ok()
        .map(|cap| (cap * UNITS_PER_ONE).round())
        .filter(|cap| *cap >= 1.0 && *cap < 1e15);
    cap.map(|cap| cap as i64).ok_or_else(|| QuestionError::invalid("cap", "a positive amount", text))
}
