//! The references between the parts of a snapshot: every index in range, every zone in exactly one place, outside itself, every
//! list sorted that is searched by halves. A file that `compile` wrote passes; one that was made by hand with a right hash may
//! not.

use rkyv::rend::u32_le;

use super::format::{
    ArchivedColumnBound, ArchivedPage, ArchivedPart, ArchivedQuery, ArchivedRule, ArchivedScan,
    ArchivedShows, ArchivedSite,
};
use super::hash_index;
use crate::limits::{
    ITEMS_MAX, NODE_NESTING_MAX, QUERY_LIMIT_MAX, QUERY_PARAMS_MAX, SITE_ID_BYTES_MAX, ZONES_MAX,
};

/// The last of what may be done with crawlers' events, and with addresses; see [`super::format::Site`].
const POLICY_MAX: u8 = 2;

/// Checks a site whose structure is sound.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(site: &ArchivedSite) -> Result<(), &'static str> {
    if !hash_index::is_sound(&site.literals, site.routes.len()) {
        return Err("the table of literal paths has no end, or names a route that is not there");
    }
    let is_id = |id: &str| {
        (1..=SITE_ID_BYTES_MAX).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    // They stand in header fields and metrics as they are.
    if !is_id(&site.site) || !site.tracking_id.strip_prefix("track_").is_some_and(is_id) {
        return Err("the site ID or the tracking ID is none");
    }
    if site.bots > POLICY_MAX || site.ip > POLICY_MAX {
        return Err("what is done with crawlers or addresses is none that there is");
    }
    tree_references(site)?;
    for query in site.queries.iter() {
        query_references(site, query)?;
    }
    for page in site.pages.iter() {
        page_references(site, page)?;
    }
    for route in site.routes.iter() {
        if !route.path.starts_with('/') {
            return Err("a route's path does not begin with a slash");
        }
        if let ArchivedShows::Page(index) = &route.shows {
            let page =
                site.pages.get(index.to_native() as usize).ok_or("a route shows a page that is not there")?;
            // Parameters are found by their place in the path.
            if !matches(&page.path, &route.path) {
                return Err("a route shows a page of another path");
            }
        }
    }
    Ok(())
}

/// Whether every branch is reached from exactly one before it, so that a search ends and visits each
/// once, and every route stands as deep as its path has segments, so that each parameter finds its own.
fn tree_references(site: &ArchivedSite) -> Result<(), &'static str> {
    let has_segments = |route: usize, segments: usize| {
        site.routes.get(route).is_some_and(|route| route.path.matches('/').count() == segments)
    };
    let mut depths = vec![None; site.tree.len()];
    depths.iter_mut().take(1).for_each(|root| *root = Some(0));
    for (from, branch) in site.tree.iter().enumerate() {
        let depth: usize = depths[from].ok_or("the tree of patterns has a branch that nothing leads to")?;
        let ends = [(&branch.route, depth), (&branch.rest, depth + 1)];
        for (route, segments) in ends {
            if route.as_ref().is_some_and(|route| !has_segments(route.to_native() as usize, segments)) {
                return Err("the tree of patterns names a route that is not there, or elsewhere");
            }
        }
        let onward = branch.literals.iter().map(|l| l.1.to_native());
        for index in onward.chain(branch.param.as_ref().map(|p| p.to_native())) {
            match depths.get_mut(index as usize) {
                Some(reached @ None) if index as usize > from => *reached = Some(depth + 1),
                _ => return Err("the tree of patterns has a circle, or a branch in two places"),
            }
        }
    }
    Ok(())
}

fn page_references(site: &ArchivedSite, page: &ArchivedPage) -> Result<(), &'static str> {
    let combinations = site.pieces.get(page.combinations.to_native() as usize);
    let array = page.combinations_array_bytes.to_native() as usize;
    if page.zones.len() > ZONES_MAX || combinations.is_none_or(|piece| piece.text.len() < array) {
        return Err("a page has too many zones, or no combinations");
    }
    for zone in page.zones.iter() {
        let is_variant = |index: u8| usize::from(index) < zone.variants.len();
        let rules_hold = zone.rules.iter().all(|rule| match rule {
            ArchivedRule::When { variant, .. } => is_variant(*variant),
            ArchivedRule::Experiment { experiment, arms, .. } => {
                let experiment = site.experiments.get(usize::from(experiment.to_native()));
                experiment.is_some_and(|e| e.ranges.len() == arms.len())
                    && arms.iter().all(|arm| is_variant(*arm))
            }
        });
        if !is_variant(0) || !rules_hold {
            return Err("a rule names what is not there");
        }
    }
    for embedded in page.embedded.iter() {
        let query = site.queries.get(embedded.query.to_native() as usize);
        if query.is_none_or(|query| query.params.len() != embedded.given.len()) {
            return Err("a page embeds a query that is not there");
        }
    }
    let mut stood = [false; ZONES_MAX];
    parts_references(site, page, &page.parts, &mut stood, 0)?;
    if stood[..page.zones.len()].contains(&false) {
        return Err("a zone stands nowhere");
    }
    Ok(())
}

