//! Decides from the rules which variant each zone shows. The first matching rule wins. Without a match the
//! zone shows `default`.
//!
//! Zones are decided from the outside in. A zone within a variant that is not shown is absent, and its rules
//! are not tried. An audience is evaluated at most once per request.

use super::experiments::DecidingExperiments;
use super::variants::{Choice, DEFAULT_VARIANT, ForcedVariants};
use super::visitor_context::{Visitor, VisitorContext};
use crate::condition::program::ArchivedProgram;
use crate::condition::{self, Audiences, Evaluator, Memo, Patterns};
use crate::site::snapshot::format::{
    ArchivedAudience, ArchivedCondition, ArchivedExperiment, ArchivedNamespaceShare, ArchivedPage,
    ArchivedRange, ArchivedRule, ArchivedSite, ArchivedSiteHoldout, ArchivedZone, Standing,
};
use crate::url::PageUrl;
use crate::visitors::profile::enrolments::Enrolments;
use crate::visitors::profile::profile::Profile;

/// Buffers for decisions, reused from request to request.
#[derive(Debug, Default)]
pub(crate) struct DecisionBuffers {
    url: PageUrl,
    /// The experiments of the last decision.
    pub experiments: DecidingExperiments,
}

impl DecisionBuffers {
    /// Creates buffers that are large enough for any request.
    pub(crate) fn new() -> Self {
        Self { url: PageUrl::new(), experiments: DecidingExperiments::default() }
    }

    /// Selects the variants for `visitor`, except in the zones that `forced_variants` names. `patterns` are the snapshot's
    /// regular expressions.
    pub(crate) fn decide(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        visitor: &Visitor<'_>,
        patterns: &Patterns,
        forced_variants: Option<&ForcedVariants<'_>>,
    ) -> Choice {
        self.experiments.clear();
        let choice = self.choose(site, page, visitor, patterns, forced_variants);
        self.experiments.write_text(site, page);
        choice
    }

    fn choose(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        visitor: &Visitor<'_>,
        patterns: &Patterns,
        forced_variants: Option<&ForcedVariants<'_>>,
    ) -> Choice {
        let forced_variant = |zone: u8| forced_variants.and_then(|variants| variants.variant(zone));
        if visitor.gets_baseline() {
            return choose_zones(page, |index, _| forced_variant(index).unwrap_or(DEFAULT_VARIANT));
        }
        let held_out = site.holdout.as_ref().and_then(|holdout| {
            let is_decided = |index: u8| forced_variant(index).is_none();
            hold_out(holdout, page, visitor, &is_decided, &mut self.experiments)
        });
        if held_out == Some(HeldOut::FromRules) {
            return choose_zones(page, |index, _| forced_variant(index).unwrap_or(DEFAULT_VARIANT));
        }
        self.url.parse(visitor.url.filter(|_| site.sees_url));
        let document = VisitorContext::new(site, visitor, &self.url);
        let mut memo = Memo::default();
        let audiences = SiteAudiences(&site.audiences);
        let mut decider = Decider {
            site,
            subject: Subject::of(visitor, held_out.is_some()),
            evaluator: Evaluator {
                document: &document,
                audiences: &audiences,
                patterns,
                params: &[],
                memo: &mut memo,
            },
            experiments: &mut self.experiments,
        };
        choose_zones(page, |index, zone| {
            forced_variant(index).unwrap_or_else(|| decider.decide_zone(index, zone))
        })
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
pub fn choose_forced(page: &ArchivedPage, forced_variants: &ForcedVariants<'_>) -> Choice {
    choose_zones(page, |index, _| forced_variants.variant(index).unwrap_or(DEFAULT_VARIANT))
}

/// Calls `decide` with the index of every zone that is present, and the zone.
fn choose_zones(page: &ArchivedPage, mut decide: impl FnMut(u8, &ArchivedZone) -> u8) -> Choice {
    let mut choice = Choice::empty();
    // A zone comes after the zone that it is in, so `choice` already has the variant of the outer zone.
    for place in page.zone_places.iter() {
        if place.within().is_none_or(|(zone, variant)| choice.get(zone) == Some(variant)) {
            choice.set(place.zone, decide(place.zone, &page.zones[usize::from(place.zone)]));
        }
    }
    choice
}

/// Puts a visitor into one of the two groups of the site's holdout, if the holdout concerns a zone that rules decide. Returns the
/// rules that do not apply to the visitor.
#[cold]
#[inline(never)]
fn hold_out(
    holdout: &ArchivedSiteHoldout,
    page: &ArchivedPage,
    visitor: &Visitor<'_>,
    is_decided: &dyn Fn(u8) -> bool,
    experiments: &mut DecidingExperiments,
) -> Option<HeldOut> {
    let held_out = HeldOut::of(holdout, visitor.id()?);
    let mut decided = page.zones.iter().zip(0..).filter(|(_, index)| is_decided(*index));
    if decided.any(|(zone, _)| holdout.concerns(zone)) {
        experiments.set_held_out(held_out.is_some());
    }
    held_out
}

/// Returns the condition of a rule, or of its audience. `None` if the rule has none.
pub(super) fn condition_of<'a>(
    site: &'a ArchivedSite,
    rule: &'a ArchivedRule,
) -> Option<&'a ArchivedCondition> {
    match rule {
        ArchivedRule::Audience { audience, .. } => {
            Some(&site.audiences[usize::from(audience.to_native())].condition)
        }
        ArchivedRule::When { when, .. } => Some(when),
        ArchivedRule::Experiment { when, .. } => when.as_ref(),
    }
}

