//! The known experiments of a site, with their published definitions and their phases.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::SITE_HOLDOUT;
use crate::resolve::published_zones::{PublishedZone, zones_of};
use crate::site::catalog::phases::{Phase, Phases};
use crate::site::goals::SiteGoals;
use crate::site::snapshot::format::{
    ArchivedExperiment, ArchivedMetrics, ArchivedRule, ArchivedSite, Guardrail, Metrics, Standing,
};

/// An answer lists at most this many pages and at most this many zones of an experiment. A longer list would be hard to
/// read. Further pages are counted, and further zones are left out.
const PLACES_SHOWN_MAX: usize = 100;

/// An experiment that is published or has phases. The experiment of an unknown key has neither.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownExperiment {
    pub key: String,
    /// `None` if the site does not publish the experiment now.
    pub published: Option<PublishedExperiment>,
    /// The phases that the server has stored, oldest first.
    pub phases: Vec<Phase>,
    /// The goals of the site.
    pub goals: SiteGoals,
    /// True if the site publishes a holdout, whose visitors get no arm that won.
    pub has_site_holdout: bool,
}

/// The published definition of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedExperiment {
    /// The published arms, in the form of a phase that starts at 0.
    pub definition: Phase,
    /// The time from which the experiment runs, in milliseconds.
    pub from_ms: Option<i64>,
    /// The index of the arm that all visitors get from the end on.
    pub winner: Option<usize>,
    pub metrics: Metrics,
}

/// The pages and the zones that use an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Places {
    /// The paths of the pages, as the author wrote them.
    pub routes: Vec<String>,
    /// The number of pages that are not in `routes`.
    pub more_routes: usize,
    /// The names of the zones, in alphabetical order.
    pub zones: BTreeSet<String>,
}

impl KnownExperiment {
    /// Returns the arms of these phases. If there is no phase, returns the published arms.
    pub(super) fn arms_in(&self, phases: &[Phase]) -> Vec<String> {
        let published = self.published.iter().map(|published| &published.definition);
        let phases: Vec<&Phase> =
            if phases.is_empty() { published.collect() } else { phases.iter().collect() };
        let mut arms: Vec<String> = Vec::new();
        for arm in phases.into_iter().flat_map(|phase| &phase.arms) {
            if !arms.contains(&arm.key) {
                arms.push(arm.key.clone());
            }
        }
        arms
    }

    /// Returns the name of the standing. `None` if the experiment is not published and had no end.
    pub(super) fn standing(&self, now_ms: i64) -> Option<&'static str> {
        let Some(published) = &self.published else {
            let has_ended = self.phases.last()?.to_ms.is_some_and(|to_ms| to_ms <= now_ms);
            return has_ended.then(|| Standing::Ended.name());
        };
        Some(published.standing(now_ms).name())
    }

    /// Returns whether the published experiment runs and is open for new visitors.
    pub(super) fn is_open(&self, now_ms: i64) -> bool {
        let is_running =
            self.published.as_ref().is_some_and(|published| published.standing(now_ms) == Standing::Running);
        is_running && self.newest().is_some_and(|newest| newest.coverage(now_ms).share > 0.0)
    }

    /// Returns whether the experiment is published or has a phase.
    pub(crate) fn is_known(&self) -> bool {
        self.published.is_some() || !self.phases.is_empty()
    }

    /// Returns the newest phase. If there is no phase, returns the published definition.
    pub(super) fn newest(&self) -> Option<&Phase> {
        self.phases.last().or_else(|| Some(&self.published.as_ref()?.definition))
    }
}

/// A site with its published snapshot and the phases of its experiments.
#[derive(Clone, Copy)]
pub(crate) struct KnownSite<'c> {
    /// The site ID.
    pub id: &'c str,
    /// `None` if the site is not published.
    pub published: Option<&'c ArchivedSite>,
    pub phases: &'c Phases,
}

