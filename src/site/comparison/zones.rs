//! The changes of zones: their rules, with the audiences and the experiments that these name and the holdout of the site. Also the known
//! visitors who get another variant.
//!
//! The content of a variant is not compared. A zone without rules shows `default`, and so does a zone that a page does not have. A page that
//! only one of the versions has is not compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::conditions::ConditionIdentities;
use super::known_visitors::{PartChangeKind, VisitorRange};
use crate::site::snapshot::format::{
    ArchivedExperiment, ArchivedPage, ArchivedRule, ArchivedSite, ArchivedZone, Standing,
};

/// The position of a zone in a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ZonePosition {
    /// The index of the page.
    pub(crate) page: usize,
    /// The index of the zone in the page.
    pub(crate) zone: usize,
}

/// The change of one zone, which several pages can have.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneChange {
    /// The name of the zone.
    pub name: String,
    /// The authored paths of the pages whose zone of this name has the same rules in both versions, sorted.
    pub paths: Vec<String>,
    pub kind: PartChangeKind,
    /// The zone of one of the pages in the older site. `None` if it shows `default` there without rules, or if the page does not
    /// have it.
    pub(crate) before: Option<ZonePosition>,
    /// The same in the newer site.
    pub(crate) after: Option<ZonePosition>,
    /// The known visitors who get another variant.
    pub(super) visitors: VisitorRange,
}

/// Returns the zones that differ at a time, sorted by name and path.
pub(super) fn find_changes(before: &ArchivedSite, after: &ArchivedSite, now_ms: i64) -> Vec<ZoneChange> {
    let [older, newer] = [before, after].map(|site| ZoneRules::new(site, now_ms));
    let older_pages = pages_by_path(before);
    let mut changes: BTreeMap<ChangeKey<'_>, ZoneChange> = BTreeMap::new();
    for (path, newer_page) in pages_by_path(after) {
        let Some(older_page) = older_pages.get(path) else { continue };
        let mut zones: BTreeMap<&str, [Option<ComparedZone>; 2]> = BTreeMap::new();
        for (side, (rules, page)) in [(&older, *older_page), (&newer, newer_page)].into_iter().enumerate() {
            for (zone, name) in rules.zones_of(page) {
                zones.entry(name).or_default()[side] = Some(zone);
            }
        }
        for (name, pair) in zones {
            let is_any_nested = pair.iter().flatten().any(|zone| zone.is_nested);
            // Outside of other zones, a zone without rules shows `default` like a zone that the page does not have.
            let [before, after] = pair.map(|zone| zone.filter(|zone| is_any_nested || zone.has_rules));
            let rules = [&before, &after].map(|zone| zone.as_ref().map(|zone| zone.rules.clone()));
            let is_decided = [&before, &after]
                .map(|zone| zone.as_ref().is_some_and(|zone| zone.has_rules || zone.is_nested));
            let kind = match is_decided {
                [false, false] => continue,
                [false, true] => PartChangeKind::New,
                [true, false] => PartChangeKind::Removed,
                [true, true] if rules[0] == rules[1] => continue,
                [true, true] => PartChangeKind::Changed,
            };
            let [before, after] = [before, after].map(|zone| zone.map(|zone| zone.position));
            let change = changes.entry(ChangeKey { name, rules }).or_insert_with(|| ZoneChange {
                name: name.to_owned(),
                paths: Vec::new(),
                kind,
                before,
                after,
                visitors: VisitorRange::default(),
            });
            change.paths.push(path.to_owned());
        }
    }
    let mut changes: Vec<ZoneChange> = changes.into_values().collect();
    changes.sort_by(|one, other| (&one.name, &one.paths).cmp(&(&other.name, &other.paths)));
    changes
}

/// The facts by which the changes of zones are one change.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ChangeKey<'s> {
    name: &'s str,
    /// The rules in both versions.
    rules: [Option<String>; 2],
}

fn pages_by_path(site: &ArchivedSite) -> BTreeMap<&str, usize> {
    site.pages.iter().enumerate().map(|(index, page)| (page.path.as_str(), index)).collect()
}

/// A zone of a page in one of the versions.
struct ComparedZone {
    position: ZonePosition,
    has_rules: bool,
    /// True if it is in a variant of another zone.
    is_nested: bool,
    /// A text that two zones share only if they show the same variant to each visitor with each request.
    rules: String,
}