/// The programs of the audiences, for `$audience`.
pub(crate) struct SiteAudiences<'a>(pub(crate) &'a [ArchivedAudience]);

impl Audiences for SiteAudiences<'_> {
    fn program(&self, index: u16) -> &ArchivedProgram {
        &self.0[usize::from(index)].condition.program
    }
}

struct Decider<'a, 'w> {
    site: &'a ArchivedSite,
    subject: Subject<'a>,
    evaluator: Evaluator<'a, 'w, VisitorContext<'a>, SiteAudiences<'a>>,
    experiments: &'w mut DecidingExperiments,
}

impl Decider<'_, '_> {
    fn decide_zone(&mut self, zone_index: u8, zone: &ArchivedZone) -> u8 {
        zone.rules.iter().find_map(|rule| self.match_rule(zone_index, rule)).unwrap_or(DEFAULT_VARIANT)
    }

    fn match_rule(&mut self, zone_index: u8, rule: &ArchivedRule) -> Option<u8> {
        match rule {
            ArchivedRule::Audience { audience, variant } => {
                self.evaluator.is_in_audience(audience.to_native()).then_some(*variant)
            }
            ArchivedRule::When { when, variant } => self.evaluator.holds(&when.program).then_some(*variant),
            ArchivedRule::Experiment { experiment, arms, when } => {
                let holds = when.as_ref().is_none_or(|when| self.evaluator.holds(&when.program));
                if !holds {
                    return None;
                }
                let index = experiment.to_native();
                let assignment =
                    Assignment::of(self.site, &self.site.experiments[usize::from(index)], &self.subject);
                let variant = assignment.variant(arms)?;
                match assignment {
                    Assignment::Winner(_) | Assignment::HeldOutBySite => {}
                    Assignment::HeldOut => self.experiments.add(index, zone_index, None),
                    _ => self.experiments.add(index, zone_index, Some(variant)),
                }
                Some(variant)
            }
        }
    }
}

/// The facts about a visitor that experiments read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    /// The hashed ID.
    pub id: Option<&'a str>,
    /// The enrolments of that ID.
    pub enrolments: Enrolments<'a>,
    /// True if the ID is in the holdout of the site.
    pub is_held_out: bool,
    pub now_ms: i64,
}

/// The rules that do not apply to a visitor in the holdout of the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldOut {
    FromExperiments,
    FromRules,
}

impl HeldOut {
    /// Returns the rules that do not apply to an ID. `None` if it is not in the holdout.
    pub(super) fn of(holdout: &ArchivedSiteHoldout, id: &str) -> Option<Self> {
        let rules = if holdout.covers_rules { Self::FromRules } else { Self::FromExperiments };
        holdout.holds_out(id).then_some(rules)
    }
}

impl<'a> Subject<'a> {
    pub(super) fn of(visitor: &Visitor<'a>, is_held_out: bool) -> Self {
        let enrolments = visitor.profile.as_ref().map_or(Enrolments::NONE, Profile::enrolments);
        Self { id: visitor.id(), enrolments, is_held_out, now_ms: visitor.now_ms }
    }
}

