//! Verifies the references between the parts of a snapshot: every index is in range, every zone has exactly
//! one place and is not within itself, and every list for a binary search is sorted.
//!
//! A file from `compile` always passes. A forged file with a correct hash may not.

use rkyv::rend::{u16_le, u32_le, u64_le};

use super::format::{
    ArchivedArgument, ArchivedColumnBound, ArchivedExperiment, ArchivedGuardrail, ArchivedNamespace,
    ArchivedPage, ArchivedPart, ArchivedPiece, ArchivedQuery, ArchivedRedirect, ArchivedRouteTarget,
    ArchivedRule, ArchivedScan, ArchivedSite, ArchivedSiteHoldout, ArchivedTargetPart, ArchivedZonePlace,
    SiteHoldout, phase_hash,
};
use super::hash_index;
use super::segment_format::verify_segments;
use crate::condition::{self, References, verify_audiences};
use crate::limits::{
    ATTRIBUTION_MS_MAX, AUDIENCES_MAX, EXPERIMENT_VALUES_MAX, GOALS_MAX, GUARDRAILS_MAX,
    IGNORED_REFERRERS_MAX, ITEMS_MAX, NODE_NESTING_MAX, PRIVATE_TRAITS_MAX, PROPERTIES_MAX, QUERY_LIMIT_MAX,
    QUERY_PARAMS_MAX, RAMP_STEPS_MAX, SEARCHABLE_TRAITS_MAX, SEED_CHARS_MAX, SITE_ID_BYTES_MAX, ZONES_MAX,
};
use crate::site::experiment_metrics::{
    Cap, Dimension, Goal, are_segments, is_margin, is_planned, parse_window_ms,
};
use crate::site::goals::{PropertyPath, SiteGoals};
use crate::site::profile_fields::field_paths;

/// Highest policy number for crawlers' events and for addresses. See [`super::format::Site`].
const POLICY_MAX: u8 = 2;

const WRONG_ZONE_PLACES: &str = "the list of zone places does not follow the layout";

/// Verifies a site whose archive structure is valid, and that its pieces are within `piece_data`.
///
/// # Errors
/// The first fault.
pub(super) fn verify_site(site: &ArchivedSite, piece_data: &[u8]) -> Result<(), &'static str> {
    if !site.pieces.iter().all(|piece| is_within(piece, piece_data.len() as u64)) {
        return Err("a piece is outside of the piece data");
    }
    if !hash_index::is_valid(&site.literals, site.routes.len()) {
        return Err("the index of literal paths is invalid or refers to a missing route");
    }
    // Header fields and metrics contain them unescaped.
    if !is_id(&site.site) || !site.tracking_id.strip_prefix("track_").is_some_and(is_id) {
        return Err("the site ID or the tracking ID is malformed");
    }
    if site.bots > POLICY_MAX || site.ip > POLICY_MAX {
        return Err("the policy for crawlers or addresses is not 0, 1 or 2");
    }
    if site.ignored_referrers.len() > IGNORED_REFERRERS_MAX {
        return Err("there are too many ignored referrers");
    }
    // Responses list experiments in this order, each once.
    if !site.experiments.is_sorted_by(|a, b| a.key.get() < b.key.get()) {
        return Err("the experiments are not sorted by key");
    }
    verify_header_texts(site)?;
    site.experiments.iter().try_for_each(verify_experiment)?;
    verify_namespaces(site)?;
    site.holdout.as_ref().map_or(Ok(()), verify_holdout)?;
    // A module that only decides reads no goal, and needs no parser for them.
    #[cfg(any(feature = "server", feature = "author"))]
    verify_goals(site)?;
    verify_segments(&site.segments)?;
    verify_conditions(site)?;
    verify_tree(site)?;
    for query in site.queries.iter() {
        verify_query(site, query)?;
    }
    for page in site.pages.iter() {
        verify_page(site, page)?;
    }
    for route in site.routes.iter() {
        if !route.path.starts_with('/') {
            return Err("a route's path does not begin with a slash");
        }
        // Parameters are located by their position in the path.
        match &route.target {
            ArchivedRouteTarget::Page(index) => {
                let page =
                    site.pages.get(index.to_native() as usize).ok_or("a route refers to a missing page")?;
                if !pattern_matches(&page.path, &route.path) {
                    return Err("a route refers to a page with another path");
                }
            }
            ArchivedRouteTarget::Redirect(redirect) => verify_redirect(&route.path, redirect)?,
        }
    }
    // The file of the versions has the distances between entries. A list of differences compares two sorted lists.
    if !site.routes.is_sorted_by(|a, b| a.path.get() < b.path.get())
        || !site.queries.is_sorted_by(|a, b| a.key.as_str() < b.key.as_str())
    {
        return Err("the routes or the queries are not sorted, or one occurs twice");
    }
    Ok(())
}

