//! Compiles the goals of a site, and the values of its experiments, into the list that Insights notes for each event.

use std::collections::BTreeMap;

use super::properties::compile_properties;
use crate::limits::{ATTRIBUTION_MS_MAX, EXPERIMENT_VALUES_MAX, GOAL_TESTS_MAX, GOALS_MAX, ROUTE_BYTES_MAX};
use crate::nfc;
use crate::site::experiment_metrics::{Goal, VALUE_PROPERTIES, parse_window_ms};
use crate::site::goals::{PropertyPath, SiteGoal, SiteGoals};
use crate::site::snapshot::format::{self, Experiment};
use crate::site::source::diagnostics::{Diagnostics, join_token};
use crate::site::source::pattern::Name;
use crate::site::source::types;

const _: () = assert!(GOALS_MAX + EXPERIMENT_VALUES_MAX <= u128::BITS as usize, "one bit for each goal");

/// Compiles the goals of a site, and after them those of experiments with a value. Reports invalid goals.
pub(super) fn compile_goals(
    site: &types::Site,
    experiments: &[Experiment],
    diagnostics: &mut Diagnostics,
) -> format::Goals {
    if site.goals.len() > GOALS_MAX {
        let expected = format!("at most {GOALS_MAX} goals");
        diagnostics.add_titled("site.json", "/goals", "too many goals", expected, site.goals.len());
    }
    let mut goals = Vec::new();
    for (key, goal) in &site.goals {
        check_goal(key, goal, diagnostics);
        if let Some(target) = target_of(goal) {
            goals.push(SiteGoal {
                key: key.to_string(),
                name: goal.name.clone(),
                target,
                tests: goal.tests.clone(),
                value: goal.value.clone(),
                currency: goal.currency.clone(),
            });
        }
    }
    let values = experiment_values(experiments, &goals);
    if values.len() > EXPERIMENT_VALUES_MAX {
        let expected = format!(
            "at most {EXPERIMENT_VALUES_MAX} different values of experiments, without those of goals of the site and without `properties.revenue`, `properties.value`, `properties.total` and `properties.quantity` that have no `currency`"
        );
        diagnostics.add_titled("site.json", "", "too many values of experiments", expected, values.len());
    }
    goals.extend(values);
    format::Goals {
        list: SiteGoals::to_text(&goals),
        properties: compile_properties(site, diagnostics),
        attribution_window_ms: attribution_window_ms(site, diagnostics),
        attributes_first: site.attribution.model == types::AttributionModel::First,
    }
}

/// Returns the window of the attribution, in milliseconds. Reports an invalid one.
fn attribution_window_ms(site: &types::Site, diagnostics: &mut Diagnostics) -> i64 {
    let window = &site.attribution.window;
    let parsed = parse_window_ms(window).filter(|window_ms| *window_ms <= ATTRIBUTION_MS_MAX);
    parsed.unwrap_or_else(|| {
        let expected = "a whole number of s, m, h or d, such as \"30d\", at most 366 days";
        let actual = format!("{window:?}");
        diagnostics.add_titled("site.json", "/attribution/window", "invalid window", expected, actual);
        0
    })
}

/// Returns the event or the page of a goal. `None` if the goal has both or neither.
fn target_of(goal: &types::Goal) -> Option<Goal<String>> {
    let event = goal.event.as_ref().map(|name| Goal::Event(name.clone()));
    let page = goal.page.as_ref().map(|path| Goal::Page(nfc::normalize(path).into_owned()));
    event.xor(page)
}

fn check_goal(key: &Name, goal: &types::Goal, diagnostics: &mut Diagnostics) {
    let pointer = join_token("/goals", key);
    let mut report = |member: &str, title: &str, expected: &str, actual: &str| {
        let pointer = if member.is_empty() { pointer.clone() } else { join_token(&pointer, member) };
        diagnostics.add_titled("site.json", pointer, title, expected, actual);
    };
    if goal.event.is_some() == goal.page.is_some() {
        let actual = if goal.event.is_some() { "both" } else { "neither" };
        report("", "a goal of one event or page", "either `event` or `page`", actual);
    }
    if goal.page.as_ref().is_some_and(|page| page.contains(['?', '#'])) {
        report(
            "page",
            "invalid page",
            "a path without `?` and `#`",
            goal.page.as_deref().unwrap_or_default(),
        );
    }
    if let Some(page) = goal.page.as_ref().filter(|page| page.len() > ROUTE_BYTES_MAX) {
        let expected = format!("a path of at most {ROUTE_BYTES_MAX} bytes");
        report("page", "invalid page", &expected, &format!("{} bytes", page.len()));
    }
    if goal.currency.is_some() && goal.value.is_none() {
        report(
            "currency",
            "`currency` without a value",
            "a `value` too, because it has the currency",
            "no `value`",
        );
    }
    if goal.tests.len() > GOAL_TESTS_MAX {
        let expected = format!("at most {GOAL_TESTS_MAX} properties");
        report("where", "too many tests of properties", &expected, &goal.tests.len().to_string());
    }
    for (path, _) in goal.tests.iter().filter(|(_, test)| test.is_empty()) {
        let pointer = join_token(&join_token(&pointer, "where"), path.as_str());
        let expected = "at least one operator such as `$eq`";
        diagnostics.add_titled("site.json", pointer, "a test without an operator", expected, "none");
    }
}

/// Returns a goal without a key for each value of experiments that is none of [`VALUE_PROPERTIES`], or has a currency. Column
/// files have the amounts of those properties of every event. A goal of the site with the same amounts serves the experiment too.
fn experiment_values(experiments: &[Experiment], site_goals: &[SiteGoal]) -> Vec<SiteGoal> {
    let mut goals: BTreeMap<(String, PropertyPath, Option<PropertyPath>), SiteGoal> = BTreeMap::new();
    for metrics in experiments.iter().map(|experiment| &experiment.metrics) {
        let Some((text, value)) = metrics.goal.as_ref().zip(metrics.value.as_deref()) else { continue };
        let is_kept = VALUE_PROPERTIES.iter().any(|name| PropertyPath::of_name(name).as_str() == value);
        let value = PropertyPath::parse(value);
        let currency = metrics.currency.as_deref().and_then(PropertyPath::parse);
        if let Some(Goal::Event(name)) = Goal::parse(text)
            && let Some(value) = value
            && (!is_kept || currency.is_some())
        {
            let target = Goal::Event(name.to_owned());
            if site_goals.iter().any(|goal| goal.has_amount(&target, &value, currency.as_ref())) {
                continue;
            }
            let goal = SiteGoal {
                key: String::new(),
                name: String::new(),
                target,
                tests: BTreeMap::new(),
                value: Some(value.clone()),
                currency: currency.clone(),
            };
            goals.insert((name.to_owned(), value, currency), goal);
        }
    }
    goals.into_values().collect()
}
