//! The variants that a zone can show to a known visitor without a request.
//!
//! A condition that reads the request is open: it may hold or fail. So a zone has several possible decisions. Each has the open
//! conditions that must hold or fail for it. Two versions of a site get the same request, so a condition of both has one result in
//! both. Different conditions count alone, also two that exclude each other.

use super::decide::{Assignment, HeldOut, Subject, condition_of};
use super::variants::DEFAULT_VARIANT;
use crate::condition::OpenResult;
use crate::condition::program::ArchivedProgram;
use crate::site::comparison::conditions::ConditionIdentities;
use crate::site::comparison::zones::ZonePosition;
use crate::site::snapshot::format::{ArchivedRule, ArchivedSite, ArchivedZone};
use crate::visitors::profile::enrolments::Enrolments;

/// Number of possible decisions of a zone for one visitor. A zone has one for each rule that reads the request, and a zone in another
/// one has them for each of the other one. Beyond it the visitor counts as one who can get another variant.
pub const POSSIBLE_DECISIONS_MAX: usize = 256;

/// A variant that a zone can show, and its requirements.
#[derive(Debug, Clone)]
pub(super) struct PossibleDecision<'s> {
    /// The key of the variant. `None` if the zone is absent.
    variant: Option<&'s str>,
    requirements: Vec<Requirement>,
}

impl PossibleDecision<'_> {
    /// Returns the decision with the requirements of the zone around it too. `None` if no request fulfils all.
    fn within(&self, outer: &Self) -> Option<Self> {
        let requirements = || [&outer.requirements[..], &self.requirements].concat();
        let is_possible = !contradict(&outer.requirements, &self.requirements);
        is_possible.then(|| Self { variant: self.variant, requirements: requirements() })
    }
}

/// A result that an open condition must have.
#[derive(Debug, Clone, Copy)]
struct Requirement {
    /// The identity of the condition.
    condition: u128,
    holds: bool,
}

/// Returns whether the variants of a zone in two versions of a site differ.
pub(super) fn differ(before: &[PossibleDecision<'_>], after: &[PossibleDecision<'_>]) -> OpenResult {
    let mut may_differ = false;
    let mut may_be_same = false;
    for older in before {
        for newer in after.iter().filter(|newer| !contradict(&older.requirements, &newer.requirements)) {
            may_differ |= older.variant != newer.variant;
            may_be_same |= older.variant == newer.variant;
            if may_differ && may_be_same {
                return OpenResult::Open;
            }
        }
    }
    may_differ.into()
}

/// Returns whether no request fulfils both.
fn contradict(some: &[Requirement], others: &[Requirement]) -> bool {
    some.iter()
        .any(|one| others.iter().any(|other| one.condition == other.condition && one.holds != other.holds))
}

/// A zone of a site, with the conditions of its rules.
pub(super) struct OpenZone<'s> {
    zone: &'s ArchivedZone,
    rules: Vec<OpenRule<'s>>,
    /// The zone that it is in, and the index of the variant that has it.
    within: Option<(Box<Self>, u8)>,
}

impl<'s> OpenZone<'s> {
    fn variant_key(&self, index: u8) -> &'s str {
        self.zone.variants[usize::from(index)].key.get()
    }

    /// Returns the only decision of a version without the zone. It shows `default` there, or is absent if this version has it in
    /// another zone.
    pub(super) fn decision_without_zone(&self) -> PossibleDecision<'static> {
        let variant = self.within.is_none().then_some("default");
        PossibleDecision { variant, requirements: Vec::new() }
    }
}

struct OpenRule<'s> {
    rule: &'s ArchivedRule,
    /// The index in [`OpenConditions`]. `None` if the rule has no condition.
    condition: Option<usize>,
}

/// The conditions of some zones of a site, each once.
pub(super) struct OpenConditions<'s> {
    site: &'s ArchivedSite,
    all: ConditionIdentities<'s>,
    identities: Vec<u128>,
    pub(super) programs: Vec<&'s ArchivedProgram>,
}

impl<'s> OpenConditions<'s> {
    pub(super) fn new(site: &'s ArchivedSite) -> Self {
        let all = ConditionIdentities::new(site);
        Self { site, all, identities: Vec::new(), programs: Vec::new() }
    }