/// Returns whether the text of a piece and its compressed form are within `data_bytes` bytes of piece data.
fn is_within(piece: &ArchivedPiece, data_bytes: u64) -> bool {
    let is_range = |offset: u64_le, bytes: u32_le| {
        let end = offset.to_native().checked_add(bytes.to_native().into());
        end.is_some_and(|end| end <= data_bytes)
    };
    is_range(piece.text_offset, piece.text_bytes) && is_range(piece.deflate_offset, piece.deflate_bytes)
}

/// Returns whether a text is an ID, or a key of an experiment, a zone or a variant.
fn is_id(id: &str) -> bool {
    (1..=SITE_ID_BYTES_MAX).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Verifies the other texts that header fields contain unescaped.
fn verify_header_texts(site: &ArchivedSite) -> Result<(), &'static str> {
    let is_printable = |text: &str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if ![&site.cache_resolve, &site.cache_query, &site.cache_routes]
        .into_iter()
        .all(|text| is_printable(text))
    {
        return Err("the text of a cache time is malformed");
    }
    let zones = || site.pages.iter().flat_map(|page| page.zones.iter());
    let mut keys = zones().flat_map(|zone| zone.variants.iter()).map(|variant| &variant.key);
    if !site.experiments.iter().map(|experiment| &experiment.key).all(|key| is_id(key))
        || !zones().all(|zone| is_id(&zone.name))
        || !keys.all(|key| is_id(key))
        || !zones().flat_map(|zone| zone.variants.iter()).all(|variant| is_printable(&variant.pair))
    {
        return Err("the key of an experiment, a zone or a variant is malformed");
    }
    Ok(())
}

/// Verifies the conditions on visitors: those of audiences and of rules.
fn verify_conditions(site: &ArchivedSite) -> Result<(), &'static str> {
    if site.audiences.len() > AUDIENCES_MAX {
        return Err("there are too many audiences");
    }
    let audiences = || site.audiences.iter().map(|audience| &audience.condition.program);
    let rules = site.pages.iter().flat_map(|page| page.zones.iter()).flat_map(|zone| zone.rules.iter());
    let own = rules.filter_map(|rule| match rule {
        ArchivedRule::Audience { .. } => None,
        ArchivedRule::When { when, .. } => Some(&when.program),
        ArchivedRule::Experiment { when, .. } => when.as_ref().map(|when| &when.program),
    });
    let references = References {
        fields: field_paths().count(),
        audiences: site.audiences.len(),
        patterns: site.patterns.sources.len(),
        params: 0,
    };
    audiences().chain(own).try_for_each(|program| condition::verify(program, &references))?;
    verify_audiences(audiences())
}