fn parts_references(
    site: &ArchivedSite,
    page: &ArchivedPage,
    parts: &[ArchivedPart],
    stood: &mut [bool; ZONES_MAX],
    depth: usize,
) -> Result<(), &'static str> {
    for part in parts {
        match part {
            ArchivedPart::Piece(index) if (index.to_native() as usize) < site.pieces.len() => {}
            ArchivedPart::Query(index) if usize::from(index.to_native()) < page.embedded.len() => {}
            ArchivedPart::Zone(index) if usize::from(*index) < page.zones.len() => {
                // A second standing covers circles too: a zone within itself would stand twice.
                let twice = std::mem::replace(&mut stood[usize::from(*index)], true);
                if twice || depth >= NODE_NESTING_MAX {
                    return Err("a zone stands in two places, or too deep");
                }
                for variant in page.zones[usize::from(*index)].variants.iter() {
                    parts_references(site, page, &variant.parts, stood, depth + 1)?;
                }
            }
            _ => return Err("a layout names a piece, a zone or a query that is not there"),
        }
    }
    Ok(())
}

/// Whether the path is the pattern, or one that it matches: segment by segment.
fn matches(pattern: &str, path: &str) -> bool {
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

/// Whether everything that a search looks up is there, and sorted where it searches by halves.
fn query_references(site: &ArchivedSite, query: &ArchivedQuery) -> Result<(), &'static str> {
    let (params, items) = (query.params.len(), query.items.len());
    let limit = query.limit.to_native() as usize;
    if params > QUERY_PARAMS_MAX || items > ITEMS_MAX || !(1..=QUERY_LIMIT_MAX).contains(&limit) {
        return Err("a query has too many parameters or items, or a limit out of range");
    }
    if !query.params.is_sorted_by(|a, b| a.name.as_str() < b.name.as_str()) {
        return Err("a query's parameters are not sorted");
    }
    if !query.items.is_sorted_by(|a, b| a.place < b.place)
        || query.items.iter().any(|item| item.piece.to_native() as usize >= site.pieces.len())
    {
        return Err("a query's items are not sorted, or name a piece that is not there");
    }
    let index = &query.index;
    let is_position = |at: &u32_le| (at.to_native() as usize) < items;
    let mut combinations = Some(1u64);
    for indexed in index.params.iter() {
        let values = indexed.values.len();
        combinations = combinations.and_then(|all| all.checked_mul(values as u64 + 2));
        let is_param = usize::from(indexed.param.to_native()) < params;
        if !is_param || !hash_index::is_sound(&indexed.slots, values) || combinations.is_none() {
            return Err("a query's index has a parameter that is not there, or no end");
        }
    }
    if index.keys.len() != index.lists.len()
        || !index.keys.is_sorted_by(|a, b| a < b)
        || !index.lists.iter().all(|list| list.iter().all(is_position) && list.is_sorted_by(|a, b| a < b))
    {
        return Err("a query's index is not sorted, or names an item that is not there");
    }
    query.scan.as_ref().map_or(Ok(()), |scan| scan_references(scan, params, items))
}

fn scan_references(scan: &ArchivedScan, params: usize, items: usize) -> Result<(), &'static str> {
    for column in scan.columns.iter() {
        let mut positions = column.positions.iter().chain(column.always.iter());
        if column.keys.len() != column.positions.len()
            || !column.keys.is_sorted()
            || positions.any(|at| at.to_native() as usize >= items)
        {
            return Err("a query's column is not sorted, or names an item that is not there");
        }
    }
    let is_bound = |bound: &ArchivedColumnBound| {
        usize::from(bound.column.to_native()) < scan.columns.len()
            && usize::from(bound.param.to_native()) < params
    };
    if !scan.bounds.iter().all(is_bound)
        || scan.params.iter().flat_map(|of| of.iter()).any(|param| usize::from(param.to_native()) >= params)
    {
        return Err("a query's scan names what is not there");
    }
    Ok(())
}
