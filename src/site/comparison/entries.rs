//! The changes of goals and of routes, by key. The summary of a publication has them.

use std::collections::BTreeMap;

use super::known_visitors::PartChangeKind;
use crate::site::goals::{SiteGoal, SiteGoals};
use crate::site::snapshot::format::ArchivedSite;

/// The change of one goal or one route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryChange {
    pub(crate) kind: PartChangeKind,
    /// The key of the goal, or the authored path of the route.
    pub(crate) key: String,
}

/// Returns the goals of `site.json` that differ, sorted by kind and key.
pub(crate) fn find_goal_changes(before: &ArchivedSite, after: &ArchivedSite) -> Vec<EntryChange> {
    let [older, newer] = [before, after].map(ArchivedSite::site_goals);
    find_changes(&goals_by_key(&older), &goals_by_key(&newer))
}

fn goals_by_key(goals: &SiteGoals) -> BTreeMap<&str, &SiteGoal> {
    // The goal of an experiment has no key.
    let goals = goals.all().iter().filter(|goal| !goal.key.is_empty());
    goals.map(|goal| (goal.key.as_str(), goal)).collect()
}

/// Returns the routes that differ in their content or in their rules, sorted by kind and path.
pub(crate) fn find_route_changes(before: &ArchivedSite, after: &ArchivedSite) -> Vec<EntryChange> {
    let [older, newer] = [before, after].map(|site| {
        site.routes.iter().map(|route| (&*route.path, route.content)).collect::<BTreeMap<&str, _>>()
    });
    find_changes(&older, &newer)
}

fn find_changes<V: PartialEq>(older: &BTreeMap<&str, V>, newer: &BTreeMap<&str, V>) -> Vec<EntryChange> {
    let change = |kind, key: &str| EntryChange { kind, key: key.to_owned() };
    let removed = older.keys().filter(|key| !newer.contains_key(*key));
    let removed = removed.map(|key| change(PartChangeKind::Removed, key));
    let others = newer.iter().filter_map(|(key, value)| match older.get(key) {
        None => Some(change(PartChangeKind::New, key)),
        Some(old) => (old != value).then(|| change(PartChangeKind::Changed, key)),
    });
    let mut changes: Vec<EntryChange> = removed.chain(others).collect();
    changes.sort();
    changes
}