/// Verifies the arms and the metrics of an experiment.
fn verify_experiment(experiment: &ArchivedExperiment) -> Result<(), &'static str> {
    let arms = || experiment.arms.iter();
    if experiment.arms.len() != experiment.weights.len() || !arms().all(|arm| is_id(arm)) {
        return Err("an experiment has a malformed arm, or another number of arms than of weights");
    }
    let steps = &experiment.coverages;
    let shares =
        experiment.weights.iter().chain(steps.iter().map(|step| &step.share)).chain([&experiment.holdout]);
    if !shares.map(|share| share.to_native()).all(|share| (0.0..=1.0).contains(&share)) {
        return Err("a weight, the coverage or the holdout of an experiment is not from 0 to 1");
    }
    let is_sorted = steps.is_sorted_by(|a, b| a.from_ms.to_native() < b.from_ms.to_native());
    if !(1..=RAMP_STEPS_MAX).contains(&steps.len()) || !is_sorted {
        return Err("an experiment has no coverage, too many coverages, or unsorted ones");
    }
    let winner = experiment.winner.as_ref().map(|arm| usize::from(*arm));
    if winner.is_some_and(|arm| arm >= experiment.arms.len() || experiment.to_ms.is_none()) {
        return Err("an experiment has a winner that is no arm, or a winner without an end");
    }
    if experiment.seed.chars().count() > SEED_CHARS_MAX {
        return Err("an experiment has a seed that is too long");
    }
    if experiment.seed_hash != condition::seed_hash(&experiment.seed) {
        return Err("the seed hash of an experiment is not that of its seed");
    }
    let shares = arms().map(|arm| arm.as_str()).zip(experiment.weights.iter().map(|w| w.to_native()));
    let hash = phase_hash(experiment.key.get(), &experiment.seed, shares, experiment.holdout.to_native());
    if experiment.phase_hash != hash {
        return Err("the phase hash of an experiment is not that of its definition");
    }
    let metrics = &experiment.metrics;
    let is_property = |path: &str| PropertyPath::parse(path).is_some();
    let goal = metrics.goal.as_ref().map(|goal| Goal::parse(goal));
    let is_guardrail =
        |rail: &ArchivedGuardrail| Goal::parse(&rail.goal).is_some() && is_margin(rail.margin.to_native());
    let is_value = |value: &str| is_property(value) && matches!(goal, Some(Some(Goal::Event(_))));
    let segments: Option<Vec<Dimension>> =
        metrics.segments.iter().map(|name| Dimension::parse(name)).collect();
    if goal == Some(None)
        || !metrics.value.as_ref().is_none_or(|value| is_value(value))
        || !metrics.currency.as_ref().is_none_or(|currency| is_property(currency) && metrics.value.is_some())
        || metrics.cap.as_ref().is_some_and(|cap| Cap::parse(cap).is_none())
        || metrics.guardrails.len() > GUARDRAILS_MAX
        || !metrics.guardrails.iter().all(is_guardrail)
        || !metrics.planned.as_ref().is_none_or(|planned| is_planned(planned.to_native()))
        || metrics.window.as_ref().is_some_and(|window| parse_window_ms(window).is_none())
        || !segments.is_some_and(|segments| are_segments(&segments))
    {
        return Err("the metrics of an experiment are malformed");
    }
    Ok(())
}

fn verify_holdout(holdout: &ArchivedSiteHoldout) -> Result<(), &'static str> {
    if !(0.0..=1.0).contains(&holdout.share.to_native()) || holdout.seed.chars().count() > SEED_CHARS_MAX {
        return Err("the share of the holdout is not from 0 to 1, or its seed is too long");
    }
    if holdout.seed_hash != SiteHoldout::seed_hash(&holdout.seed) {
        return Err("the seed hash of the holdout is not that of its seed");
    }
    Ok(())
}

#[cfg(any(feature = "server", feature = "author"))]
fn verify_goals(site: &ArchivedSite) -> Result<(), &'static str> {
    if !(0..=ATTRIBUTION_MS_MAX).contains(&site.goals.attribution_window_ms.to_native()) {
        return Err("the window of the attribution is out of range");
    }
    let lists = [
        (&site.goals.properties, PROPERTIES_MAX),
        (&site.traits.searchable, SEARCHABLE_TRAITS_MAX),
        (&site.traits.private, PRIVATE_TRAITS_MAX),
    ];
    if lists.iter().any(|(names, count_max)| names.len() > *count_max) {
        return Err("the site has too many properties or named traits");
    }
    if lists.iter().map(|(names, _)| names).any(|names| !names.is_sorted_by(|a, b| a < b)) {
        return Err("the properties or the named traits of the site are not sorted");
    }
    let properties = site.goals.properties.iter().map(|name| name.as_str());
    match SiteGoals::parse(&site.site, &site.goals.list, properties) {
        Some(goals) if goals.all().len() <= GOALS_MAX + EXPERIMENT_VALUES_MAX => Ok(()),
        Some(_) => Err("the site has too many goals"),
        None => Err("the goals or the properties of the site are malformed"),
    }
}

