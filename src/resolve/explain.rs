//! Explains a decision: the same evaluation, reported rule by rule.
//!
//! This is the only part of resolving that allocates. The report ends with the matching rule, because the
//! rules after it were never tried.

use serde_json::{Value as Json, json};

use super::decide::{
    Assignment, DecisionBuffers, HeldOut, SiteAudiences, Subject, bucket, condition_of, ranges,
};
use super::variants::Choice;
use super::visitor_context::{Visitor, VisitorContext};
use crate::condition::{DecidingTest, Evaluator, Memo, Patterns, without_residue};
use crate::site::snapshot::format::{
    ArchivedExperiment, ArchivedPage, ArchivedRule, ArchivedSite, ArchivedZone,
};

/// Returns `decisions` and `visitor` of an explained response. The rules of the zones that `is_forced` selects were not
/// tried.
pub(crate) fn explain(
    buffers: &mut DecisionBuffers,
    site: &ArchivedSite,
    page: &ArchivedPage,
    visitor: &Visitor<'_>,
    choice: &Choice,
    is_forced: &dyn Fn(&ArchivedZone) -> bool,
    patterns: &Patterns,
) -> (Json, Json) {
    let document = buffers.document(site, visitor);
    let audiences = SiteAudiences(&site.audiences);
    let mut memo = Memo::default();
    let held_out = site.holdout.as_ref().zip(visitor.id()).and_then(|(holdout, id)| HeldOut::of(holdout, id));
    let mut explainer = Explainer {
        site,
        held_out,
        subject: Subject::of(visitor, held_out.is_some()),
        evaluator: Evaluator {
            document: &document,
            audiences: &audiences,
            patterns,
            params: &[],
            memo: &mut memo,
        },
    };
    let decisions = choice.selected(page).map(|(zone, variant)| {
        let (source, rules) = if is_forced(zone) {
            ("forced", Vec::new())
        } else if visitor.agent.is_crawler {
            ("crawler", Vec::new())
        } else if visitor.is_stale {
            ("stale", Vec::new())
        } else {
            explainer.explain_zone(zone)
        };
        json!({ "zone": zone.name.as_str(), "key": variant.key.get(), "source": source, "rules": rules })
    });
    (decisions.collect(), document.to_json())
}

struct Explainer<'a, 'w> {
    site: &'a ArchivedSite,
    held_out: Option<HeldOut>,
    subject: Subject<'a>,
    evaluator: Evaluator<'a, 'w, VisitorContext<'a>, SiteAudiences<'a>>,
}

impl<'a> Explainer<'a, '_> {
    fn explain_zone(&mut self, zone: &'a ArchivedZone) -> (&'static str, Vec<Json>) {
        let mut output = Vec::new();
        if self.held_out == Some(HeldOut::FromRules) && !zone.rules.is_empty() {
            return ("site_holdout", output);
        }
        for (index, rule) in zone.rules.iter().enumerate() {
            let (matched, why, experiment) = self.explain_rule(rule);
            let authored =
                condition_of(self.site, rule).and_then(|when| serde_json::from_str(&when.authored).ok());
            let condition: Json = authored.unwrap_or_default();
            output.push(json!({ "index": index, "matched": matched, "condition": condition, "why": why,
                "experiment": experiment }));
            if matched {
                return (decision_source(rule), output);
            }
        }
        ("default", output)
    }

    fn explain_rule(&mut self, rule: &'a ArchivedRule) -> (bool, Json, Json) {
        let condition = condition_of(self.site, rule);
        let (holds, leaf) = condition.map_or((true, None), |when| self.evaluator.trace(&when.program));
        match rule {
            ArchivedRule::Audience { .. } | ArchivedRule::When { .. } => (holds, leaf_json(leaf), Json::Null),
            ArchivedRule::Experiment { experiment, arms, .. } => {
                let experiment = &self.site.experiments[usize::from(experiment.to_native())];
                let assignment = Assignment::of(self.site, experiment, &self.subject);
                if assignment == Assignment::NoId {
                    let why =
                        json!({ "path": "anonId", "operator": "$exists", "expected": true, "actual": false });
                    return (false, why, self.experiment_json(experiment, assignment));
                }
                let matched = holds && assignment.variant(arms).is_some();
                (matched, leaf_json(leaf), self.experiment_json(experiment, assignment))
            }
        }
    }

    fn experiment_json(&self, experiment: &ArchivedExperiment, assignment: Assignment) -> Json {
        let Subject { id, enrolments, now_ms, .. } = self.subject;
        let namespace = experiment.namespace.as_ref().map(|share| {
            let [from, to] = [share.range.from, share.range.to].map(|end| end.to_native() + 0.0);
            json!([self.site.namespaces[usize::from(share.namespace.to_native())].name.as_str(), from, to])
        });
        let ranges = ranges(experiment, experiment.coverage(now_ms));
        let ranges = ranges.map(|(from, to)| [from, to].map(without_residue));
        json!({
            "key": experiment.key.get(), "hash": id.map(|id| bucket(experiment, id)),
            "ranges": ranges.collect::<Vec<_>>(),
            "namespace": namespace, "seed": experiment.seed.as_str(),
            "enrolled": enrolments.contains(experiment.phase_hash.to_native()),
            "in": match assignment {
                Assignment::NotStarted => "not_started",
                Assignment::Ended => "ended",
                Assignment::Winner(_) => "decided",
                Assignment::NoId => "no_id",
                Assignment::Arm(_) => "range",
                Assignment::OutsideCoverage => "coverage",
                Assignment::OutsideNamespace => "namespace",
                Assignment::EnrolledElsewhere => "other_experiment",
                Assignment::HeldOut => "holdout",
                Assignment::HeldOutBySite => "site_holdout",
            },
        })
    }
}

fn decision_source(rule: &ArchivedRule) -> &'static str {
    match rule {
        ArchivedRule::Audience { .. } => "audience",
        ArchivedRule::When { .. } => "when",
        ArchivedRule::Experiment { .. } => "experiment",
    }
}

/// Returns the test that determined the result of a condition, as JSON.
fn leaf_json(test: Option<DecidingTest<'_>>) -> Json {
    test.map_or(Json::Null, |test| {
        json!({
            "path": test.path, "operator": test.operator, "expected": test.expected,
            "actual": test.actual.map(|value| value.to_json()),
        })
    })
}
