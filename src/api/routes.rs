//! `GET /v1/routes`: what a site publishes, for generating pages ahead; or what differs from a
//! version that the caller has.
//!
//! Routes, redirects and removed paths come in one order, by path, so that a page of the answer
//! ends anywhere between two paths.

use super::context::Call;
use super::handler::Room;
use super::response::{self, Answer, Body, Class};
use crate::http::params::Param;
use crate::json;
use crate::limits::{
    ROUTE_BYTES_MAX, ROUTES_LISTED_MAX, ROUTES_LISTED_WITH_VARIANTS_DEFAULT, ROUTES_PAGE_BYTES_MAX,
};
use crate::problem::{self, Problem};
use crate::resolve::route;
use crate::site::catalog::versions::{Listed, Path};
use crate::site::query::cursor;
use crate::site::snapshot::format::{ArchivedRoute, ArchivedShows, ArchivedSite, VERSION_MAX};

/// Buffers for what does not go straight into the body.
#[derive(Debug, Default)]
pub(super) struct Lists {
    redirects: Vec<u8>,
    removed: Vec<u8>,
    /// The path in the request's cursor.
    after: Vec<u8>,
}

/// What the caller wants of the list.
struct Wanted<'a> {
    prefix: &'a str,
    /// The version that the caller named, and what it listed, where that is known.
    since: Option<(u64, Option<&'a Listed>)>,
    limit: usize,
    with_variants: bool,
}

pub(super) fn answer<'a>(call: &Call<'a>, room: &mut Room, out: &mut Vec<u8>) -> Result<(), Problem<'a>> {
    let wanted = wanted(call)?;
    let Room { plan, tagged, ids, lists, .. } = room;
    plan.clear();
    let cursor = call.params.get(Param::Cursor);
    lists.after.clear();
    if let Some(cursor) = cursor {
        read_cursor(call, &wanted, cursor, &mut lists.after)?;
    }
    write_list(call, &wanted, cursor.is_some(), lists, &mut plan.text);
    describe(call, &wanted, &lists.after, tagged);
    let class = Class::Public(&call.site().cache_routes);
    let answer = Answer { class, etag: None, variants: None, path: None, location: None };
    response::send(call, answer, &Body::Text(&plan.text), tagged, ids, out);
    Ok(())
}

fn wanted<'a>(call: &Call<'a>) -> Result<Wanted<'a>, Problem<'a>> {
    let with_variants = match call.params.get(Param::Include) {
        None => false,
        Some("variants") => true,
        Some(came) => return Err(invalid(Param::Include, "variants, or nothing", came)),
    };
    let default = if with_variants { ROUTES_LISTED_WITH_VARIANTS_DEFAULT } else { ROUTES_LISTED_MAX };
    let limit = match call.params.get(Param::Limit) {
        None => default,
        Some(text) => {
            let limit = digits(text).filter(|n| (1..=ROUTES_LISTED_MAX as u64).contains(n));
            let problem = Problem::new(problem::INVALID_LIMIT, "1 to 10000", text);
            limit.ok_or(problem.at(Param::Limit.name()))? as usize
        }
    };
    let since = match call.params.get(Param::Since) {
        None => None,
        Some(text) => {
            let version = digits(text).filter(|v| *v <= VERSION_MAX);
            let version = version.ok_or(invalid(Param::Since, "a version of the site", text))?;
            Some((version, call.published.versions.at(version)))
        }
    };
    let prefix = call.params.get(Param::Prefix).unwrap_or_default();
    Ok(Wanted { prefix, since, limit, with_variants })
}

/// A number of digits alone; `parse` would take a sign too.
fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

fn invalid<'a>(param: Param, expected: &'static str, came: &'a str) -> Problem<'a> {
    Problem::new(problem::INVALID_PARAM, expected, came).at(param.name())
}

fn write_list(call: &Call<'_>, wanted: &Wanted<'_>, goes_on: bool, lists: &mut Lists, body: &mut Vec<u8>) {
    opening(call, wanted, body);
    lists.redirects.clear();
    lists.removed.clear();
    let after = std::str::from_utf8(&lists.after).unwrap_or_default();
    let (mut listed, mut last, mut more) = (0, "", false);
    for change in changes(call, wanted, after, goes_on) {
        let bytes = body.len() + lists.redirects.len() + lists.removed.len();
        if listed == wanted.limit || bytes > ROUTES_PAGE_BYTES_MAX {
            more = true;
            break;
        }
        listed += 1;
        last = change.path();
        let variants_of = wanted.with_variants.then(|| call.site());
        change.write(variants_of, body, &mut lists.redirects, &mut lists.removed);
    }
    for (name, list) in [("redirects", &lists.redirects), ("removed", &lists.removed)] {
        body.extend_from_slice(b"],\"");
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(b"\":[");
        body.extend_from_slice(list);
    }
    body.extend_from_slice(b"],\"nextCursor\":");
    match more {
        true => write_cursor(call, wanted, last, body),
        false => body.extend_from_slice(b"null"),
    }
    body.push(b'}');
}

fn opening(call: &Call<'_>, wanted: &Wanted<'_>, body: &mut Vec<u8>) {
    let site = call.site();
    body.extend_from_slice(b"{\"site\":");
    json::string(body, &site.site);
    body.extend_from_slice(b",\"version\":\"");
    json::number(body, site.version.to_native());
    body.extend_from_slice(b"\",\"updatedAt\":");
    match site.updated_at.as_ref() {
        Some(time) => json::string(body, time),
        None => body.extend_from_slice(b"null"),
    }
    match wanted.since {
        None => {}
        Some((_, None)) => body.extend_from_slice(b",\"since\":null"),
        Some((version, Some(_))) => {
            body.extend_from_slice(b",\"since\":\"");
            json::number(body, version);
            body.push(b'"');
        }
    }
    body.extend_from_slice(b",\"routes\":[");
}