/// Verifies that each namespace has the phase hashes of its experiments, and that no experiment refers to a missing one.
fn verify_namespaces(site: &ArchivedSite) -> Result<(), &'static str> {
    let mut phase_hashes = vec![Vec::new(); site.namespaces.len()];
    for experiment in site.experiments.iter() {
        let Some(share) = experiment.namespace.as_ref() else { continue };
        let namespace = phase_hashes.get_mut(usize::from(share.namespace.to_native()));
        namespace
            .ok_or("an experiment refers to a missing namespace")?
            .push(experiment.phase_hash.to_native());
    }
    phase_hashes.iter_mut().for_each(|hashes| hashes.sort_unstable());
    let is_listed = |(namespace, hashes): (&ArchivedNamespace, Vec<u32>)| {
        namespace.phase_hashes.iter().map(|hash| hash.to_native()).eq(hashes)
    };
    let are_listed = site.namespaces.iter().zip(phase_hashes).all(is_listed);
    if are_listed { Ok(()) } else { Err("a namespace has other experiments than those that refer to it") }
}

/// Verifies that each parameter in the target of a redirect is one of its path.
fn verify_redirect(path: &str, redirect: &ArchivedRedirect) -> Result<(), &'static str> {
    let segment = |at: &u16_le| path.split('/').nth(usize::from(at.to_native()) + 1).unwrap_or_default();
    let is_valid = redirect.parts.iter().all(|part| match part {
        ArchivedTargetPart::Text(_) => true,
        ArchivedTargetPart::Segment(at) => segment(at).starts_with(':'),
        ArchivedTargetPart::Rest(at) => segment(at) == "*",
    });
    if is_valid { Ok(()) } else { Err("a redirect refers to a missing parameter of its path") }
}

/// Verifies the pattern tree. Every branch has exactly one parent before it, so that a search ends and visits
/// each branch once. Every route is as deep as its path has segments, so that each parameter finds its
/// segment.
fn verify_tree(site: &ArchivedSite) -> Result<(), &'static str> {
    let has_segments = |route: usize, segments: usize| {
        site.routes.get(route).is_some_and(|route| route.path.matches('/').count() == segments)
    };
    let mut depths = vec![None; site.tree.len()];
    depths.iter_mut().take(1).for_each(|root| *root = Some(0));
    for (from, branch) in site.tree.iter().enumerate() {
        let depth: usize = depths[from].ok_or("the pattern tree has an unreachable branch")?;
        let ends = [(&branch.route, depth), (&branch.rest, depth + 1)];
        for (route, segments) in ends {
            if route.as_ref().is_some_and(|route| !has_segments(route.to_native() as usize, segments)) {
                return Err("the pattern tree refers to a missing route, or to a route of another depth");
            }
        }
        let onward = branch.literals.iter().map(|l| l.1.to_native());
        for index in onward.chain(branch.param.as_ref().map(|p| p.to_native())) {
            match depths.get_mut(index as usize) {
                Some(reached @ None) if index as usize > from => *reached = Some(depth + 1),
                _ => return Err("the pattern tree has a cycle, or a branch with two parents"),
            }
        }
    }
    Ok(())
}

