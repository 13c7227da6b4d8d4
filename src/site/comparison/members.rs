//! The members of an experiment as authored, with their defaults, from a snapshot.

use serde_json::{Value as Json, json};

use crate::site::compile::time_text;
use crate::site::snapshot::format::{ArchivedExperiment, ArchivedMetrics, ArchivedSite};

/// The members that the result of an experiment depends on, and no decision.
pub(super) const METRICS: [&str; 8] =
    ["goal", "value", "currency", "cap", "guardrails", "planned", "window", "segments"];

/// A member of an experiment, or of the holdout, that differs between two versions of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberChange {
    /// Its authored name.
    pub member: &'static str,
    /// The value in the older version, as authored. Null if it has none.
    pub before: Json,
    /// The value in the newer version, as authored. Null if it has none.
    pub after: Json,
}

/// An experiment with the site that has its namespace.
#[derive(Clone, Copy)]
pub(super) struct SiteExperiment<'s> {
    pub(super) site: &'s ArchivedSite,
    pub(super) experiment: &'s ArchivedExperiment,
}

impl SiteExperiment<'_> {
    /// Returns the members that differ from those of a newer version.
    pub(super) fn changes(self, newer: SiteExperiment<'_>) -> Vec<MemberChange> {
        let pairs = self.members().into_iter().zip(newer.members());
        let changes = pairs.map(|((member, before), (_, after))| MemberChange { member, before, after });
        changes.filter(|change| change.before != change.after).collect()
    }

    /// Returns all members with their values, in the order of the documentation.
    pub(super) fn members(self) -> Vec<(&'static str, Json)> {
        let experiment = self.experiment;
        let arms: Vec<&str> = experiment.arms.iter().map(|arm| arm.as_str()).collect();
        let weights: Vec<f64> = experiment.weights.iter().map(|weight| weight.to_native()).collect();
        let time = |time_ms: Option<i64>| time_ms.map_or(Json::Null, |time_ms| json!(time_text(time_ms)));
        let winner = experiment.winner.as_ref().map(|arm| arms[usize::from(*arm)]);
        let mut metrics = metrics_json(&experiment.metrics);
        let mut members = vec![
            ("variants", json!(arms)),
            ("weights", json!(weights)),
            ("seed", json!(experiment.seed.as_str())),
            ("holdout", json!(experiment.holdout.to_native())),
            ("coverage", coverage_json(experiment)),
            ("namespace", self.namespace()),
            ("from", time(experiment.from_ms.as_ref().map(|from_ms| from_ms.to_native()))),
            ("to", time(experiment.to_ms.as_ref().map(|to_ms| to_ms.to_native()))),
            ("winner", json!(winner)),
        ];
        members.extend(METRICS.map(|member| (member, metrics[member].take())));
        members
    }

    fn namespace(self) -> Json {
        let share = self.experiment.namespace.as_ref();
        share.map_or(Json::Null, |share| {
            let name = self.site.namespaces[usize::from(share.namespace.to_native())].name.as_str();
            json!([name, share.range.from.to_native(), share.range.to.to_native()])
        })
    }
}

/// Returns the coverage: a share, or the steps of a ramp.
fn coverage_json(experiment: &ArchivedExperiment) -> Json {
    let is_share = |from_ms: i64| from_ms == i64::MIN;
    let steps = experiment.coverages.iter().map(|step| (step.from_ms.to_native(), step.share.to_native()));
    let mut shares = steps.clone().filter(|(from_ms, _)| is_share(*from_ms)).map(|(_, share)| share);
    shares.next().map_or_else(
        || steps.map(|(from_ms, share)| json!({ "from": time_text(from_ms), "share": share })).collect(),
        |share| json!(share),
    )
}

/// Returns the metrics of an experiment, as authored.
pub(crate) fn metrics_json(metrics: &ArchivedMetrics) -> Json {
    let guardrails = metrics.guardrails.iter().map(|rail| {
        json!({ "goal": rail.goal.as_str(), "margin": rail.margin.to_native(), "lowerIsBetter": rail.lower_is_better })
    });
    let segments = metrics.segments.iter().map(|name| name.as_str());
    json!({ "goal": metrics.goal.as_ref().map(|goal| goal.as_str()),
        "value": metrics.value.as_ref().map(|value| value.as_str()),
        "currency": metrics.currency.as_ref().map(|currency| currency.as_str()),
        "cap": metrics.cap.as_ref().map(|cap| cap.as_str()), "guardrails": guardrails.collect::<Vec<_>>(),
        "planned": metrics.planned.as_ref().map(|planned| planned.to_native()),
        "window": metrics.window.as_ref().map(|window| window.as_str()),
        "segments": segments.collect::<Vec<_>>() })
}

/// Returns the old and the new value of each member.
pub(super) fn members_json(changes: &[MemberChange]) -> Json {
    let member = |change: &MemberChange| {
        (change.member.to_owned(), json!({ "before": change.before, "after": change.after }))
    };
    Json::Object(changes.iter().map(member).collect())
}

/// Returns the value of a member as diagnostics quote it.
pub(super) fn value_text(value: &Json) -> String {
    match value {
        Json::Null => "none".to_owned(),
        Json::String(text) => text.clone(),
        Json::Array(elements) => {
            format!("[{}]", elements.iter().map(value_text).collect::<Vec<_>>().join(", "))
        }
        // A step of a ramp.
        Json::Object(step) => format!("{} from {}", value_text(&step["share"]), value_text(&step["from"])),
        // A third has six decimals.
        Json::Number(number) => ((number.as_f64().unwrap_or_default() * 1e6).round() / 1e6).to_string(),
        Json::Bool(is_true) => is_true.to_string(),
    }
}
