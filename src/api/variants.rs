//! `GET /v1/variants`: the decision alone, for a middleware that rewrites to a rendered
//! combination; or all combinations of a route.

use super::context::Call;
use super::handler::Room;
use super::response::{self, Answer, Body, Class};
use super::{resolve, selection};
use crate::http::params::Param;
use crate::problem::{self, Problem};
use crate::site::snapshot::format::{ArchivedPage, ArchivedRoute, ArchivedShows};

pub(super) fn answer<'a>(call: &Call<'a>, room: &mut Room, out: &mut Vec<u8>) -> Result<(), Problem<'a>> {
    let explain = call.explain()?;
    let combinations = includes_combinations(call)?;
    let route = call.route(&mut room.path)?;
    match &route.shows {
        ArchivedShows::Redirect(redirect) => {
            resolve::send_redirect(call, route, redirect, explain, room, out);
        }
        ArchivedShows::Page(index) => {
            let page = &call.site().pages[index.to_native() as usize];
            match combinations {
                true => send_combinations(call, route, page, room, out),
                false => send_decision(call, route, page, explain, room, out)?,
            }
        }
    }
    Ok(())
}

fn includes_combinations<'a>(call: &Call<'a>) -> Result<bool, Problem<'a>> {
    match call.params.get(Param::Include) {
        None => Ok(false),
        Some("combinations") => Ok(true),
        Some(came) => {
            let problem = Problem::new(problem::INVALID_PARAM, "combinations, or nothing", came);
            Err(problem.at(Param::Include.name()))
        }
    }
}

fn send_decision<'a>(
    call: &Call<'a>,
    route: &ArchivedRoute,
    page: &'a ArchivedPage,
    explain: bool,
    room: &mut Room,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let shown = selection::decided(call, page, explain, room)?;
    let Room { plan, path, canonical, tagged, ids, .. } = room;
    plan.clear();
    let body = &mut plan.text;
    body.push(b'{');
    selection::address(call, path, body);
    body.push(b',');
    shown.selection(canonical, body);
    shown.reasons(body);
    body.push(b'}');
    response::describe(tagged, b'v', route, path);
    tagged.extend_from_slice(shown.choice.as_bytes(page));
    let class = if shown.why.is_some() { Class::Unkept } else { Class::Private };
    let answer = Answer { class, etag: None, variants: Some(canonical), path: Some(path), location: None };
    response::send(call, answer, &Body::Text(body), tagged, ids, out);
    Ok(())
}

fn send_combinations(
    call: &Call<'_>,
    route: &ArchivedRoute,
    page: &ArchivedPage,
    room: &mut Room,
    out: &mut Vec<u8>,
) {
    let Room { plan, path, tagged, ids, .. } = room;
    plan.clear();
    let body = &mut plan.text;
    body.push(b'{');
    selection::address(call, path, body);
    body.extend_from_slice(b",\"combinations\":");
    plan.push(&call.site().pieces, page.combinations.to_native());
    plan.end();
    response::describe(tagged, b'c', route, path);
    let class = Class::Public(&call.site().cache_routes);
    let answer = Answer { class, etag: None, variants: None, path: Some(path), location: None };
    response::send(call, answer, &Body::Planned(plan, &call.site().pieces), tagged, ids, out);
}
