//! `GET /v1/resolve`: the layout of a route, personalized or forced; or its redirect.

use super::context::Call;
use super::handler::Room;
use super::response::{self, Answer, Body, Class};
use super::selection::{self, Shown};
use crate::http::params::Param;
use crate::json;
use crate::problem::Problem;
use crate::resolve::content::Holes;
use crate::resolve::path::RoutePath;
use crate::resolve::variants::Asked;
use crate::site::snapshot::format::{ArchivedRedirect, ArchivedRoute, ArchivedShows};

/// `Cache-Control` of a layout with an unknown pair: a page that was re-published under a live cache.
const SHORT: &str = "public, max-age=0, s-maxage=5";

pub(super) fn answer<'a>(call: &Call<'a>, room: &mut Room, out: &mut Vec<u8>) -> Result<(), Problem<'a>> {
    let explain = call.explain()?;
    let route = call.route(&mut room.path)?;
    match &route.shows {
        ArchivedShows::Redirect(redirect) => send_redirect(call, route, redirect, explain, room, out),
        ArchivedShows::Page(index) => {
            let page = &call.site().pages[index.to_native() as usize];
            let shown = selection::shown(call, page, explain, room)?;
            layout(call, route, &shown, room);
            send_layout(call, &shown, room, out);
        }
    }
    Ok(())
}

fn layout(call: &Call<'_>, route: &ArchivedRoute, shown: &Shown<'_>, room: &mut Room) {
    let Room { plan, path, canonical, tagged, search, .. } = room;
    plan.clear();
    let out = &mut plan.text;
    out.extend_from_slice(b"{\"type\":\"layout\",");
    opening(call, &shown.page.path, path, out);
    out.push(b',');
    shown.selection(canonical, out);
    if let Some(asked) = &shown.asked {
        warnings(asked, out);
    }
    shown.reasons(out);
    out.push(b',');
    let mut holes = Holes { search, patterns: call.published.patterns(), path };
    plan.add(call.site(), shown.page, &shown.choice, &mut holes);
    plan.end();

    response::describe(tagged, b'r', route, path);
    tagged.extend_from_slice(shown.choice.as_bytes(shown.page));
    if let Some(asked) = &shown.asked {
        for (zone, key) in asked.unknown() {
            tagged.extend_from_slice(zone.as_bytes());
            tagged.push(b':');
            tagged.extend_from_slice(key.as_bytes());
            tagged.push(b',');
        }
    }
}

/// `"site":...,"route":...,"pattern":...,"params":{...}`
fn opening(call: &Call<'_>, pattern: &str, path: &RoutePath, out: &mut Vec<u8>) {
    selection::address(call, path, out);
    out.extend_from_slice(b",\"pattern\":");
    json::string(out, pattern);
    out.extend_from_slice(b",\"params\":{");
    selection::params(pattern, path, out);
    out.push(b'}');
}

fn warnings(asked: &Asked<'_>, out: &mut Vec<u8>) {
    for (i, (zone, key)) in asked.unknown().enumerate() {
        out.extend_from_slice(if i == 0 { b",\"warnings\":[" } else { b"," });
        // Zones and keys are made of letters, digits, '_' and '-': nothing to escape.
        out.extend_from_slice(b"{\"code\":\"unknown_variant\",\"zone\":\"");
        out.extend_from_slice(zone.as_bytes());
        out.extend_from_slice(b"\",\"key\":\"");
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\"}");
    }
    if asked.has_unknown() {
        out.push(b']');
    }
}

fn send_layout(call: &Call<'_>, shown: &Shown<'_>, room: &mut Room, out: &mut Vec<u8>) {
    let Room { plan, path, canonical, tagged, location, ids, .. } = room;
    let unknown = shown.asked.as_ref().is_some_and(|asked| asked.has_unknown());
    if unknown {
        canonical_url(call, path, canonical, location);
    }
    let class = match (&shown.why, &shown.asked) {
        (Some(_), _) => Class::Unkept,
        (None, None) => Class::Private,
        (None, Some(_)) if unknown => Class::Public(SHORT),
        (None, Some(_)) => Class::Public(&call.site().cache_resolve),
    };
    let answer = Answer {
        class,
        etag: None,
        variants: Some(canonical),
        path: Some(path),
        location: unknown.then_some(&location[..]),
    };
    response::send(call, answer, &Body::Planned(plan, &call.site().pieces), tagged, ids, out);
}

/// The URL under which the same content has its full cache time.
fn canonical_url(call: &Call<'_>, path: &RoutePath, canonical: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(b"/v1/resolve?trackingId=");
    out.extend_from_slice(call.site().tracking_id.as_bytes());
    out.extend_from_slice(b"&route=");
    let from = out.len();
    path.encode(out);
    // The route is decoded twice, as a parameter and as a path, so its escapes are escaped here.
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
    out.extend_from_slice(canonical);
}

/// Answers that `route` leads elsewhere; with status 200, so that a browser's fetch can read it.
pub(super) fn send_redirect(
    call: &Call<'_>,
    route: &ArchivedRoute,
    redirect: &ArchivedRedirect,
    explain: bool,
    room: &mut Room,
    out: &mut Vec<u8>,
) {
    let Room { plan, path, tagged, ids, .. } = room;
    plan.clear();
    let body = &mut plan.text;
    body.extend_from_slice(b"{\"type\":\"redirect\",");
    opening(call, &route.path, path, body);
    body.extend_from_slice(b",\"to\":");
    json::string(body, &redirect.to);
    body.extend_from_slice(b",\"status\":");
    json::number(body, redirect.status.to_native());
    body.push(b'}');
    response::describe(tagged, b'd', route, path);
    let forced = call.params.sent(Param::Variants).is_some();
    let class = match forced {
        _ if explain => Class::Unkept,
        true => Class::Public(&call.site().cache_resolve),
        false => Class::Private,
    };
    let answer = Answer { class, etag: None, variants: None, path: Some(path), location: None };
    response::send(call, answer, &Body::Text(body), tagged, ids, out);
}
