//! Rules that are never reached, variants that no rule selects, arms and goals of experiments, and node IDs that occur
//! twice on a page.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::redirects::PublishedPaths;
use crate::nearest::nearest;
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::pattern::Name;
use crate::site::source::types::{
    Audiences, Experiment, Goals, Layout, Members, Node, PersonalizedZone, Rule, Zone,
};

/// The check of one page.
pub(super) struct PageLint<'p> {
    pub(super) file: &'p str,
    /// The audiences that every visitor belongs to.
    pub(super) universal: &'p BTreeSet<&'p str>,
    pub(super) published: &'p PublishedPaths<'p>,
    /// The goals of the site.
    pub(super) goals: &'p Goals,
    pub(super) warnings: &'p mut Diagnostics,
}

/// The node IDs of a part of a page, each with the pointer to its node.
type NodeIds<'s> = BTreeMap<&'s str, String>;

impl PageLint<'_> {
    pub(super) fn check(mut self, layout: &Layout) {
        self.check_zones(&layout.zones, "/layout", &mut NodeIds::new());
    }

    fn check_zones<'s>(&mut self, zones: &'s Members<Name, Zone>, pointer: &str, ids: &mut NodeIds<'s>) {
        for (name, zone) in &zones.0 {
            let pointer = format!("{pointer}/zones/{name}");
            match zone {
                Zone::Plain(nodes) => self.check_nodes(nodes, &pointer, ids),
                Zone::Personalized(zone) => self.check_personalized(zone, &pointer, ids),
            }
        }
    }

    /// Checks a personalized zone. A response has one of its alternatives, so they may share node IDs.
    fn check_personalized<'s>(&mut self, zone: &'s PersonalizedZone, pointer: &str, ids: &mut NodeIds<'s>) {
        let outside = ids.clone();
        let variants = zone.variants.0.iter().map(|(key, nodes)| (format!("variants/{key}"), nodes));
        for (place, nodes) in [("default".to_owned(), &zone.default)].into_iter().chain(variants) {
            let mut own = outside.clone();
            self.check_nodes(nodes, &format!("{pointer}/{place}"), &mut own);
            ids.append(&mut own);
        }
        self.check_rules(&zone.rules, &format!("{pointer}/rules"));
        self.check_unused_variants(zone, &format!("{pointer}/variants"));
    }

    fn check_unused_variants(&mut self, zone: &PersonalizedZone, pointer: &str) {
        let mut selected = BTreeSet::new();
        for rule in &zone.rules {
            match rule {
                Rule::Audience { variant, .. } | Rule::When { variant, .. } => {
                    selected.insert(&**variant);
                }
                Rule::Experiment { experiment, .. } => {
                    selected.extend(experiment.variants.iter().map(|variant| &**variant));
                }
            }
        }
        for (key, _) in zone.variants.0.iter().filter(|(key, _)| !selected.contains(&**key)) {
            let expected = "a rule of the zone with this variant";
            let diagnostic =
                Diagnostic::at_key(self.file, format!("{pointer}/{key}"), expected, format!("`{key}`"));
            self.warnings.add(diagnostic.with_title(format!("no rule selects the variant `{key}`")));
        }
    }

    fn check_nodes<'s>(&mut self, nodes: &'s [Node], pointer: &str, ids: &mut NodeIds<'s>) {
        for (i, node) in nodes.iter().enumerate() {
            let pointer = format!("{pointer}/{i}");
            if let Some(first) = ids.insert(&node.id, pointer.clone()) {
                let id = &*node.id;
                let title = format!("node ID {id:?} occurs twice on this page");
                let expected = "an ID that no other node of the page has";
                let actual = format!("{id:?}, as at {first}");
                self.warnings.add_titled(self.file, format!("{pointer}/id"), title, expected, actual);
            }
            if let Some(zones) = &node.zones {
                self.check_zones(zones, &pointer, ids);
            }
        }
    }

    fn check_rules(&mut self, rules: &[Rule], pointer: &str) {
        for (i, rule) in rules.iter().enumerate() {
            let pointer = format!("{pointer}/{i}");
            if let Rule::Experiment { experiment, .. } = rule {
                self.check_goals(experiment, &format!("{pointer}/experiment"));
                self.check_arms(experiment, &format!("{pointer}/experiment/variants"));
            }
            let always = rules[..i].iter().position(|earlier| self.always_matches(earlier));
            let same = rules[..i].iter().position(|earlier| has_same_condition(earlier, rule));
            let expected = match (always, same) {
                (Some(at), _) => format!("no rule after rule {at}, which matches every visitor"),
                (None, Some(at)) => format!("another condition than that of rule {at}"),
                (None, None) => continue,
            };
            let title = format!("rule {i} is never reached");
            self.warnings.add_titled(self.file, pointer, title, expected, format!("rule {i}"));
        }
    }

    fn check_goals(&mut self, experiment: &Experiment, pointer: &str) {
        let guardrails = experiment.guardrails.iter().flatten().enumerate();
        let guardrails = guardrails.map(|(i, rail)| (format!("{pointer}/guardrails/{i}/goal"), &rail.goal));
        let goal = experiment.goal.iter().map(|goal| (format!("{pointer}/goal"), goal));
        for (pointer, goal) in goal.chain(guardrails) {
            if self.goals.contains_key(goal.as_str()) {
                continue;
            }
            self.published.check_goal(self.file, &pointer, goal, self.warnings);
            self.check_goal_key(&pointer, goal);
        }
    }

    /// Adds a warning if a goal is almost the key of a goal of the site. It is an event name then. A goal with a prefix is
    /// never a key.
    fn check_goal_key(&mut self, pointer: &str, goal: &str) {
        if ["event:", "page:"].iter().any(|prefix| goal.starts_with(prefix)) {
            return;
        }
        let keys = self.goals.keys().map(|key| &**key);
        if let Some(nearest) = nearest(goal, keys) {
            let title = format!("the goal is the event {goal:?}, and `site.json` has the goal `{nearest}`");
            let expected = "the key of a goal, or `event:` before the name of the event";
            let diagnostic = Diagnostic::at_value(self.file, pointer, expected, format!("{goal:?}"));
            self.warnings.add(diagnostic.with_title(title).with_nearest(Some(nearest)));
        }
    }

    /// Checks that an experiment compares at least two arms, one of them the default content.
    fn check_arms(&mut self, experiment: &Experiment, pointer: &str) {
        let key = &*experiment.key;
        let arms = &experiment.variants;
        let (title, expected) = if arms.len() < 2 {
            (
                format!("experiment `{key}` has one arm, so it compares nothing"),
                "two or more arms, such as `default` and one variant",
            )
        } else if arms.iter().all(|arm| &**arm != "default") {
            (
                format!(
                    "experiment `{key}` has no arm `default`, so it does not compare with the default content"
                ),
                "the arm `default` beside the variants",
            )
        } else {
            return;
        };
        let names: Vec<String> = arms.iter().map(|arm| format!("`{}`", &**arm)).collect();
        self.warnings.add_titled(self.file, pointer, title, expected, names.join(", "));
    }

    fn always_matches(&self, rule: &Rule) -> bool {
        match rule {
            Rule::Audience { audience, .. } => self.universal.contains(&**audience),
            Rule::When { when, .. } => always_holds(when, self.universal),
            // It does not match for a visitor without an ID.
            Rule::Experiment { .. } => false,
        }
    }
}

