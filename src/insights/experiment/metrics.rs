//! The metrics of a question about an experiment. By default these are the published metrics. The question can name
//! other metrics.

use super::known::KnownExperiment;
use crate::insights::questions::question::QuestionError;
use crate::limits::GUARDRAILS_MAX;
use crate::site::experiment_metrics::{Goal, VALUE_PROPERTIES, is_margin};

/// Number of goals of the parameter `more` that a question can always have, even with a goal, a value and all
/// guardrails.
const MORE_MAX: usize = 13;
/// Maximum number of metrics in one question. A question with more metrics is refused. Each metric takes a row of the
/// result, and a bit of each event. One more bit is [`ERROR_BIT`].
pub const METRICS_MAX: usize = 2 + GUARDRAILS_MAX + MORE_MAX;
/// The bit of an event that says that an arm failed. The lower bits are those of the metrics.
pub(super) const ERROR_BIT: u32 = 1 << METRICS_MAX;

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
    /// The text of the goal in the site or in the question.
    pub text: String,
    pub goal: Goal<String>,
    /// The index in `VALUE_PROPERTIES` of the property whose amounts the metric adds up. `None` if the metric is the
    /// share of visitors that reach the goal.
    pub column: Option<u8>,
    /// The margin, if the metric is a guardrail.
    pub margin: Option<f64>,
    pub lower_is_better: bool,
}

impl Metric {
    /// Returns the metric of a goal. Returns `None` if the text is no goal.
    fn of_goal(role: Role, text: &str) -> Option<Self> {
        let goal = Goal::parse(text)?.to_owned();
        Some(Self { role, text: text.to_owned(), goal, column: None, margin: None, lower_is_better: false })
    }

    /// Returns true if both metrics give the same result. Different texts can name the same goal.
    fn is_same(&self, other: &Self) -> bool {
        let choices = |metric: &Self| (metric.role, metric.column, metric.margin, metric.lower_is_better);
        self.goal == other.goal && choices(self) == choices(other)
    }

    /// Returns the name of the property whose amounts the metric adds up.
    pub(super) fn value_name(&self) -> Option<&'static str> {
        self.column.map(|column| VALUE_PROPERTIES[usize::from(column)])
    }
}

/// The texts of a guardrail.
#[derive(Debug, Clone, Copy)]
struct GuardrailTexts<'t> {
    goal: &'t str,
    margin: f64,
    lower_is_better: bool,
}

/// The texts that define metrics, from a question or from the published experiment.
#[derive(Debug, Default)]
struct Texts<'t> {
    goal: Option<&'t str>,
    value: Option<&'t str>,
    more: Vec<&'t str>,
    guardrails: Vec<GuardrailTexts<'t>>,
}

impl<'t> Texts<'t> {
    fn published(known_experiment: &'t KnownExperiment) -> Self {
        let Some(published) = &known_experiment.published else { return Self::default() };
        let metrics = &published.metrics;
        let guardrails = metrics.guardrails.iter().map(|rail| GuardrailTexts {
            goal: &rail.goal,
            margin: rail.margin,
            lower_is_better: rail.lower_is_better,
        });
        Self {
            goal: metrics.goal.as_deref(),
            value: metrics.value.as_deref(),
            more: Vec::new(),
            guardrails: guardrails.collect(),
        }
    }

    /// Replaces each published metric for which the question names another one. If the question names another goal,
    /// drops the published value, because the value is a property of the published goal.
    fn replaced(self, pairs: &[(&str, &'t str)]) -> Result<Self, QuestionError> {
        let named =
            |name: &'static str| pairs.iter().filter(move |(other, _)| *other == name).map(|(_, text)| *text);
        let goal = named("goal").next();
        let keeps_value = goal.is_none_or(|goal| Goal::parse(goal) == self.goal.and_then(Goal::parse));
        let guardrails = named("guardrail").map(parse_guardrail).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            goal: goal.or(self.goal),
            value: named("value").next().or(self.value.filter(|_| keeps_value)),
            more: named("more").collect(),
            guardrails: if guardrails.is_empty() { self.guardrails } else { guardrails },
        })
    }

    fn metrics(&self) -> Result<Vec<Metric>, QuestionError> {
        let goal = |role, name: &str, text: &str| {
            let expected = "an event name, or 'page:' and a path";
            Metric::of_goal(role, text).ok_or_else(|| QuestionError::invalid(name, expected, text))
        };
        let mut metrics = Vec::new();
        if let Some(text) = self.goal {
            metrics.push(goal(Role::Goal, "goal", text)?);
        }
        if let Some(value) = self.value {
            metrics.push(value_metric(metrics.first(), value)?);
        }
        for text in &self.more {
            metrics.push(goal(Role::More, "more", text)?);
        }
        for GuardrailTexts { goal: text, margin, lower_is_better } in self.guardrails.iter().copied() {
            let metric = goal(Role::Guardrail, "guardrail", text)?;
            metrics.push(Metric { margin: Some(margin), lower_is_better, ..metric });
        }
        Ok(metrics)
    }
}

/// Returns the metric that adds up a property of the events of the goal. Returns an error if the goal is no event.
fn value_metric(goal_metric: Option<&Metric>, property: &str) -> Result<Metric, QuestionError> {
    let column = VALUE_PROPERTIES.iter().position(|name| *name == property);
    let goal_metric = goal_metric.filter(|metric| matches!(metric.goal, Goal::Event(_)));
    let (Some(column), Some(goal_metric)) = (column, goal_metric) else {
        let expected = "'revenue', 'value', 'total' or 'quantity', together with an event as goal";
        return Err(QuestionError::invalid("value", expected, property));
    };
    Ok(Metric { role: Role::Value, column: Some(column as u8), ..goal_metric.clone() })
}

/// Returns the metrics of a question. The second result is true if the goal, the value or a guardrail differs from the
/// published metrics.
pub(super) fn metrics_of(
    known_experiment: &KnownExperiment,
    pairs: &[(&str, &str)],
) -> Result<(Vec<Metric>, bool), QuestionError> {
    // A forged snapshot could have malformed metrics. Then no metric counts as published.
    let published = Texts::published(known_experiment).metrics().unwrap_or_default();
    let metrics = Texts::published(known_experiment).replaced(pairs)?.metrics()?;
    if metrics.len() > METRICS_MAX {
        let (name, text) =
            pairs.iter().rfind(|(name, _)| ["more", "guardrail"].contains(name)).unwrap_or(&("", ""));
        return Err(QuestionError::invalid(name, &format!("at most {METRICS_MAX} metrics"), text));
    }
    let chosen: Vec<&Metric> = metrics.iter().filter(|metric| metric.role != Role::More).collect();
    let is_same = chosen.len() == published.len()
        && chosen.iter().zip(&published).all(|(chosen, published)| chosen.is_same(published));
    Ok((metrics, !is_same))
}

/// Parses `GOAL:MARGIN[:lower]`. The goal may contain colons.
fn parse_guardrail(text: &str) -> Result<GuardrailTexts<'_>, QuestionError> {
    let (rest, lower_is_better) = text.strip_suffix(":lower").map_or((text, false), |rest| (rest, true));
    let parsed = rest.rsplit_once(':').and_then(|(goal, margin)| {
        let margin = margin.parse::<f64>().ok().filter(|margin| is_margin(*margin))?;
        Goal::parse(goal).map(|_| GuardrailTexts { goal, margin, lower_is_better })
    });
    let expected = "a goal and a margin above 0 and at most 1, such as 'Refund:0.02' or 'Refund:0.02:lower'";
    parsed.ok_or_else(|| QuestionError::invalid("guardrail", expected, text))
}
