//! Makes a decision about an experiment: choose an arm, go on, or cannot decide. Each decision has a reason and a
//! sentence for the reader.
//!
//! The rules are checked in order. The first rule that matches gives the decision. `docs/insights.md` has the rules as
//! a table.

use serde_json::{Value as Json, json};

use super::comparison::{ComparedArm, ComparedMetric, baseline};
use super::count::ExperimentCount;
use super::metrics::{Metric, Role};
use super::question::ExperimentQuestion;
use super::split::Split;
use crate::events::time;
use crate::insights::statistics::metric::{GuardrailVerdict, Verdict};
use crate::site::snapshot::format::Standing;

/// The maximum number of days until a decision. If an experiment needs more days, it cannot be decided, because the
/// site and its visitors change too much meanwhile.
const DAYS_MAX: u64 = 365;

/// A decision about an experiment.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    action: Action,
    reason: &'static str,
    sentence: String,
}

#[derive(Debug, PartialEq)]
enum Action {
    /// Stop the experiment, and show the arm with this key to all visitors.
    Choose(String),
    /// All visitors get the arm with this key.
    Decided(String),
    /// Go on for this many days. `None` if the number is unknown.
    GoOn(Option<u64>),
    CannotDecide,
}

impl Decision {
    fn choose(arm_key: &str, reason: &'static str, explanation: &str) -> Self {
        let sentence = format!("Stop and choose {arm_key}: {explanation}.");
        Self { action: Action::Choose(arm_key.to_owned()), reason, sentence }
    }

    fn decided(arm_key: &str, from_ms: i64, has_site_holdout: bool) -> Self {
        let except = if has_site_holdout { ", except the visitors in the holdout of the site" } else { "" };
        let sentence =
            format!("Decided: everyone gets {arm_key} from {} on{except}.", time::to_text(from_ms));
        Self { action: Action::Decided(arm_key.to_owned()), reason: "winner", sentence }
    }

    fn go_on(day_count: Option<u64>, reason: &'static str, explanation: &str) -> Self {
        let sentence = match day_count {
            Some(1) => format!("Go on, about 1 day: {explanation}."),
            Some(day_count) => format!("Go on, about {day_count} days: {explanation}."),
            None => format!("Go on, the number of days is unknown: {explanation}."),
        };
        Self { action: Action::GoOn(day_count), reason, sentence }
    }

    fn cannot(reason: &'static str, explanation: &str) -> Self {
        let sentence = format!("Cannot be decided, because {explanation}.");
        Self { action: Action::CannotDecide, reason, sentence }
    }

    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }

    pub(super) fn to_json(&self) -> Json {
        let (action, arm, days) = match &self.action {
            Action::Choose(arm) => ("choose", Some(arm), None),
            Action::Decided(arm) => ("decided", Some(arm), None),
            Action::GoOn(days) => ("go_on", None, *days),
            Action::CannotDecide => ("cannot_decide", None, None),
        };
        json!({ "action": action, "arm": arm, "days": days, "reason": self.reason, "sentence": self.sentence })
    }
}

/// The input of a decision.
pub(super) struct Facts<'f> {
    pub question: &'f ExperimentQuestion,
    pub count: &'f ExperimentCount,
    pub compared: &'f [ComparedMetric],
    pub split: &'f Split,
    pub is_exploratory: bool,
    pub days_left: Option<u64>,
    pub now_ms: i64,
}

/// The results of one compared arm.
struct ArmState<'f> {
    key: &'f str,
    goal: &'f ComparedArm,
    /// The goal text of the first guardrail that this arm harms.
    harmed: Option<&'f str>,
    /// True if it is too early to compare the goal or a guardrail.
    is_early: bool,
    /// True if the amount per visitor is proven to be lower than that of the baseline.
    has_worse_value: bool,
}