/// Returns the audiences that every visitor belongs to. Each pass finds those that name only ones found before.
pub(super) fn universal_audiences(audiences: &Audiences) -> BTreeSet<&str> {
    let mut universal = BTreeSet::new();
    loop {
        let found = audiences.iter().filter(|(_, audience)| always_holds(&audience.when, &universal));
        let next: BTreeSet<&str> = found.map(|(key, _)| &**key).collect();
        if next == universal {
            return universal;
        }
        universal = next;
    }
}

/// Returns whether a condition has no test, so that it holds for every visitor.
fn always_holds(condition: &Json, universal_audiences: &BTreeSet<&str>) -> bool {
    let holds = |condition: &Json| always_holds(condition, universal_audiences);
    let holds_as = |(key, operand): (&String, &Json)| match (key.as_str(), operand) {
        ("$and", Json::Array(all)) => all.iter().all(holds),
        ("$or", Json::Array(any)) => any.is_empty() || any.iter().any(holds),
        ("$audience", Json::String(key)) => universal_audiences.contains(key.as_str()),
        _ => false,
    };
    condition.as_object().is_some_and(|members| members.iter().all(holds_as))
}

/// Returns whether the second rule matches only visitors that the first one matches.
fn has_same_condition(first_rule: &Rule, second_rule: &Rule) -> bool {
    match (first_rule, second_rule) {
        (Rule::Audience { audience: a, .. }, Rule::Audience { audience: b, .. }) => a == b,
        (Rule::When { when: a, .. }, Rule::When { when: b, .. }) => a == b,
        _ => false,
    }
}
