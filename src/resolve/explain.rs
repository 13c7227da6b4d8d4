//! Why a visitor was shown what was shown: the same decision, told rule by rule.
//!
//! The only part of answering that allocates. Rules are told up to the one that matched; what
//! stands behind it was never tried.

use serde_json::{Value as Json, json};

use super::decide::{Deciding, Place, SiteAudiences, bucket};
use super::variants::Choice;
use super::visitor_context::{ProfileDocument, Visitor};
use crate::condition::{Evaluator, Leaf, Memo, Patterns};
use crate::site::snapshot::format::{
    ArchivedExperiment, ArchivedPage, ArchivedRule, ArchivedSite, ArchivedZone,
};

/// `decisions` and `visitor` of an explained answer; `forced` where no rule was tried.
pub fn explain(
    deciding: &mut Deciding,
    site: &ArchivedSite,
    page: &ArchivedPage,
    visitor: &Visitor<'_>,
    (choice, forced): (&Choice, bool),
    patterns: &Patterns,
) -> (Json, Json) {
    let document = deciding.document(site, visitor);
    let audiences = SiteAudiences(&site.audiences);
    let mut memo = Memo::default();
    let mut explainer = Explainer {
        site,
        anon_id: visitor.anon_id,
        evaluator: Evaluator { document: &document, audiences: &audiences, patterns, memo: &mut memo },
    };
    let decisions = choice.shown(page).map(|(zone, variant)| {
        let (source, rules) = match visitor.agent.crawler {
            _ if forced => ("forced", Vec::new()),
            true => ("crawler", Vec::new()),
            false => explainer.zone(zone),
        };
        json!({ "zone": zone.name.as_str(), "key": variant.key.as_str(), "source": source, "rules": rules })
    });
    (decisions.collect(), document.to_json())
}

struct Explainer<'a, 'w> {
    site: &'a ArchivedSite,
    anon_id: Option<&'a str>,
    evaluator: Evaluator<'a, 'w, ProfileDocument<'a>, SiteAudiences<'a>>,
}

impl<'a> Explainer<'a, '_> {
    fn zone(&mut self, zone: &'a ArchivedZone) -> (&'static str, Vec<Json>) {
        let mut told = Vec::new();
        for (index, rule) in zone.rules.iter().enumerate() {
            let (matched, why, experiment) = self.rule(rule);
            told.push(json!({ "index": index, "matched": matched, "why": why, "experiment": experiment }));
            if matched {
                return (source(rule), told);
            }
        }
        ("default", told)
    }

    fn rule(&mut self, rule: &'a ArchivedRule) -> (bool, Json, Json) {
        match rule {
            ArchivedRule::When { program, .. } => {
                let (holds, leaf) = self.evaluator.trace(program);
                (holds, why(leaf), Json::Null)
            }
            ArchivedRule::Experiment { experiment, arms, when } => {
                let experiment = &self.site.experiments[usize::from(experiment.to_native())];
                let (holds, leaf) = when.as_ref().map_or((true, None), |when| self.evaluator.trace(when));
                let Some(id) = self.anon_id else {
                    let why =
                        json!({ "path": "anonId", "operator": "$exists", "expected": true, "actual": false });
                    return (false, why, Json::Null);
                };
                let place = Place::of(experiment, id);
                let matched = holds && place.variant(arms).is_some();
                (matched, why(leaf), bucketed(experiment, id, place))
            }
        }
    }
}

fn source(rule: &ArchivedRule) -> &'static str {
    match rule {
        ArchivedRule::When { audience: true, .. } => "audience",
        ArchivedRule::When { .. } => "when",
        ArchivedRule::Experiment { .. } => "experiment",
    }
}

/// The test that decided a condition.
fn why(leaf: Option<Leaf<'_>>) -> Json {
    leaf.map_or(Json::Null, |leaf| {
        json!({
            "path": leaf.path, "operator": leaf.operator, "expected": leaf.expected.to_json(),
            "actual": leaf.actual.map(|value| value.to_json()),
        })
    })
}

fn bucketed(experiment: &ArchivedExperiment, id: &str, place: Place) -> Json {
    let pair =
        |range: &crate::site::snapshot::format::ArchivedRange| [range.from.to_native(), range.to.to_native()];
    let namespace = experiment.namespace.as_ref().map(|n| {
        let [from, to] = pair(&n.range);
        json!([n.name.as_str(), from, to])
    });
    json!({
        "key": experiment.key.as_str(), "hash": bucket(experiment, id),
        "ranges": experiment.ranges.iter().map(pair).collect::<Vec<_>>(),
        "namespace": namespace, "seed": experiment.seed.as_str(),
        "in": match place {
            Place::Arm(_) => "range",
            Place::OutsideCoverage => "coverage",
            Place::OutsideNamespace => "namespace",
            Place::HeldOut => "holdout",
        },
    })
}