fn verify_page(site: &ArchivedSite, page: &ArchivedPage) -> Result<(), &'static str> {
    let combinations = site.pieces.get(page.combinations.to_native() as usize);
    let array = page.combinations_array_bytes.to_native() as usize;
    if page.zones.len() > ZONES_MAX
        || combinations.is_none_or(|piece| (piece.text_bytes.to_native() as usize) < array)
    {
        return Err("a page has too many zones, or its combinations are missing");
    }
    for zone in page.zones.iter() {
        let is_variant = |index: u8| usize::from(index) < zone.variants.len();
        let rules_hold = zone.rules.iter().all(|rule| match rule {
            ArchivedRule::Audience { audience, variant, .. } => {
                usize::from(audience.to_native()) < site.audiences.len() && is_variant(*variant)
            }
            ArchivedRule::When { variant, .. } => is_variant(*variant),
            ArchivedRule::Experiment { experiment, arms, .. } => {
                let experiment = site.experiments.get(usize::from(experiment.to_native()));
                let key = |arm: &u8| zone.variants.get(usize::from(*arm)).map(|variant| variant.key.get());
                // An exposure names the variant, and the result of the experiment names the arm.
                experiment
                    .is_some_and(|e| arms.iter().map(key).eq(e.arms.iter().map(|arm| Some(arm.as_str()))))
            }
        });
        if !is_variant(0) || !rules_hold {
            return Err(
                "a zone has no variants, or a rule refers to a missing variant, experiment or audience",
            );
        }
    }
    for embedded in page.embedded.iter() {
        let query = site.queries.get(embedded.query.to_native() as usize);
        if query.is_none_or(|query| query.params.len() != embedded.arguments.len()) {
            return Err("a page embeds a missing query, or one with another number of parameters");
        }
    }
    let mut layout =
        LayoutVerifier { site, page, reached: [false; ZONES_MAX], places_left: page.zone_places.iter() };
    layout.verify_parts(&page.parts, None, 0)?;
    if layout.reached[..page.zones.len()].contains(&false) {
        return Err("a zone has no place in its page");
    }
    if layout.places_left.next().is_some() {
        return Err(WRONG_ZONE_PLACES);
    }
    Ok(())
}

/// A verifier of the layout of a page. It visits the parts in order.
struct LayoutVerifier<'s> {
    site: &'s ArchivedSite,
    page: &'s ArchivedPage,
    /// True for each zone that was reached.
    reached: [bool; ZONES_MAX],
    /// The places of the zones that were not reached yet.
    places_left: std::slice::Iter<'s, ArchivedZonePlace>,
}

impl<'s> LayoutVerifier<'s> {
    /// Verifies the parts of a variant, or of the page.
    fn verify_parts(
        &mut self,
        parts: &'s [ArchivedPart],
        outer_variant: Option<(u8, u8)>,
        depth: usize,
    ) -> Result<(), &'static str> {
        let Self { site, page, .. } = *self;
        for part in parts {
            match part {
                ArchivedPart::Piece(index) if (index.to_native() as usize) < site.pieces.len() => {}
                ArchivedPart::Query(index) if usize::from(index.to_native()) < page.embedded.len() => {}
                ArchivedPart::RouteValue(index, param)
                    if is_route_argument(page, index.to_native(), *param) => {}
                ArchivedPart::Zone(index) if usize::from(*index) < page.zones.len() => {
                    self.verify_zone(*index, outer_variant, depth)?;
                }
                _ => return Err("a layout refers to a missing piece, zone, query or argument"),
            }
        }
        Ok(())
    }

    fn verify_zone(
        &mut self,
        zone_index: u8,
        outer: Option<(u8, u8)>,
        depth: usize,
    ) -> Result<(), &'static str> {
        // This check also finds cycles: a zone within itself would be visited twice.
        let twice = std::mem::replace(&mut self.reached[usize::from(zone_index)], true);
        if twice || depth >= NODE_NESTING_MAX {
            return Err("a zone has two places, or is nested too deep");
        }
        let is_wrong = |place: &ArchivedZonePlace| place.zone != zone_index || place.within() != outer;
        if self.places_left.next().is_none_or(is_wrong) {
            return Err(WRONG_ZONE_PLACES);
        }
        for (index, variant) in self.page.zones[usize::from(zone_index)].variants.iter().enumerate() {
            self.verify_parts(&variant.parts, Some((zone_index, index as u8)), depth + 1)?;
        }
        Ok(())
    }
}

