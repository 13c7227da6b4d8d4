//! Rules to a variant for each zone. First match wins; else `default`.
//!
//! Zones are decided from the outside in: one that is nested in a variant that is not shown is not
//! there, and its rules are not tried. An audience is evaluated at most once a request.

use super::variants::{Asked, Choice, variant_named};
use super::visitor_context::{ProfileDocument, Visitor};
use crate::condition::{self, Audiences, Evaluator, Memo, Patterns};
use crate::site::snapshot::format::{
    ArchivedAudience, ArchivedExperiment, ArchivedPage, ArchivedPart, ArchivedRange, ArchivedRule,
    ArchivedSite, ArchivedZone,
};
use crate::url::PageUrl;

/// The index of `default`, which stands first among a zone's variants.
pub(super) const DEFAULT: u8 = 0;

/// Buffers for deciding, kept from request to request.
#[derive(Debug, Default)]
pub struct Deciding {
    url: PageUrl,
}

impl Deciding {
    /// Room for any request.
    pub fn new() -> Self {
        Self { url: PageUrl::new() }
    }

    /// What `visitor` is to see. The regular expressions are the snapshot's.
    pub fn decide(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        visitor: &Visitor<'_>,
        patterns: &Patterns,
    ) -> Choice {
        if visitor.agent.crawler {
            return choose(page, |_| DEFAULT);
        }
        self.url.read(visitor.url.filter(|_| site.sees_url));
        let document = ProfileDocument::new(site, visitor, &self.url);
        let mut memo = Memo::default();
        let audiences = SiteAudiences(&site.audiences);
        let mut decider = Decider {
            site,
            anon_id: visitor.anon_id,
            evaluator: Evaluator { document: &document, audiences: &audiences, patterns, memo: &mut memo },
        };
        choose(page, |zone| decider.zone(zone))
    }

    /// The whole document, for people who ask why; deciding reads the URL only where the site's
    /// rules look at it.
    pub fn document<'a>(
        &'a mut self,
        site: &'a ArchivedSite,
        visitor: &'a Visitor<'a>,
    ) -> ProfileDocument<'a> {
        self.url.read(visitor.url);
        ProfileDocument::new(site, visitor, &self.url)
    }
}

/// What was asked for, where the page has it, else `default`.
pub fn forced(page: &ArchivedPage, asked: &Asked<'_>) -> Choice {
    choose(page, |zone| asked.key(&zone.name).and_then(|key| variant_named(zone, key)).unwrap_or(DEFAULT))
}

/// Asks `decide` for every zone that is there.
fn choose(page: &ArchivedPage, mut decide: impl FnMut(&ArchivedZone) -> u8) -> Choice {
    let mut choice = Choice::nothing();
    choose_in(page, &page.parts, &mut decide, &mut choice);
    choice
}

fn choose_in<D: FnMut(&ArchivedZone) -> u8>(
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
            choose_in(page, &zone.variants[usize::from(variant)].parts, decide, choice);
        }
    }
}

/// The audiences' programs, for `$audience`.
pub(super) struct SiteAudiences<'a>(pub(super) &'a [ArchivedAudience]);

impl Audiences for SiteAudiences<'_> {
    fn program(&self, index: u16) -> Option<&[u8]> {
        Some(&self.0.get(usize::from(index))?.program)
    }
}

struct Decider<'a, 'w> {
    site: &'a ArchivedSite,
    anon_id: Option<&'a str>,
    evaluator: Evaluator<'a, 'w, ProfileDocument<'a>, SiteAudiences<'a>>,
}

impl Decider<'_, '_> {
    fn zone(&mut self, zone: &ArchivedZone) -> u8 {
        zone.rules.iter().find_map(|rule| self.rule(rule)).unwrap_or(DEFAULT)
    }

    fn rule(&mut self, rule: &ArchivedRule) -> Option<u8> {
        match rule {
            ArchivedRule::When { program, variant, .. } => self.evaluator.holds(program).then_some(*variant),
            ArchivedRule::Experiment { experiment, arms, when } => {
                let id = self.anon_id?;
                let experiment = &self.site.experiments[usize::from(experiment.to_native())];
                let holds = when.as_ref().is_none_or(|when| self.evaluator.holds(when));
                if !holds {
                    return None;
                }
                Place::of(experiment, id).variant(arms)
            }
        }
    }
}

/// Where an anon ID lies in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside its namespace: it does not match.
    OutsideNamespace,
    /// Held out: it matches with `default`.
    HeldOut,
    /// In no arm's range: it does not match.
    OutsideCoverage,
    /// In this arm.
    Arm(usize),
}

impl Place {
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
            Self::HeldOut => Some(DEFAULT),
            Self::OutsideNamespace | Self::OutsideCoverage => None,
        }
    }
}

/// The number in [0, 1) that decides the arm.
pub(super) fn bucket(experiment: &ArchivedExperiment, id: &str) -> Option<f64> {
    condition::hash(&[experiment.seed.as_str()], id, 2)
}

fn range(range: &ArchivedRange) -> (f64, f64) {
    (range.from.to_native(), range.to.to_native())
}