impl KnownSite<'_> {
    /// Returns the goals of the site.
    pub(crate) fn goals(&self) -> SiteGoals {
        self.published.map(ArchivedSite::site_goals).unwrap_or_default()
    }

    /// Returns the published zones of the page at a path.
    pub(crate) fn zones(&self, page_path: &str) -> Vec<PublishedZone> {
        self.published.map(|site| zones_of(site, page_path)).unwrap_or_default()
    }

    /// Returns the experiment with this key. If the key is unknown, the experiment has neither a published definition
    /// nor a phase.
    pub(crate) fn experiment(&self, key: &str) -> KnownExperiment {
        let experiments = self.published.map_or(&[][..], |site| &site.experiments);
        let index = experiments.binary_search_by(|experiment| experiment.key.get().cmp(key));
        let published = index.ok().map(|index| PublishedExperiment::of(&experiments[index]));
        KnownExperiment {
            key: key.to_owned(),
            published,
            phases: self.phases.of(self.id, key).to_vec(),
            has_site_holdout: self.published.is_some_and(|site| site.holdout.is_some()),
            goals: self.goals(),
        }
    }

    /// Returns the holdout of the site, as an experiment with two arms: its visitors, and all others. Its metrics are those of the
    /// experiments.
    pub(crate) fn holdout(&self) -> KnownExperiment {
        let holdout = self.published.and_then(|site| Some((site, site.holdout.as_ref()?)));
        let published = holdout.map(|(site, holdout)| PublishedExperiment {
            definition: Phase::of_holdout(holdout, 0),
            from_ms: None,
            winner: None,
            metrics: most_frequent_metrics(site),
        });
        let phases = self.phases.of(self.id, SITE_HOLDOUT).to_vec();
        KnownExperiment {
            key: SITE_HOLDOUT.to_owned(),
            has_site_holdout: published.is_some(),
            published,
            phases,
            goals: self.goals(),
        }
    }

    /// Returns all experiments that are published or have a phase, each with its places. The experiments are sorted by
    /// key.
    pub(crate) fn experiments(&self) -> Vec<(KnownExperiment, Places)> {
        let mut places = self.published.map(places).unwrap_or_default();
        let published = self.published.iter().flat_map(|site| site.experiments.iter());
        let keys: BTreeSet<&str> = published
            .map(|experiment| experiment.key.get())
            .chain(self.phases.experiments(self.id).map(|(key, _)| key))
            .collect();
        keys.into_iter().map(|key| (self.experiment(key), places.remove(key).unwrap_or_default())).collect()
    }
}

impl PublishedExperiment {
    fn of(experiment: &ArchivedExperiment) -> Self {
        Self {
            definition: Phase::begin(experiment, 0),
            from_ms: experiment.from_ms.as_ref().map(|from_ms| from_ms.to_native()),
            winner: experiment.winner.as_ref().map(|arm| usize::from(*arm)),
            metrics: metrics_of(&experiment.metrics),
        }
    }

    pub(super) fn standing(&self, now_ms: i64) -> Standing {
        Standing::at(now_ms, self.from_ms, self.definition.to_ms, self.winner)
    }

    /// Returns the key of the winner.
    pub(super) fn winner_key(&self) -> Option<&str> {
        Some(&self.definition.arms.get(self.winner?)?.key)
    }
}

fn metrics_of(metrics: &ArchivedMetrics) -> Metrics {
    let guardrail = |rail: &crate::site::snapshot::format::ArchivedGuardrail| Guardrail {
        goal: rail.goal.as_str().to_owned(),
        margin: rail.margin.to_native(),
        lower_is_better: rail.lower_is_better,
    };
    Metrics {
        goal: metrics.goal.as_ref().map(|goal| goal.as_str().to_owned()),
        value: metrics.value.as_ref().map(|value| value.as_str().to_owned()),
        currency: metrics.currency.as_ref().map(|currency| currency.as_str().to_owned()),
        cap: metrics.cap.as_ref().map(|cap| cap.as_str().to_owned()),
        guardrails: metrics.guardrails.iter().map(guardrail).collect(),
        planned: metrics.planned.as_ref().map(|planned| planned.to_native()),
        window: metrics.window.as_ref().map(|window| window.as_str().to_owned()),
        segments: metrics.segments.iter().map(|name| name.as_str().to_owned()).collect(),
    }
}

/// Returns the goal, the value and its currency that most experiments of a site have. Of several such metrics, they are those of
/// the first key.
fn most_frequent_metrics(site: &ArchivedSite) -> Metrics {
    let metrics = site.experiments.iter().map(|experiment| metrics_of(&experiment.metrics));
    let metrics = metrics.filter(|metrics| metrics.goal.is_some());
    let metrics: Vec<Metrics> = metrics
        .map(|Metrics { goal, value, currency, .. }| Metrics { goal, value, currency, ..Metrics::default() })
        .collect();
    let count = |metric: &Metrics| metrics.iter().filter(|other| *other == metric).count();
    // Of several maxima, `max_by_key` returns the last one.
    metrics.iter().rev().max_by_key(|metric| count(metric)).cloned().unwrap_or_default()
}

/// Returns the pages and zones that use each experiment of a site, by the key of the experiment.
fn places(site: &ArchivedSite) -> BTreeMap<&str, Places> {
    let mut places: BTreeMap<&str, Places> = BTreeMap::new();
    for (index, page) in site.pages.iter().enumerate() {
        // A route with items gives several consecutive pages. They have the same path and the same zones.
        if index > 0 && site.pages[index - 1].path == page.path {
            continue;
        }
        let mut used = BTreeSet::new();
        for zone in page.zones.iter() {
            for rule in zone.rules.iter() {
                let ArchivedRule::Experiment { experiment, .. } = rule else { continue };
                let key = site.experiments[usize::from(experiment.to_native())].key.get();
                used.insert(key);
                let zones = &mut places.entry(key).or_default().zones;
                if zones.len() < PLACES_SHOWN_MAX && !zones.contains(zone.name.as_str()) {
                    zones.insert(zone.name.as_str().to_owned());
                }
            }
        }
        for key in used {
            let Places { routes, more_routes, .. } = places.entry(key).or_default();
            match routes.len() < PLACES_SHOWN_MAX {
                true => routes.push(page.path.as_str().to_owned()),
                false => *more_routes += 1,
            }
        }
    }
    places
}