impl ArmState<'_> {
    fn has_goal(&self, verdict: Verdict) -> bool {
        self.goal.verdict == Some(verdict.name())
    }

    fn is_candidate(&self) -> bool {
        self.has_goal(Verdict::Better) && self.harmed.is_none() && !self.has_worse_value && !self.is_early
    }

    fn is_rejected(&self) -> bool {
        self.has_goal(Verdict::Worse) || self.harmed.is_some()
    }
}

/// Decides an experiment.
pub(super) fn decide(facts: &Facts<'_>) -> Decision {
    if let Some(published) = &facts.question.known.published
        && matches!(published.standing(facts.now_ms), Standing::Decided(_))
        && let Some(winner) = published.winner_key()
        && let Some(to_ms) = published.definition.to_ms
    {
        return Decision::decided(winner, to_ms, facts.question.known.has_site_holdout);
    }
    let arms = arms_of(facts);
    if let Some(decision) = refuse(facts, &arms) {
        return decision;
    }
    if arms.iter().any(|arm| arm.is_early && !arm.is_rejected()) {
        return wait(facts, "too_early", "too few visitors reached a goal or a guardrail");
    }
    if let Some(best) = best_of(&arms) {
        return choose_best(best, &arms);
    }
    let baseline_key = baseline_key(facts).unwrap_or_default();
    if arms.iter().all(ArmState::is_rejected) {
        return choose_baseline(baseline_key, &arms);
    }
    if let Some(arm) = arms.iter().find(|arm| arm.has_worse_value && arm.has_goal(Verdict::Better)) {
        let because = format!("{} reaches the goal more often and has a lower amount", arm.key);
        return Decision::cannot("value_worse", &because);
    }
    if let Some(lift) = facts.question.lift
        && facts.days_left == Some(0)
    {
        let because = format!("a change of {} would probably have been found", percent(lift));
        return Decision::choose(baseline_key, "equal", &because);
    }
    wait(facts, "not_told_apart", "the arms are not told apart")
}

/// Returns the decision [`Action::CannotDecide`] if a fact forbids a decision, however clear the comparison is.
/// Otherwise returns `None`.
fn refuse(facts: &Facts<'_>, arms: &[ArmState<'_>]) -> Option<Decision> {
    let alarms = &facts.split.alarms;
    let is_published = facts.question.known.published.is_some();
    let is_empty = facts.count.arms.iter().all(|arm| arm.exposed == 0);
    let alarm = format!("the result has an alarm ({}); do not use it", alarms.join(", "));
    let refusals = [
        (!alarms.is_empty(), "alarm", alarm.as_str()),
        (!is_published, "not_running", "the site does not publish the experiment any more"),
        (goal_of(facts).is_none(), "no_goal", "the experiment has no goal"),
        (facts.is_exploratory, "exploratory", "the question differs from the published one"),
        (is_empty, "no_visitors", "nobody was exposed"),
        (arms.is_empty(), "no_comparison", "there is no other arm beside the baseline"),
    ];
    let refusal = refusals.into_iter().find(|(applies, ..)| *applies);
    refusal.map(|(_, reason, because)| Decision::cannot(reason, because))
}

/// Returns the decision to go on. If the range has ended, or if more than [`DAYS_MAX`] days are needed, returns the
/// decision that the experiment cannot be decided.
fn wait(facts: &Facts<'_>, reason: &'static str, explanation: &str) -> Decision {
    if facts.question.range.end <= facts.now_ms {
        return Decision::cannot("ended", &format!("{explanation}, and the range has ended"));
    }
    // If `days_left` is 0, the number of days to go on is unknown. The formula asks for no more visitors, but the
    // result is not clear yet.
    match facts.days_left.filter(|days| *days > 0) {
        Some(days) if days > DAYS_MAX => {
            Decision::cannot("too_long", &format!("{explanation}, and about {days} days are missing"))
        }
        days => Decision::go_on(days, reason, explanation),
    }
}