/// Returns whether the embedded query takes this parameter from the path.
fn is_route_argument(page: &ArchivedPage, call_index: u16, param_index: u8) -> bool {
    let call = page.embedded.get(usize::from(call_index));
    let argument = call.and_then(|call| call.arguments.get(usize::from(param_index)));
    matches!(argument, Some(ArchivedArgument::Route(_)))
}

/// Returns whether the path equals the pattern or matches it, segment by segment.
fn pattern_matches(pattern: &str, path: &str) -> bool {
    if !pattern.starts_with('/') {
        return false;
    }
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        match segments.next() {
            Some(_) if wanted == "*" => return true,
            Some(segment) if wanted.starts_with(':') || wanted == segment => {}
            _ => return false,
        }
    }
    segments.next().is_none()
}

/// Verifies that the lists of a query are sorted for binary searches and refer to existing parts.
fn verify_query(site: &ArchivedSite, query: &ArchivedQuery) -> Result<(), &'static str> {
    let params = query.params.len();
    let items = query.items.len();
    let limit = query.limit.to_native() as usize;
    if params > QUERY_PARAMS_MAX || items > ITEMS_MAX || !(1..=QUERY_LIMIT_MAX).contains(&limit) {
        return Err("a query has too many parameters or items, or its limit is out of range");
    }
    if !query.params.is_sorted_by(|a, b| a.name.as_str() < b.name.as_str()) {
        return Err("a query's parameters are not sorted");
    }
    if !query.items.is_sorted_by(|a, b| a.sort_key < b.sort_key)
        || query.items.iter().any(|item| item.piece.to_native() as usize >= site.pieces.len())
    {
        return Err("a query's items are not sorted, or refer to a missing piece");
    }
    let index = &query.index;
    let is_position = |at: &u32_le| (at.to_native() as usize) < items;
    let mut combinations = Some(1u64);
    for indexed in index.params.iter() {
        let values = indexed.values.len();
        combinations = combinations.and_then(|all| all.checked_mul(values as u64 + 2));
        let is_param = usize::from(indexed.param.to_native()) < params;
        if !is_param || !hash_index::is_valid(&indexed.slots, values) || combinations.is_none() {
            return Err("a query's index refers to a missing parameter, or its hash index is invalid");
        }
    }
    if index.keys.len() != index.lists.len()
        || !index.keys.is_sorted_by(|a, b| a < b)
        || !index.lists.iter().all(|list| list.iter().all(is_position) && list.is_sorted_by(|a, b| a < b))
    {
        return Err("a query's index is inconsistent, or refers to a missing item");
    }
    let verify_scan = |scan| verify_scan(scan, params, items, site.patterns.sources.len());
    query.scan.as_ref().map_or(Ok(()), verify_scan)
}

fn verify_scan(
    scan: &ArchivedScan,
    param_count: usize,
    item_count: usize,
    pattern_count: usize,
) -> Result<(), &'static str> {
    // An item is read with any number of fields.
    let fields = usize::from(u16::MAX) + 1;
    let references = References { fields, audiences: 0, patterns: pattern_count, params: param_count };
    condition::verify(&scan.program, &references)?;
    condition::verify(&scan.residual, &references)?;
    for column in scan.columns.iter() {
        let mut positions = column.positions.iter().chain(column.always.iter());
        if column.keys.len() != column.positions.len()
            || !column.keys.is_sorted()
            || positions.any(|at| at.to_native() as usize >= item_count)
        {
            return Err("a query's column is inconsistent, or refers to a missing item");
        }
    }
    let is_bound = |bound: &ArchivedColumnBound| {
        usize::from(bound.column.to_native()) < scan.columns.len()
            && usize::from(bound.param.to_native()) < param_count
    };
    let is_missing = |param: &u16_le| usize::from(param.to_native()) >= param_count;
    if !scan.bounds.iter().all(is_bound) || scan.params.iter().flat_map(|of| of.iter()).any(is_missing) {
        return Err("a query's scan refers to a missing column or parameter");
    }
    Ok(())
}
