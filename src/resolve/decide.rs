//! Decides from the rules which variant each zone shows. The first matching rule wins. Without a match the
//! zone shows `default`.
//!
//! Zones are decided from the outside in. A zone within a variant that is not shown is absent, and its rules
//! are not tried. An audience is evaluated at most once per request.

use super::variants::{Choice, ForcedVariants, find_variant};
use super::visitor_context::{Visitor, VisitorContext};
use crate::condition::{self, Audiences, Evaluator, Memo, Patterns};
use crate::site::snapshot::format::{
    ArchivedAudience, ArchivedExperiment, ArchivedPage, ArchivedPart, ArchivedRange, ArchivedRule,
    ArchivedSite, ArchivedZone,
};
use crate::url::PageUrl;

/// The index of `default`, which is the first of a zone's variants.
pub(super) const DEFAULT_VARIANT: u8 = 0;

/// Buffers for decisions, reused from request to request.
#[derive(Debug, Default)]
pub(crate) struct DecisionBuffers {
    url: PageUrl,
}

impl DecisionBuffers {
    /// Creates buffers that are large enough for any request.
    pub(crate) fn new() -> Self {
        Self { url: PageUrl::new() }
    }

    /// Selects the variants for `visitor`. `patterns` are the snapshot's regular expressions.
    pub(crate) fn decide(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        visitor: &Visitor<'_>,
        patterns: &Patterns,
    ) -> Choice {
        if visitor.agent.is_crawler {
            return choose_zones(page, |_| DEFAULT_VARIANT);
        }
        self.url.parse(visitor.url.filter(|_| site.sees_url));
        let document = VisitorContext::new(site, visitor, &self.url);
        let mut memo = Memo::default();
        let audiences = SiteAudiences(&site.audiences);
        let mut decider = Decider {
            site,
            anon_id: visitor.anon_id,
            evaluator: Evaluator { document: &document, audiences: &audiences, patterns, memo: &mut memo },
        };
        choose_zones(page, |zone| decider.decide_zone(zone))
    }

    /// Returns the complete visitor context, for explanations. A decision parses the URL only if the site's
    /// rules read it.
    pub(crate) fn document<'a>(
        &'a mut self,
        site: &'a ArchivedSite,
        visitor: &'a Visitor<'a>,
    ) -> VisitorContext<'a> {
        self.url.parse(visitor.url);
        VisitorContext::new(site, visitor, &self.url)
    }
}

/// Returns the forced variants that the page has, and `default` in the other zones.
pub fn choose_forced(page: &ArchivedPage, forced: &ForcedVariants<'_>) -> Choice {
    choose_zones(page, |zone| {
        forced.key(&zone.name).and_then(|key| find_variant(zone, key)).unwrap_or(DEFAULT_VARIANT)
    })
}

/// Calls `decide` for every zone that is present.
fn choose_zones(page: &ArchivedPage, mut decide: impl FnMut(&ArchivedZone) -> u8) -> Choice {
    let mut choice = Choice::empty();
    choose_in_parts(page, &page.parts, &mut decide, &mut choice);
    choice
}

fn choose_in_parts<D: FnMut(&ArchivedZone) -> u8>(
    page: &ArchivedPage,
    parts: &[ArchivedPart],
    decide: &mut D,
    choice: &mut Choice,
) {
    for part in parts {
        if let ArchivedPart::Zone(index) = part {
            let zone = &page.zones[usize::from(*index)];
            let variant = decide(zone);
            choice.set(*index, variant);
            choose_in_parts(page, &zone.variants[usize::from(variant)].parts, decide, choice);
        }
    }
}

/// The programs of the audiences, for `$audience`.
pub(super) struct SiteAudiences<'a>(pub(super) &'a [ArchivedAudience]);

impl Audiences for SiteAudiences<'_> {
    fn program(&self, index: u16) -> Option<&[u8]> {
        Some(&self.0.get(usize::from(index))?.program)
    }
}

struct Decider<'a, 'w> {
    site: &'a ArchivedSite,
    anon_id: Option<&'a str>,
    evaluator: Evaluator<'a, 'w, VisitorContext<'a>, SiteAudiences<'a>>,
}

impl Decider<'_, '_> {
    fn decide_zone(&mut self, zone: &ArchivedZone) -> u8 {
        zone.rules.iter().find_map(|rule| self.match_rule(rule)).unwrap_or(DEFAULT_VARIANT)
    }

    fn match_rule(&mut self, rule: &ArchivedRule) -> Option<u8> {
        match rule {
            ArchivedRule::When { program, variant, .. } => self.evaluator.holds(program).then_some(*variant),
            ArchivedRule::Experiment { experiment, arms, when } => {
                let id = self.anon_id?;
                let experiment = &self.site.experiments[usize::from(experiment.to_native())];
                let holds = when.as_ref().is_none_or(|when| self.evaluator.holds(when));
                if !holds {
                    return None;
                }
                Assignment::of(experiment, id).variant(arms)
            }
        }
    }
}

/// The assignment of an anon ID in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignment {
    /// Outside the experiment's namespace: the rule does not match.
    OutsideNamespace,
    /// Held out: the rule matches with `default`.
    HeldOut,
    /// In no arm's range: the rule does not match.
    OutsideCoverage,
    /// In the arm with this index.
    Arm(usize),
}

impl Assignment {
    pub(super) fn of(experiment: &ArchivedExperiment, id: &str) -> Self {
        if let Some(namespace) = experiment.namespace.as_ref()
            && !condition::in_namespace(id, &namespace.name, range(&namespace.range))
        {
            return Self::OutsideNamespace;
        }
        let seed = experiment.seed.as_str();
        let held_out = |h: f64| condition::hash(&["holdout:", seed], id, 2).is_some_and(|n| n < h);
        let holdout = experiment.holdout.to_native();
        if holdout > 0.0 && held_out(holdout) {
            return Self::HeldOut;
        }
        let ranges = experiment.ranges.iter().map(range);
        let arm = bucket(experiment, id).and_then(|n| condition::choose_variation(n, ranges));
        arm.map_or(Self::OutsideCoverage, Self::Arm)
    }

    pub(super) fn variant(self, arms: &[u8]) -> Option<u8> {
        match self {
            Self::Arm(arm) => arms.get(arm).copied(),
            Self::HeldOut => Some(DEFAULT_VARIANT),
            Self::OutsideNamespace | Self::OutsideCoverage => None,
        }
    }
}

/// Returns the number in [0, 1) that determines the arm.
pub(super) fn bucket(experiment: &ArchivedExperiment, id: &str) -> Option<f64> {
    condition::hash(&[experiment.seed.as_str()], id, 2)
}

fn range(range: &ArchivedRange) -> (f64, f64) {
    (range.from.to_native(), range.to.to_native())
}
