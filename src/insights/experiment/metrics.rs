//! The metrics of a question about an experiment. By default these are the published metrics. The question can name
//! other metrics.

use super::known::KnownExperiment;
use crate::insights::questions::goals::ChosenGoal;
use crate::insights::questions::question::QuestionError;
use crate::limits::GUARDRAILS_MAX;
use crate::site::experiment_metrics::{Goal, VALUE_PROPERTIES, is_margin};
use crate::site::goals::{PropertyPath, SiteGoal, SiteGoals};

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

/// The amounts that a metric adds up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetricValue {
    /// The path of the property.
    pub path: PropertyPath,
    /// The path of the currency.
    pub currency: Option<PropertyPath>,
    pub source: ValueSource,
}

/// The place of the amounts in a column file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// The index of a property in `VALUE_PROPERTIES`, which column files have for every event.
    Property(u8),
    /// The number of a goal of the site.
    Goal(usize),
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metric {
    pub role: Role,
    /// The text of the goal in the site or in the question.
    pub text: String,
    pub goal: ChosenGoal,
    /// The amounts that the metric adds up. `None` if the metric is the share of visitors that reach the goal.
    pub value: Option<MetricValue>,
    /// The margin, if the metric is a guardrail.
    pub margin: Option<f64>,
    pub lower_is_better: bool,
}

impl Metric {
    /// Returns the metric of a goal. Returns `None` if the text is no goal.
    fn of_goal(role: Role, text: &str, goals: &SiteGoals) -> Option<Self> {
        let goal = ChosenGoal::parse(text, goals)?;
        Some(Self { role, text: text.to_owned(), goal, value: None, margin: None, lower_is_better: false })
    }

    /// Returns true if both metrics give the same result. Different texts can name the same goal.
    fn is_same(&self, other: &Self) -> bool {
        let choices = |metric: &Self| (metric.role, metric.margin, metric.lower_is_better);
        self.goal == other.goal && self.value == other.value && choices(self) == choices(other)
    }

    /// Returns whether the metric adds up amounts.
    pub(super) fn is_amount(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the path of the property whose amounts the metric adds up.
    pub(super) fn value_name(&self) -> Option<&str> {
        self.value.as_ref().map(|value| value.path.as_str())
    }

    /// Returns whether the metric counts a goal of the site, or the amounts of one.
    pub(super) fn needs_goals(&self) -> bool {
        let is_of_goal = |value: &MetricValue| matches!(value.source, ValueSource::Goal(_));
        self.goal.site_number().is_some() || self.value.as_ref().is_some_and(is_of_goal)
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
    currency: Option<&'t str>,
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
            currency: metrics.currency.as_deref(),
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
            currency: self.currency.filter(|_| keeps_value),
            more: named("more").collect(),
            guardrails: if guardrails.is_empty() { self.guardrails } else { guardrails },
        })
    }

    fn metrics(&self, goals: &SiteGoals) -> Result<Vec<Metric>, QuestionError> {
        let goal = |role, name: &str, text: &str| {
            let expected = "the key of a goal in site.json, an event name, or 'page:' and a path";
            Metric::of_goal(role, text, goals).ok_or_else(|| QuestionError::invalid(name, expected, text))
        };
        let mut metrics = Vec::new();
        if let Some(text) = self.goal {
            metrics.push(goal(Role::Goal, "goal", text)?);
        }
        metrics.extend(self.value_metric(metrics.first(), goals)?);
        for text in &self.more {
            metrics.push(goal(Role::More, "more", text)?);
        }
        for GuardrailTexts { goal: text, margin, lower_is_better } in self.guardrails.iter().copied() {
            let metric = goal(Role::Guardrail, "guardrail", text)?;
            metrics.push(Metric { margin: Some(margin), lower_is_better, ..metric });
        }
        Ok(metrics)
    }

    /// Returns the metric that adds up the value of the goal of the site, or a property of the events of the goal. `None` if there is no
    /// value.
    fn value_metric(
        &self,
        goal_metric: Option<&Metric>,
        goals: &SiteGoals,
    ) -> Result<Option<Metric>, QuestionError> {
        let refused = |text: &str| QuestionError::invalid("value", VALUE_EXPECTED, text);
        let value = match goal_metric.map(|metric| &metric.goal) {
            Some(ChosenGoal::OfSite(number)) if self.value.is_none() => {
                let SiteGoal { value, currency, .. } = &goals.all()[*number];
                let source = ValueSource::Goal(*number);
                value.clone().map(|path| MetricValue { path, currency: currency.clone(), source })
            }
            Some(ChosenGoal::Target(target @ Goal::Event(_))) => {
                let named = |text| self.named_value(target, text, goals).ok_or_else(|| refused(text));
                self.value.map(named).transpose()?
            }
            _ => self.value.map_or(Ok(None), |text| Err(refused(text)))?,
        };
        let Some(value) = value else { return Ok(None) };
        Ok(goal_metric.map(|metric| Metric { role: Role::Value, value: Some(value), ..metric.clone() }))
    }

    /// Returns the amounts of a property of the events of a goal. `None` if column files do not have them.
    fn named_value(&self, target: &Goal<String>, text: &str, goals: &SiteGoals) -> Option<MetricValue> {
        let path = PropertyPath::parse(text)?;
        let currency = self.currency.and_then(PropertyPath::parse);
        let published = goals.amount_of(target, &path, currency.as_ref()).map(ValueSource::Goal);
        let is_path = |name: &str| path == PropertyPath::of_name(name);
        let kept = VALUE_PROPERTIES.iter().position(|name| is_path(name));
        let kept = kept.filter(|_| currency.is_none()).map(|index| ValueSource::Property(index as u8));
        Some(MetricValue { source: kept.or(published)?, path, currency })
    }
}

/// The values that a question can name.
const VALUE_EXPECTED: &str = "'properties.revenue', 'properties.value', 'properties.total', 'properties.quantity' or the published \
                              'value' of the experiment, together with an event as goal";

/// Returns the metrics of a question. The second result is true if the goal, the value or a guardrail differs from the
/// published metrics.
pub(super) fn metrics_of(
    known_experiment: &KnownExperiment,
    pairs: &[(&str, &str)],
) -> Result<(Vec<Metric>, bool), QuestionError> {
    let goals = &known_experiment.goals;
    // A forged snapshot could have malformed metrics. Then no metric counts as published.
    let published = Texts::published(known_experiment).metrics(goals).unwrap_or_default();
    let metrics = Texts::published(known_experiment).replaced(pairs)?.metrics(goals)?;
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
