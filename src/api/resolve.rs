//! `GET /v1/resolve`: the layout of a route, decided or forced, or its redirect.

use super::answer_table::AnswerKind;
use super::context::RequestContext;
use super::response::{self, Body, CachePolicy, CacheTag, ResponseFields};
use super::scratch::Scratch;
use super::selection::{self, Selection};
use crate::http::params::Param;
use crate::json;
use crate::problem::{self, Problem};
use crate::resolve::content::EmbeddedQueries;
use crate::resolve::path::RoutePath;
use crate::resolve::route;
use crate::site::snapshot::format::{ArchivedRedirect, ArchivedRoute, ArchivedRouteTarget};

/// `Cache-Control` of a layout with an unknown pair. The pair comes from an older version of the page, so caches
/// keep the response only for seconds.
const CACHE_SHORT: &str = "public, max-age=0, s-maxage=5";

pub(super) fn handle<'a>(
    context: &RequestContext<'a>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let inspection = context.inspection()?;
    let is_forced = has_forced_variants(context)?;
    let (route_index, route) = context.route(&mut scratch.path)?;
    match &route.target {
        ArchivedRouteTarget::Redirect(redirect) => {
            let cache_policy = match is_forced {
                _ if inspection.is_requested() => CachePolicy::NoStore,
                true => CachePolicy::Public(&context.site().cache_resolve),
                false => CachePolicy::Private,
            };
            write_redirect(context, route, redirect, cache_policy, scratch, out)
        }
        ArchivedRouteTarget::Page(index) => {
            let page = &context.site().pages[index.to_native() as usize];
            let selected = selection::select_variants(context, page, inspection, &mut scratch.visitor);
            // A reference, because `?` copies the selection twice.
            let Ok(selection) = &selected else { return selected.map(drop) };
            let Scratch { visitor, answer_key, response: buffers, .. } = scratch;
            let (kind, experiments) = match selection.is_decided {
                true => (AnswerKind::DecidedLayout, visitor.decision_buffers.experiments.text()),
                false => (AnswerKind::ForcedLayout, &[][..]),
            };
            selection.set_answer_key(context, kind, route_index, route, experiments, answer_key);
            if response::write_prepared(context, answer_key.if_set(), buffers, out)? {
                return Ok(());
            }
            build_layout(context, route, selection, scratch);
            write_layout(context, selection, scratch, out)
        }
    }
}

/// Returns whether the request has `variants`, even if empty.
///
/// # Errors
/// `invalid_param`, if it has `override` too.
fn has_forced_variants<'a>(context: &RequestContext<'a>) -> Result<bool, Problem<'a>> {
    let is_forced = context.params.get_even_if_empty(Param::Variants).is_some();
    if is_forced && context.params.get(Param::Override).is_some() {
        let sentence = "The request has both 'variants' and 'override'; send only one of them.";
        return Err(Problem::new(problem::INVALID_PARAM, sentence).at(Param::Override.name()));
    }
    Ok(is_forced)
}

fn build_layout(
    context: &RequestContext<'_>,
    route: &ArchivedRoute,
    selection: &Selection<'_>,
    scratch: &mut Scratch,
) {
    let Scratch { plan, path, canonical, visitor, response: buffers, query_runner, .. } = scratch;
    let experiments = visitor.decision_buffers.experiments.text();
    plan.clear();
    let out = &mut plan.text;
    out.extend_from_slice(b"{\"type\":\"layout\",");
    write_opening(context, &selection.page.path, path, out);
    out.push(b',');
    selection.write_members(canonical, experiments, out);
    out.push(b',');
    let mut holes = EmbeddedQueries { search: query_runner, patterns: context.published.patterns(), path };
    plan.add_page(context.site(), selection.page, &selection.choice, &mut holes);
    plan.finish();

    response::write_etag_prefix(&mut buffers.etag_input, b'r', route, path);
    selection.write_etag_input(experiments, &mut buffers.etag_input);
}