/// The assignment of a visitor in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignment {
    /// Before the begin of the experiment: the rule does not match.
    NotStarted,
    /// After the end of an experiment without a winner: the rule does not match.
    Ended,
    /// After the end of the experiment: everyone gets the arm with this index.
    Winner(usize),
    /// Without an ID: the rule does not match.
    NoId,
    /// Outside the experiment's namespace: the rule does not match.
    OutsideNamespace,
    /// Enrolled in another running experiment of the namespace: the rule does not match.
    EnrolledElsewhere,
    /// Held out: the rule matches with `default`.
    HeldOut,
    /// In the holdout of the site: the rule matches with `default`.
    HeldOutBySite,
    /// In no arm's range: the rule does not match.
    OutsideCoverage,
    /// In the arm with this index.
    Arm(usize),
}

impl Assignment {
    /// Assigns a visitor. An enrolled ID takes part at any coverage and outside of the namespace. So it keeps its arm, because the
    /// range of an arm at a coverage is the start of its range at 1.
    #[inline]
    pub(super) fn of(site: &ArchivedSite, experiment: &ArchivedExperiment, subject: &Subject<'_>) -> Self {
        let Subject { id, enrolments, is_held_out, now_ms } = *subject;
        match experiment.standing(now_ms) {
            Standing::NotStarted => return Self::NotStarted,
            Standing::Ended => return Self::Ended,
            Standing::Running | Standing::Decided(_) if is_held_out => return Self::HeldOutBySite,
            Standing::Decided(arm) => return Self::Winner(arm),
            Standing::Running => {}
        }
        let Some(visitor_id) = id else { return Self::NoId };
        let is_enrolled = enrolments.contains(experiment.phase_hash.to_native());
        if let Some(share) = experiment.namespace.as_ref().filter(|_| !is_enrolled)
            && let Some(outside) = Self::outside_namespace(site, share, visitor_id, subject)
        {
            return outside;
        }
        let seed = experiment.seed.as_str();
        let held_out = |h: f64| condition::hash(&["holdout:", seed], visitor_id, 2).is_some_and(|n| n < h);
        let holdout = experiment.holdout.to_native();
        if holdout > 0.0 && held_out(holdout) {
            return Self::HeldOut;
        }
        let coverage = if is_enrolled { 1.0 } else { experiment.coverage(now_ms) };
        let arm = condition::choose_variation(bucket(experiment, visitor_id), ranges(experiment, coverage));
        arm.map_or(Self::OutsideCoverage, Self::Arm)
    }

    /// Returns the assignment of an ID that does not take part because of the experiment's namespace.
    #[inline(never)]
    fn outside_namespace(
        site: &ArchivedSite,
        share: &ArchivedNamespaceShare,
        visitor_id: &str,
        subject: &Subject<'_>,
    ) -> Option<Self> {
        let namespace = &site.namespaces[usize::from(share.namespace.to_native())];
        if !condition::in_namespace(visitor_id, &namespace.name, range(&share.range)) {
            return Some(Self::OutsideNamespace);
        }
        let is_other = |hash: u32| {
            namespace.phase_hashes.binary_search(&hash.into()).is_ok()
                && is_running(site, hash, subject.now_ms)
        };
        subject.enrolments.iter().any(|(hash, _)| is_other(hash)).then_some(Self::EnrolledElsewhere)
    }

    pub(super) fn variant(self, arms: &[u8]) -> Option<u8> {
        match self {
            Self::Arm(arm) | Self::Winner(arm) => arms.get(arm).copied(),
            Self::HeldOut | Self::HeldOutBySite => Some(DEFAULT_VARIANT),
            Self::NotStarted
            | Self::Ended
            | Self::NoId
            | Self::OutsideNamespace
            | Self::EnrolledElsewhere
            | Self::OutsideCoverage => None,
        }
    }
}

/// Returns whether the experiment that has the phase with this hash is running.
fn is_running(site: &ArchivedSite, phase_hash: u32, now_ms: i64) -> bool {
    let mut experiments = site.experiments.iter();
    experiments.any(|other| {
        other.phase_hash.to_native() == phase_hash && other.standing(now_ms) == Standing::Running
    })
}

/// Returns the number in [0, 1) that determines the arm.
pub(super) fn bucket(experiment: &ArchivedExperiment, visitor_id: &str) -> f64 {
    condition::hash_after_seed(experiment.seed_hash.to_native(), visitor_id)
}

/// Returns the range of each arm in [0, 1).
pub(super) fn ranges(experiment: &ArchivedExperiment, coverage: f64) -> impl Iterator<Item = (f64, f64)> {
    condition::ranges_of_weights(experiment.weights.iter().map(|weight| weight.to_native()), coverage)
}

fn range(range: &ArchivedRange) -> (f64, f64) {
    (range.from.to_native(), range.to.to_native())
}