fn best_of<'s, 'f>(arms: &'s [ArmState<'f>]) -> Option<&'s ArmState<'f>> {
    let estimate = |arm: &&ArmState<'_>| arm.goal.comparison.estimate.unwrap_or(f64::NEG_INFINITY);
    let candidates = arms.iter().filter(|arm| arm.is_candidate());
    candidates.max_by(|a, b| estimate(a).total_cmp(&estimate(b)))
}

fn choose_best(best_arm: &ArmState<'_>, arms: &[ArmState<'_>]) -> Decision {
    let change = percent(best_arm.goal.comparison.estimate.unwrap_or_default());
    let others = arms.iter().filter(|arm| arm.is_candidate()).count() - 1;
    let beside = match others {
        0 => String::new(),
        _ => ", and more than the other arms that do, with which it is not compared".to_owned(),
    };
    let because = format!(
        "it reaches the goal {change} more often than the baseline{beside}, and no guardrail is shown to be harmed"
    );
    Decision::choose(best_arm.key, "better", &because)
}

fn choose_baseline(baseline_key: &str, arms: &[ArmState<'_>]) -> Decision {
    match arms.iter().find_map(|arm| Some((arm.key, arm.harmed?))) {
        Some((arm, guardrail)) => {
            let because = format!("no other arm is better without harm, and {arm} harms {guardrail}");
            Decision::choose(baseline_key, "harmed", &because)
        }
        None => Decision::choose(baseline_key, "worse", "every other arm reaches the goal less often"),
    }
}

fn goal_of(facts: &Facts<'_>) -> Option<usize> {
    facts.question.metrics.iter().position(|metric| metric.role == Role::Goal)
}

fn baseline_key<'f>(facts: &Facts<'f>) -> Option<&'f str> {
    let index = baseline(facts.question.baseline.as_deref(), &facts.count.arms)?;
    facts.count.arms.get(index).map(|arm| arm.key.as_str())
}

/// Returns the state of each compared arm, except arms of weight 0. No visitor sees such an arm.
fn arms_of<'f>(facts: &Facts<'f>) -> Vec<ArmState<'f>> {
    let Some(goal) = goal_of(facts) else { return Vec::new() };
    let weights = facts.split.weights.as_deref();
    let has_weight = |arm: &usize| weights.is_none_or(|weights| weights[*arm] > 0.0);
    let compared = facts.compared[goal].against.iter().enumerate();
    let shown = compared.filter(|(_, arm)| has_weight(&arm.comparison.arm));
    shown.map(|(index, goal)| arm_state(facts, index, goal)).collect()
}

/// Returns the state of the arm with this index among the compared arms.
fn arm_state<'f>(facts: &Facts<'f>, index: usize, compared_arm: &'f ComparedArm) -> ArmState<'f> {
    let results = || {
        let metrics = facts.question.metrics.iter().zip(facts.compared);
        metrics.map(move |(metric, compared)| (metric, &compared.against[index]))
    };
    let has = |role, verdict: &'static str| {
        move |(metric, arm): &(&'f Metric, &'f ComparedArm)| {
            metric.role == role && arm.verdict == Some(verdict)
        }
    };
    let harmed = results().find(has(Role::Guardrail, GuardrailVerdict::Harmed.name()));
    ArmState {
        key: &facts.count.arms[compared_arm.comparison.arm].key,
        goal: compared_arm,
        harmed: harmed.map(|(metric, _)| metric.text.as_str()),
        is_early: compared_arm.verdict == Some(Verdict::TooEarly.name())
            || results().any(|result| has(Role::Guardrail, GuardrailVerdict::TooEarly.name())(&result)),
        has_worse_value: results().any(|result| has(Role::Value, Verdict::Worse.name())(&result)),
    }
}

/// Formats a change in percent, with at most one decimal.
fn percent(change: f64) -> String {
    format!("{} %", (change * 1_000.0).round() / 10.0)
}