/// Appends `"site":...,"route":...,"pattern":...,"params":{...}`.
fn write_opening(context: &RequestContext<'_>, pattern: &str, path: &RoutePath, out: &mut Vec<u8>) {
    selection::write_site_and_route(context, path, out);
    out.extend_from_slice(b",\"pattern\":");
    json::write_string(out, pattern);
    out.extend_from_slice(b",\"params\":{");
    selection::write_route_params(pattern, path, out);
    out.push(b'}');
}

fn write_layout(
    context: &RequestContext<'_>,
    selection: &Selection<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let Scratch { plan, path, canonical, visitor, answer_key, location, response, .. } = scratch;
    let is_decided = selection.is_decided;
    let unknown = !is_decided && selection.has_unknown_pairs();
    if unknown {
        write_canonical_url(context, path, canonical, location);
    }
    let cache_policy = match selection.is_inspected {
        true => CachePolicy::NoStore,
        false if is_decided => CachePolicy::Private,
        false if unknown && context.site().preview.is_none() => CachePolicy::Public(CACHE_SHORT),
        false => CachePolicy::Public(&context.site().cache_resolve),
    };
    let fields = ResponseFields {
        cache_policy,
        variants: Some(canonical),
        experiments: is_decided.then_some(visitor.decision_buffers.experiments.text()),
        tag: Some(CacheTag::Page(path)),
        location: unknown.then_some(&location[..]),
        answer_key: answer_key.if_set(),
        is_stale: selection.is_stale,
    };
    let body = Body::Planned(plan, context.pieces());
    response::write_response(context, &fields, &body, response, out)
}

/// Writes the URL under which the same content has its full cache time.
fn write_canonical_url(
    context: &RequestContext<'_>,
    path: &RoutePath,
    canonical_variants: &[u8],
    out: &mut Vec<u8>,
) {
    out.clear();
    out.extend_from_slice(b"/v1/resolve?trackingId=");
    out.extend_from_slice(context.site().tracking_id.as_bytes());
    out.extend_from_slice(b"&route=");
    let from = out.len();
    path.encode(out);
    // The server decodes the route twice, as a parameter and as a path. Therefore this escapes its escapes.
    let escapes = out[from..].iter().filter(|b| **b == b'%').count();
    let mut read = out.len();
    out.resize(read + 2 * escapes, 0);
    let mut write = out.len();
    while read < write {
        read -= 1;
        let byte = out[read];
        if byte == b'%' {
            write -= 3;
            out[write..write + 3].copy_from_slice(b"%25");
        } else {
            write -= 1;
            out[write] = byte;
        }
    }
    out.extend_from_slice(b"&variants=");
    out.extend_from_slice(canonical_variants);
}

/// Appends the redirect of a route. The status is 200, so that a browser's fetch can read the body.
pub(super) fn write_redirect(
    context: &RequestContext<'_>,
    route: &ArchivedRoute,
    redirect: &ArchivedRedirect,
    cache_policy: CachePolicy<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let Scratch { plan, path, response: buffers, .. } = scratch;
    plan.clear();
    write_redirect_body(context, route, redirect, path, &mut plan.text);
    response::write_etag_prefix(&mut buffers.etag_input, b'd', route, path);
    let fields = ResponseFields::new(cache_policy, Some(CacheTag::Page(path)));
    response::write_response(context, &fields, &Body::Text(&plan.text), buffers, out)
}

/// Appends the body of a redirect.
pub(super) fn write_redirect_body(
    context: &RequestContext<'_>,
    route: &ArchivedRoute,
    redirect: &ArchivedRedirect,
    path: &RoutePath,
    body: &mut Vec<u8>,
) {
    body.extend_from_slice(b"{\"type\":\"redirect\",");
    write_opening(context, &route.path, path, body);
    body.extend_from_slice(b",\"to\":");
    route::write_target(redirect, path, body);
    body.extend_from_slice(b",\"status\":");
    json::write_number(body, redirect.status.to_native());
    body.push(b'}');
}