    /// Adds the conditions of a zone, and of the zones that it is in.
    pub(super) fn add_zone(&mut self, position: ZonePosition) -> OpenZone<'s> {
        let page = &self.site.pages[position.page];
        let zone = &page.zones[position.zone];
        let rules = zone.rules.iter().map(|rule| OpenRule { rule, condition: self.add_condition(rule) });
        let rules = rules.collect();
        let place = page.zone_places.iter().find(|place| usize::from(place.zone) == position.zone);
        let within = place.and_then(|place| place.within()).map(|(outer, variant)| {
            let outer = self.add_zone(ZonePosition { zone: usize::from(outer), ..position });
            (Box::new(outer), variant)
        });
        OpenZone { zone, rules, within }
    }

    fn add_condition(&mut self, rule: &'s ArchivedRule) -> Option<usize> {
        let condition = condition_of(self.site, rule)?;
        let identity = self.all.of(condition);
        let known = self.identities.iter().position(|other| *other == identity);
        Some(known.unwrap_or_else(|| {
            self.identities.push(identity);
            self.programs.push(&condition.program);
            self.identities.len() - 1
        }))
    }
}

/// A visitor of one version of a site.
pub(super) struct OpenVisitor<'v> {
    site: &'v ArchivedSite,
    subject: Subject<'v>,
    held_out: Option<HeldOut>,
    /// The conditions with these results.
    conditions: &'v OpenConditions<'v>,
    results: &'v [OpenResult],
}

impl<'v> OpenVisitor<'v> {
    /// Creates a visitor with an ID and its enrolments. `results` are those of the conditions.
    pub(super) fn new(
        conditions: &'v OpenConditions<'v>,
        results: &'v [OpenResult],
        id: &'v str,
        enrolments: Enrolments<'v>,
        now_ms: i64,
    ) -> Self {
        let site = conditions.site;
        let held_out = site.holdout.as_ref().and_then(|holdout| HeldOut::of(holdout, id));
        let subject = Subject { id: Some(id), enrolments, is_held_out: held_out.is_some(), now_ms };
        Self { site, subject, held_out, conditions, results }
    }

    /// Returns the possible decisions of a zone, at least one. `None` if there are more than [`POSSIBLE_DECISIONS_MAX`].
    pub(super) fn decide<'s>(&self, zone: &OpenZone<'s>) -> Option<Vec<PossibleDecision<'s>>> {
        let own = self.decide_alone(zone);
        let Some((outer, variant)) = &zone.within else { return Some(own) };
        let variant = Some(outer.variant_key(*variant));
        let (around, elsewhere): (Vec<_>, Vec<_>) =
            self.decide(outer)?.into_iter().partition(|outer| outer.variant == variant);
        let mut decisions = elsewhere;
        decisions.iter_mut().for_each(|decision| decision.variant = None);
        for outer in &around {
            decisions.extend(own.iter().filter_map(|own| own.within(outer)));
        }
        (decisions.len() <= POSSIBLE_DECISIONS_MAX).then_some(decisions)
    }

    /// Returns the possible decisions of the rules of a zone, as if no other zone contained it.
    fn decide_alone<'s>(&self, zone: &OpenZone<'s>) -> Vec<PossibleDecision<'s>> {
        let mut decisions = Vec::new();
        let mut failed: Vec<Requirement> = Vec::new();
        let decision = |variant: u8, requirements: &[Requirement]| PossibleDecision {
            variant: Some(zone.variant_key(variant)),
            requirements: requirements.to_vec(),
        };
        let has_rules = self.held_out != Some(HeldOut::FromRules);
        for OpenRule { rule, condition } in zone.rules.iter().filter(|_| has_rules) {
            let Some(variant) = self.selected_variant(rule) else { continue };
            let result = condition.map_or(OpenResult::Yes, |index| self.results[index]);
            let identity = condition.map(|index| self.conditions.identities[index]);
            match identity.filter(|_| result == OpenResult::Open) {
                None if result == OpenResult::No => {}
                Some(condition) => {
                    let holds = Requirement { condition, holds: true };
                    // The condition of an earlier rule failed.
                    if !contradict(&failed, &[holds]) {
                        decisions.push(decision(variant, &[&failed[..], &[holds]].concat()));
                        failed.push(Requirement { condition, holds: false });
                    }
                }
                None => {
                    decisions.push(decision(variant, &failed));
                    return decisions;
                }
            }
        }
        decisions.push(decision(DEFAULT_VARIANT, &failed));
        decisions
    }

    /// Returns the variant that a rule selects if its condition holds.
    fn selected_variant(&self, rule: &ArchivedRule) -> Option<u8> {
        match rule {
            ArchivedRule::Audience { variant, .. } | ArchivedRule::When { variant, .. } => Some(*variant),
            ArchivedRule::Experiment { experiment, arms, .. } => {
                let experiment = &self.site.experiments[usize::from(experiment.to_native())];
                Assignment::of(self.site, experiment, &self.subject).variant(arms)
            }
        }
    }
}
