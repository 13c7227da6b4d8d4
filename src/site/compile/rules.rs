//! The rules file of a site: a copy of the site with the members that a decision needs.
//!
//! This module is the list of the members that `/v1/rules` publishes. Each struct is written out with all its members, so a new
//! member does not compile until it is copied here, or left out.

use super::archive::archive_site;
use super::piece::PieceBuilder;
use crate::site::snapshot::format::{
    Audience, Branch, Condition, Experiment, Goals, Metrics, Namespace, NamespaceShare, Page, Part, Redirect,
    Route, RouteTarget, Rule, Site, SiteHoldout, TargetPart, Variant, Zone,
};
use crate::site::snapshot::pattern_format::SitePatterns;
use crate::site::snapshot::rules_format;
use crate::site::snapshot::segment_format::TraitNames;
use crate::site::source::diagnostics::Diagnostics;

/// Returns the rules file of a site.
///
/// # Errors
/// The rules do not fit in a file.
pub(super) fn rules_file(site: &Site) -> Result<Vec<u8>, Diagnostics> {
    let mut pieces = PieceBuilder::new();
    let empty_piece = pieces.add(b"");
    let (pieces, file) = pieces.finish(&|_, _| {});
    let rules = Site { pieces, ..listed_site(site, empty_piece) };
    let snapshot = archive_site(&rules, file, site.version)?;
    Ok(rules_format::from_snapshot(&snapshot))
}

fn listed_site(site: &Site, empty_piece: u32) -> Site {
    Site {
        site: site.site.clone(),
        tracking_id: site.tracking_id.clone(),
        version: site.version,
        hosts: site.hosts.clone(),
        ignored_referrers: site.ignored_referrers.clone(),
        ignores_providers: site.ignores_providers,
        cookie: site.cookie.clone(),
        verifies_users: site.verifies_users,
        honor_gpc: site.honor_gpc,
        time_zone: site.time_zone.clone(),
        clock_offsets: site.clock_offsets.clone(),
        patterns: listed_patterns(&site.patterns),
        audiences: site.audiences.iter().map(listed_audience).collect(),
        experiments: site.experiments.iter().map(listed_experiment).collect(),
        namespaces: site.namespaces.iter().map(listed_namespace).collect(),
        holdout: site.holdout.as_ref().map(listed_holdout),
        sees_url: site.sees_url,
        pages: site.pages.iter().map(|page| listed_page(page, empty_piece)).collect(),
        routes: site.routes.iter().map(listed_route).collect(),
        literals: site.literals.clone(),
        tree: site.tree.iter().map(listed_branch).collect(),
        // The members below are private, or no decision reads them.
        name: String::new(),
        preview: None,
        origins: Vec::new(),
        bots: 0,
        ip: 0,
        measure_categories: Vec::new(),
        cache_resolve: String::new(),
        cache_routes: String::new(),
        cache_query: String::new(),
        settings: String::new(),
        updated_at: None,
        goals: Goals {
            list: "[]".to_owned(),
            properties: Vec::new(),
            attribution_window_ms: 0,
            attributes_first: false,
        },
        segments: Vec::new(),
        traits: TraitNames::default(),
        rules: None,
        pieces: Vec::new(),
        queries: Vec::new(),
    }
}

fn listed_patterns(patterns: &SitePatterns) -> SitePatterns {
    let SitePatterns { sources, tables, table_format } = patterns;
    SitePatterns { sources: sources.clone(), tables: tables.clone(), table_format: *table_format }
}

fn listed_audience(audience: &Audience) -> Audience {
    Audience {
        key: audience.key.clone(),
        condition: listed_condition(&audience.condition),
        name: String::new(),
    }
}

fn listed_condition(condition: &Condition) -> Condition {
    Condition { program: condition.program.clone(), authored: condition.authored.clone() }
}

fn listed_experiment(experiment: &Experiment) -> Experiment {
    Experiment {
        key: experiment.key.clone(),
        seed: experiment.seed.clone(),
        seed_hash: experiment.seed_hash,
        arms: experiment.arms.clone(),
        weights: experiment.weights.clone(),
        coverages: experiment.coverages.clone(),
        from_ms: experiment.from_ms,
        to_ms: experiment.to_ms,
        winner: experiment.winner,
        namespace: experiment
            .namespace
            .as_ref()
            .map(|share| NamespaceShare { namespace: share.namespace, range: share.range }),
        holdout: experiment.holdout,
        phase_hash: experiment.phase_hash,
        metrics: Metrics::default(),
    }
}

fn listed_namespace(namespace: &Namespace) -> Namespace {
    Namespace { name: namespace.name.clone(), phase_hashes: namespace.phase_hashes.clone() }
}

fn listed_holdout(holdout: &SiteHoldout) -> SiteHoldout {
    SiteHoldout {
        share: holdout.share,
        seed: holdout.seed.clone(),
        seed_hash: holdout.seed_hash,
        covers_rules: holdout.covers_rules,
    }
}

fn listed_page(page: &Page, empty_piece: u32) -> Page {
    Page {
        path: page.path.clone(),
        parts: listed_parts(&page.parts),
        zones: page.zones.iter().map(listed_zone).collect(),
        zone_places: page.zone_places.clone(),
        embedded: Vec::new(),
        combinations: empty_piece,
        combinations_array_bytes: 0,
        combinations_truncated: false,
    }
}

/// Returns the places of the zones, without the content around them.
fn listed_parts(parts: &[Part]) -> Vec<Part> {
    parts.iter().copied().filter(|part| matches!(part, Part::Zone(_))).collect()
}

fn listed_zone(zone: &Zone) -> Zone {
    Zone {
        name: zone.name.clone(),
        variants: zone.variants.iter().map(listed_variant).collect(),
        rules: zone.rules.iter().map(listed_rule).collect(),
    }
}

fn listed_variant(variant: &Variant) -> Variant {
    Variant {
        key: variant.key.clone(),
        pair: variant.pair.clone(),
        selected: variant.selected.clone(),
        parts: listed_parts(&variant.parts),
    }
}

fn listed_rule(rule: &Rule) -> Rule {
    match rule {
        Rule::Audience { audience, variant } => Rule::Audience { audience: *audience, variant: *variant },
        Rule::When { when, variant } => Rule::When { when: listed_condition(when), variant: *variant },
        Rule::Experiment { experiment, arms, when } => Rule::Experiment {
            experiment: *experiment,
            arms: arms.clone(),
            when: when.as_ref().map(listed_condition),
        },
    }
}

fn listed_route(route: &Route) -> Route {
    Route {
        path: route.path.clone(),
        content: [0; 16],
        is_pattern: route.is_pattern,
        listing: String::new(),
        target: match &route.target {
            RouteTarget::Page(index) => RouteTarget::Page(*index),
            RouteTarget::Redirect(redirect) => RouteTarget::Redirect(listed_redirect(redirect)),
        },
    }
}

fn listed_redirect(redirect: &Redirect) -> Redirect {
    Redirect {
        to: redirect.to.clone(),
        parts: redirect.parts.iter().map(listed_target_part).collect(),
        status: redirect.status,
    }
}

fn listed_target_part(part: &TargetPart) -> TargetPart {
    match part {
        TargetPart::Text(text) => TargetPart::Text(text.clone()),
        TargetPart::Segment(index) => TargetPart::Segment(*index),
        TargetPart::Rest(index) => TargetPart::Rest(*index),
    }
}

fn listed_branch(branch: &Branch) -> Branch {
    let Branch { literals, param, rest, route } = branch;
    Branch { literals: literals.clone(), param: *param, rest: *rest, route: *route }
}
