//! `GET /v1/variants`: the decision without the layout, for a middleware that rewrites to a rendered combination. With
//! `include=combinations`, all combinations of a route.

use super::answer_table::AnswerKind;
use super::context::{Inspection, RequestContext};
use super::response::{self, Body, CachePolicy, CacheTag, ResponseFields};
use super::scratch::Scratch;
use super::selection::Selection;
use super::{resolve, selection};
use crate::http::params::Param;
use crate::problem::{self, Problem};
use crate::resolve::path::RoutePath;
use crate::site::snapshot::format::{ArchivedPage, ArchivedRoute, ArchivedRouteTarget};

pub(super) fn handle<'a>(
    context: &RequestContext<'a>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let inspection = context.inspection()?;
    let combinations = includes_combinations(context)?;
    let (route_index, route) = context.route(&mut scratch.path)?;
    match &route.target {
        ArchivedRouteTarget::Redirect(redirect) => {
            let cache_policy = match combinations {
                true => combinations_policy(context, inspection),
                false if inspection.is_requested() => CachePolicy::NoStore,
                false => CachePolicy::Private,
            };
            resolve::write_redirect(context, route, redirect, cache_policy, scratch, out)
        }
        ArchivedRouteTarget::Page(index) => {
            let page = &context.site().pages[index.to_native() as usize];
            match combinations {
                true => write_combinations(context, route, page, inspection, scratch, out),
                false => write_decision(context, route_index, route, page, inspection, scratch, out),
            }
        }
    }
}

fn includes_combinations<'a>(context: &RequestContext<'a>) -> Result<bool, Problem<'a>> {
    match context.params.get(Param::Include) {
        None => Ok(false),
        Some("combinations") => Ok(true),
        Some(actual) => {
            let problem = Problem::invalid_value(problem::INVALID_PARAM, "'combinations'", actual);
            Err(problem.at(Param::Include.name()))
        }
    }
}

fn write_decision<'a>(
    context: &RequestContext<'a>,
    route_index: u32,
    route: &ArchivedRoute,
    page: &'a ArchivedPage,
    inspection: Inspection,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let selected = selection::select_for_visitor(context, page, inspection, &mut scratch.visitor);
    // A reference, because `?` copies the selection twice.
    let Ok(selection) = &selected else { return selected.map(drop) };
    let Scratch { plan, path, canonical, visitor, answer_key, response: buffers, .. } = scratch;
    let experiments = visitor.decision_buffers.experiments.text();
    let kind = if selection.is_crawler { AnswerKind::CrawlerDecision } else { AnswerKind::Decision };
    selection.set_answer_key(context, kind, route_index, route, experiments, answer_key);
    if response::write_prepared(context, answer_key.if_set(), buffers, out)? {
        return Ok(());
    }
    plan.clear();
    write_decision_body(context, selection, path, experiments, canonical, &mut plan.text);
    response::write_etag_prefix(&mut buffers.etag_input, b'v', route, path);
    selection.write_etag_input(experiments, &mut buffers.etag_input);
    buffers.etag_input.push(u8::from(selection.is_crawler));
    let cache_policy = if selection.is_inspected { CachePolicy::NoStore } else { CachePolicy::Private };
    let fields = ResponseFields {
        cache_policy,
        variants: Some(canonical),
        experiments: Some(experiments),
        tag: Some(CacheTag::Page(path)),
        location: None,
        answer_key: answer_key.if_set(),
        is_stale: selection.is_stale,
    };
    response::write_response(context, &fields, &Body::Text(&plan.text), buffers, out)
}

/// Appends the body of a decision, and writes the canonical string to `canonical_variants`.
pub(super) fn write_decision_body(
    context: &RequestContext<'_>,
    selection: &Selection<'_>,
    path: &RoutePath,
    experiments_text: &[u8],
    canonical_variants: &mut Vec<u8>,
    body: &mut Vec<u8>,
) {
    body.extend_from_slice(b"{\"type\":\"decision\",");
    selection::write_site_and_route(context, path, body);
    body.push(b',');
    selection.write_members(canonical_variants, experiments_text, body);
    if selection.is_crawler {
        body.extend_from_slice(b",\"crawler\":true");
    }
    body.push(b'}');
}

/// Returns the policy of a response with all combinations. They depend neither on the visitor nor on the time, but no
/// response to `now` may be public.
fn combinations_policy<'a>(context: &RequestContext<'a>, inspection: Inspection) -> CachePolicy<'a> {
    match inspection.now_ms {
        Some(_) => CachePolicy::NoStore,
        None => CachePolicy::Public(&context.site().cache_routes),
    }
}

fn write_combinations(
    context: &RequestContext<'_>,
    route: &ArchivedRoute,
    page: &ArchivedPage,
    inspection: Inspection,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let Scratch { plan, path, response: buffers, .. } = scratch;
    plan.clear();
    let body = &mut plan.text;
    body.extend_from_slice(b"{\"type\":\"combinations\",");
    selection::write_site_and_route(context, path, body);
    body.extend_from_slice(b",\"combinations\":");
    plan.push_piece(&context.site().pieces, page.combinations.to_native());
    plan.finish();
    response::write_etag_prefix(&mut buffers.etag_input, b'c', route, path);
    let cache_policy = combinations_policy(context, inspection);
    let fields = ResponseFields::new(cache_policy, Some(CacheTag::Page(path)));
    let body = Body::Planned(plan, context.pieces());
    response::write_response(context, &fields, &body, buffers, out)
}