/// What stands in the list.
enum Change<'a> {
    Published(&'a ArchivedRoute),
    Removed(&'a str),
}

impl<'a> Change<'a> {
    fn path(&self) -> &'a str {
        match self {
            Self::Published(route) => &route.path,
            Self::Removed(path) => path,
        }
    }

    /// Appends its entry to the list that it belongs to; with its variants, where these are wanted of a site.
    fn write(
        &self,
        variants_of: Option<&ArchivedSite>,
        routes: &mut Vec<u8>,
        redirects: &mut Vec<u8>,
        removed: &mut Vec<u8>,
    ) {
        match self {
            Self::Removed(path) => {
                separate(removed);
                json::string(removed, path);
            }
            Self::Published(route) => match &route.shows {
                ArchivedShows::Redirect(_) => entry(route, None, redirects),
                ArchivedShows::Page(_) => entry(route, variants_of, routes),
            },
        }
    }
}

/// Appends a comma behind an entry; at the beginning of a list there is none.
fn separate(list: &mut Vec<u8>) {
    if list.last().is_some_and(|b| *b != b'[') {
        list.push(b',');
    }
}

fn entry(route: &ArchivedRoute, variants_of: Option<&ArchivedSite>, list: &mut Vec<u8>) {
    separate(list);
    list.extend_from_slice(route.listing.as_bytes());
    if let Some(site) = variants_of
        && let Some(page) = route::page(site, route)
    {
        let piece = &site.pieces[page.combinations.to_native() as usize];
        let array = page.combinations_array_bytes.to_native() as usize;
        list.extend_from_slice(b",\"variants\":");
        list.extend_from_slice(&piece.text[..array]);
        if page.combinations_truncated {
            list.extend_from_slice(b",\"truncated\":true");
        }
    }
    list.push(b'}');
}

/// The paths under the prefix and behind the cursor that are published and differ from the
/// caller's version, or were listed then and no more; sorted.
fn changes<'a>(
    call: &Call<'a>,
    wanted: &Wanted<'a>,
    after: &str,
    goes_on: bool,
) -> impl Iterator<Item = Change<'a>> {
    let prefix = wanted.prefix;
    let behind = |path: &str| if goes_on { path > after } else { path >= prefix };
    let routes = &call.site().routes;
    let now = &routes[routes.partition_point(|r| !behind(&r.path))..];
    let then = wanted.since.and_then(|(_, listed)| listed).map_or(&[][..], |l| &l.paths);
    let then = &then[then.partition_point(|p| !behind(&p.path))..];
    let mut now = now.iter().take_while(move |r| r.path.starts_with(prefix)).peekable();
    let mut then = then.iter().take_while(move |p| p.path.starts_with(prefix)).peekable();
    std::iter::from_fn(move || {
        loop {
            let (route, listed): (Option<&&ArchivedRoute>, Option<&&Path>) = (now.peek(), then.peek());
            let order = match (route, listed) {
                (None, None) => return None,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(route), Some(listed)) => route.path.as_str().cmp(&listed.path),
            };
            match order {
                std::cmp::Ordering::Less => return now.next().map(Change::Published),
                std::cmp::Ordering::Greater => return then.next().map(|p| Change::Removed(&p.path)),
                std::cmp::Ordering::Equal => {
                    let (route, listed) = (now.next()?, then.next()?);
                    if route.content != listed.content {
                        return Some(Change::Published(route));
                    }
                }
            }
        }
    })
}

/// A cursor holds the last path listed. Its check covers the site and the other parameters.
fn write_cursor(call: &Call<'_>, wanted: &Wanted<'_>, last: &str, body: &mut Vec<u8>) {
    body.push(b'"');
    cursor::write(check(call, wanted, last.as_bytes()), last.as_bytes(), body);
    body.push(b'"');
}

fn read_cursor<'a>(
    call: &Call<'a>,
    wanted: &Wanted<'_>,
    text: &'a str,
    after: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let read = cursor::read(text, ROUTE_BYTES_MAX, after);
    let genuine = read.is_some_and(|read| read == check(call, wanted, after));
    if genuine && std::str::from_utf8(after).is_ok() {
        return Ok(());
    }
    let problem = Problem::new(problem::INVALID_CURSOR, "a 'nextCursor' of the same list", text);
    Err(problem.at(Param::Cursor.name()))
}

fn check(call: &Call<'_>, wanted: &Wanted<'_>, last: &[u8]) -> u64 {
    let since = wanted.since.map_or(u64::MAX, |(version, _)| version).to_le_bytes();
    let parts: [&[u8]; 5] = [
        call.site().site.as_bytes(),
        wanted.prefix.as_bytes(),
        &since,
        &[u8::from(wanted.with_variants)],
        last,
    ];
    cursor::check(parts)
}

fn describe(call: &Call<'_>, wanted: &Wanted<'_>, after: &[u8], tagged: &mut Vec<u8>) {
    tagged.clear();
    tagged.push(b't');
    tagged.extend_from_slice(&call.published.hash());
    match wanted.since {
        None => tagged.push(0),
        Some((_, None)) => tagged.push(1),
        Some((version, Some(listed))) => {
            tagged.push(2);
            tagged.extend_from_slice(&version.to_le_bytes());
            tagged.extend_from_slice(&listed.hash);
        }
    }
    tagged.extend_from_slice(&(wanted.limit as u64).to_le_bytes());
    tagged.push(u8::from(wanted.with_variants));
    tagged.extend_from_slice(&(wanted.prefix.len() as u64).to_le_bytes());
    tagged.extend_from_slice(wanted.prefix.as_bytes());
    tagged.extend_from_slice(after);
}