/// The rules of the zones of a site, as texts.
struct ZoneRules<'s> {
    site: &'s ArchivedSite,
    conditions: ConditionIdentities<'s>,
    /// The phase hashes of the running experiments.
    running: BTreeSet<u32>,
    now_ms: i64,
}

impl<'s> ZoneRules<'s> {
    fn new(site: &'s ArchivedSite, now_ms: i64) -> Self {
        let running = site.experiments.iter().filter(|one| one.standing(now_ms) == Standing::Running);
        let running = running.map(|one| one.phase_hash.to_native()).collect();
        Self { site, conditions: ConditionIdentities::new(site), running, now_ms }
    }

    /// Returns the zones of a page with their names.
    fn zones_of(&self, page_index: usize) -> Vec<(ComparedZone, &'s str)> {
        let page = &self.site.pages[page_index];
        let mut rules: Vec<Json> = vec![Json::Null; page.zones.len()];
        let mut zones = Vec::new();
        // A zone comes after the zone that it is in.
        for place in page.zone_places.iter() {
            let index = usize::from(place.zone);
            let zone = &page.zones[index];
            rules[index] = json!({ "rules": self.rules_json(zone), "within": within_json(page, place.within(), &rules),
                "holdout": self.holdout_json(zone) });
            let compared = ComparedZone {
                position: ZonePosition { page: page_index, zone: index },
                has_rules: !zone.rules.is_empty(),
                is_nested: place.within().is_some(),
                rules: rules[index].to_string(),
            };
            zones.push((compared, zone.name.as_str()));
        }
        zones
    }

    fn rules_json(&self, zone: &ArchivedZone) -> Vec<Json> {
        let variant = |index: &u8| zone.variants[usize::from(*index)].key.get();
        let identity = |identity: u128| format!("{identity:032x}");
        let rule = |rule: &ArchivedRule| match rule {
            ArchivedRule::Audience { audience, variant: index } => {
                let audience = usize::from(audience.to_native());
                json!([identity(self.conditions.of_audience(audience)), variant(index)])
            }
            ArchivedRule::When { when, variant: index } => {
                json!([identity(self.conditions.of(when)), variant(index)])
            }
            ArchivedRule::Experiment { experiment, arms, when } => {
                let when = when.as_ref().map(|when| identity(self.conditions.of(when)));
                let experiment = &self.site.experiments[usize::from(experiment.to_native())];
                json!([when, arms.iter().map(variant).collect::<Vec<_>>(), self.experiment_json(experiment)])
            }
        };
        zone.rules.iter().map(rule).collect()
    }

    /// Returns the facts about an experiment that its assignments depend on.
    fn experiment_json(&self, experiment: &ArchivedExperiment) -> Json {
        match experiment.standing(self.now_ms) {
            Standing::NotStarted | Standing::Ended => json!("closed"),
            Standing::Decided(arm) => json!(["decided", experiment.arms[arm].as_str()]),
            Standing::Running => {
                let namespace = experiment.namespace.as_ref().map(|share| {
                    let namespace = &self.site.namespaces[usize::from(share.namespace.to_native())];
                    let phases = namespace.phase_hashes.iter().map(|hash| hash.to_native());
                    let running: Vec<u32> = phases.filter(|hash| self.running.contains(hash)).collect();
                    let range = &share.range;
                    json!([namespace.name.as_str(), range.from.to_native(), range.to.to_native(), running])
                });
                json!([experiment.phase_hash.to_native(), experiment.coverage(self.now_ms), namespace])
            }
        }
    }

    /// Returns the holdout of the site if it decides the zone.
    fn holdout_json(&self, zone: &ArchivedZone) -> Json {
        let holdout = self.site.holdout.as_ref().filter(|holdout| holdout.concerns(zone));
        holdout.map_or(Json::Null, |holdout| {
            json!([holdout.share.to_native(), holdout.seed.as_str(), holdout.covers_rules])
        })
    }
}

/// Returns the rules of the zone that a zone is in, and the variant that has it.
fn within_json(page: &ArchivedPage, within: Option<(u8, u8)>, rules: &[Json]) -> Json {
    within.map_or(Json::Null, |(outer, variant)| {
        let outer = usize::from(outer);
        json!([page.zones[outer].variants[usize::from(variant)].key.get(), rules[outer]])
    })
}
