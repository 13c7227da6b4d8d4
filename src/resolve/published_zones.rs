//! The zones of a published page with their rules, for Insights.

use serde_json::{Value as Json, json};

use super::path::RoutePath;
use super::route;
use crate::site::snapshot::format::{
    ArchivedCondition, ArchivedPage, ArchivedPart, ArchivedRule, ArchivedSite, ArchivedZone,
};

/// A published zone of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedZone {
    pub zone: String,
    /// True if the zone is inside a variant of another zone.
    pub nested: bool,
    /// The rules, with their conditions as the author wrote them. The rule of an experiment has its key and its
    /// variants.
    pub rules: Vec<Json>,
    /// True if chance alone chooses the variant of a visitor.
    pub comparable: bool,
    /// The keys of the variants, `default` first.
    pub variants: Vec<String>,
}

/// Returns the zones of the page at a path. A redirect and an unknown path have none.
pub(crate) fn zones_of(site: &ArchivedSite, path: &str) -> Vec<PublishedZone> {
    let mut parsed = RoutePath::new();
    let found = parsed.parse(path).ok().and_then(|()| route::find(site, &parsed));
    let page = found.and_then(|(_, route)| route::page(site, route));
    page.map_or_else(Vec::new, |page| zones_of_page(site, page))
}

fn zones_of_page(site: &ArchivedSite, page: &ArchivedPage) -> Vec<PublishedZone> {
    let is_nested = |index: usize| {
        !page.parts.iter().any(|part| matches!(part, ArchivedPart::Zone(zone) if usize::from(*zone) == index))
    };
    let zones = page.zones.iter().enumerate();
    zones
        .map(|(index, zone)| PublishedZone {
            zone: zone.name.to_string(),
            nested: is_nested(index),
            rules: zone.rules.iter().map(|rule| rule_json(site, zone, rule)).collect(),
            comparable: !zone.rules.is_empty() && zone.rules.iter().all(is_chance),
            variants: zone.variants.iter().map(|variant| variant.key.to_string()).collect(),
        })
        .collect()
}

/// Returns whether chance alone decides. The condition of an experiment decides which visitors see `default`.
fn is_chance(rule: &ArchivedRule) -> bool {
    matches!(rule, ArchivedRule::Experiment { when, .. } if when.is_none())
}

fn rule_json(site: &ArchivedSite, zone: &ArchivedZone, rule: &ArchivedRule) -> Json {
    let variant = |index: &u8| zone.variants[usize::from(*index)].key.get();
    match rule {
        ArchivedRule::Audience { audience, variant: index, .. } => {
            let audience = site.audiences[usize::from(audience.to_native())].key.as_str();
            json!({ "audience": audience, "variant": variant(index) })
        }
        ArchivedRule::When { when, variant: index } => {
            json!({ "when": authored_json(when), "variant": variant(index) })
        }
        ArchivedRule::Experiment { experiment, arms, when } => {
            let key = site.experiments[usize::from(experiment.to_native())].key.get();
            let variants: Vec<&str> = arms.iter().map(variant).collect();
            let mut rule = json!({ "experiment": { "key": key, "variants": variants } });
            if let Some(when) = when.as_ref() {
                rule["when"] = authored_json(when);
            }
            rule
        }
    }
}

fn authored_json(condition: &ArchivedCondition) -> Json {
    serde_json::from_str(&condition.authored).unwrap_or_default()
}
