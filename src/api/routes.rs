//! `GET /v1/routes`: the published routes, for static generation, or the changes since a version.
//!
//! Routes, redirects and removed paths are sorted by path in one order, so that a page of the list can end between any
//! two paths. The first page also lists the queries. A request with `wait` may be held until a publication. The usual
//! lists are prepared once ([`PreparedLists`]).

use std::borrow::Cow;
use std::sync::Arc;

use super::context::RequestContext;
use super::held::HeldRequests;
use super::prepared_lists::{PreparedList, PreparedLists};
use super::response::{self, Body, CachePolicy, ResponseFields};
use super::scratch::{ResponseBuffers, RouteLists, Scratch};
use crate::checksum;
use crate::http::gzip::GZIP_ABOVE_BYTES;
use crate::http::params::Param;
use crate::ids;
use crate::json;
use crate::limits::{
    ROUTE_BYTES_MAX, ROUTES_LISTED_MAX, ROUTES_LISTED_WITH_VARIANTS_DEFAULT, ROUTES_PAGE_BYTES_MAX,
    WAIT_S_MAX,
};
use crate::nfc;
use crate::problem::{self, Problem};
use crate::resolve::route;
use crate::site::catalog::versions::{ContentEntry, PublishedVersion};
use crate::site::query::cursor;
use crate::site::snapshot::format::{
    ArchivedQuery, ArchivedRoute, ArchivedRouteTarget, ArchivedSite, VERSION_MAX,
};
use crate::site::snapshot::pieces::Pieces;

/// The parameters of the list.
struct ListOptions<'a> {
    /// In the form of paths. Only a prefix in another spelling is a copy.
    prefix: Cow<'a, str>,
    /// The version in `since`, and its paths and queries, if the server knows them.
    since: Option<(u64, Option<&'a PublishedVersion>)>,
    /// The longest time to wait for another version, in seconds.
    wait_s: Option<u64>,
    limit: usize,
    with_variants: bool,
}

impl ListOptions<'_> {
    /// Returns whether clients usually ask for such a list. There are few of them for a version.
    fn are_usual(&self) -> bool {
        self.prefix.is_empty() && self.limit == default_limit(self.with_variants)
    }
}

const fn default_limit(includes_variants: bool) -> usize {
    if includes_variants { ROUTES_LISTED_WITH_VARIANTS_DEFAULT } else { ROUTES_LISTED_MAX }
}

/// Appends the list. Returns a token instead if the request is held by `held_requests`. `client_key` returns the key of the
/// client's address.
pub(super) fn handle<'a>(
    context: &RequestContext<'a>,
    prepared_lists: &PreparedLists,
    held_requests: Option<&mut HeldRequests>,
    client_key: impl FnOnce() -> Option<u64>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Option<usize>, Problem<'a>> {
    let options = parse_options(context)?;
    scratch.plan.clear();
    scratch.route_lists.after.clear();
    if let Some(cursor) = context.params.get(Param::Cursor) {
        read_cursor(context, &options, cursor, &mut scratch.route_lists.after)?;
    }
    if let Some(token) = held_requests.and_then(|held| hold(context, &options, client_key, held)) {
        return Ok(Some(token));
    }
    let list = find_or_prepare(context, &options, prepared_lists, scratch);
    let Scratch { plan, response: buffers, .. } = scratch;
    let body = match &list {
        Some(list) => Body::List(list),
        None => Body::Text(&plan.text),
    };
    // The same URL has another response when a version is published, and no cache may delay that.
    let cache_control = if options.wait_s.is_some() { "no-store" } else { &context.site().cache_routes };
    let fields = ResponseFields::new(CachePolicy::Public(cache_control), None);
    response::write_response(context, &fields, &body, buffers, out)?;
    Ok(None)
}

/// Returns the prepared list, or prepares it. Writes the list into the plan instead if it is none that is prepared. Writes
/// the input of the ETag.
fn find_or_prepare(
    context: &RequestContext<'_>,
    options: &ListOptions<'_>,
    prepared_lists: &PreparedLists,
    scratch: &mut Scratch,
) -> Option<Arc<PreparedList>> {
    let Scratch {
        plan,
        response: ResponseBuffers { etag_input, gzip: compressor, .. },
        route_lists: lists,
        ..
    } = scratch;
    let key = list_key(context, options, &lists.after, etag_input);
    let is_usual = options.are_usual();
    if let Some(list) = is_usual.then(|| prepared_lists.get(key)).flatten() {
        return Some(list);
    }
    let is_continued = context.params.get(Param::Cursor).is_some();
    let next = write_list(context, options, is_continued, lists, &mut plan.text);
    let is_prepared = if is_continued {
        // A cursor can begin at any route.
        prepared_lists.continues(key)
    } else {
        // The cursor has the number of the unknown version, of which there are many.
        next.is_none() || !matches!(options.since, Some((_, None)))
    };
    if !is_usual || !is_prepared {
        return None;
    }
    let next_key = next.map(|next| list_key(context, options, next.as_bytes(), etag_input));
    write_etag_prefix(context, options, &lists.after, etag_input);
    let text = &plan.text;
    let gzip = if text.len() > GZIP_ABOVE_BYTES { compressor.compress(text) } else { &[] };
    let list = Arc::new(PreparedList { text: text.as_slice().into(), gzip: gzip.into(), next_key });
    prepared_lists.insert(key, Arc::clone(&list));
    Some(list)
}

/// Returns the key of the list that begins after the path `after_path`. Writes the input of its ETag.
fn list_key(
    context: &RequestContext<'_>,
    options: &ListOptions<'_>,
    after_path: &[u8],
    etag_input: &mut Vec<u8>,
) -> u128 {
    write_etag_prefix(context, options, after_path, etag_input);
    checksum::hash128(etag_input)
}

/// Holds a request whose client has the present version and waits for another one. A request with a body is not held,
/// because its memory is that of the bodies that other clients send.
fn hold(
    context: &RequestContext<'_>,
    options: &ListOptions<'_>,
    client_key: impl FnOnce() -> Option<u64>,
    held_requests: &mut HeldRequests,
) -> Option<usize> {
    let wait_s = options.wait_s?;
    let (version, _) = options.since?;
    let site = context.site();
    if version == site.version.to_native() && context.request.body.is_empty() {
        held_requests.hold(&site.site, version, client_key(), wait_s)
    } else {
        None
    }
}

fn parse_options<'a>(context: &RequestContext<'a>) -> Result<ListOptions<'a>, Problem<'a>> {
    let with_variants = match context.params.get(Param::Include) {
        None => false,
        Some("variants") => true,
        Some(actual) => return Err(invalid_param(Param::Include, "'variants'", actual)),
    };
    let limit = match context.params.get(Param::Limit) {
        None => default_limit(with_variants),
        Some(text) => {
            let limit = parse_digits(text).filter(|n| (1..=ROUTES_LISTED_MAX as u64).contains(n));
            let problem =
                Problem::invalid_value(problem::INVALID_LIMIT, "a whole number from 1 to 10000", text);
            limit.ok_or(problem.at(Param::Limit.name()))? as usize
        }
    };
    let since = match context.params.get(Param::Since) {
        None => None,
        Some(text) => {
            let version = parse_digits(text).filter(|v| *v <= VERSION_MAX);
            let version = version.ok_or(invalid_param(Param::Since, "a version of the site", text))?;
            Some((version, context.published.versions.get(version)))
        }
    };
    let wait_s = parse_wait(context, since.is_some())?;
    let prefix = nfc::normalize(context.params.get(Param::Prefix).unwrap_or_default());
    Ok(ListOptions { prefix, since, wait_s, limit, with_variants })
}

fn parse_wait<'a>(context: &RequestContext<'a>, has_since: bool) -> Result<Option<u64>, Problem<'a>> {
    let Some(text) = context.params.get(Param::Wait) else { return Ok(None) };
    let wait_s = parse_digits(text).filter(|s| (1..=WAIT_S_MAX).contains(s));
    let wait_s = wait_s.ok_or(invalid_param(Param::Wait, "a whole number from 1 to 30", text))?;
    if !has_since {
        let sentence = "The parameter 'wait' needs 'since'; add the version that the client has.";
        return Err(Problem::new(problem::INVALID_PARAM, sentence).at(Param::Wait.name()));
    }
    Ok(Some(wait_s))
}

/// Parses a number that consists of digits only. `str::parse` accepts a sign too.
fn parse_digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

fn invalid_param<'a>(param: Param, expected: &'static str, actual: &'a str) -> Problem<'a> {
    Problem::invalid_value(problem::INVALID_PARAM, expected, actual).at(param.name())
}

/// Writes the list. Returns the path after which the next list begins; `None` if this is the last one.
fn write_list<'a>(
    context: &RequestContext<'a>,
    options: &ListOptions<'a>,
    is_continued: bool,
    lists: &mut RouteLists,
    body: &mut Vec<u8>,
) -> Option<&'a str> {
    write_opening(context, options, body);
    lists.redirects.clear();
    lists.removed.clear();
    lists.queries.clear();
    lists.removed_queries.clear();
    if !is_continued {
        write_queries(context, options, &mut lists.queries, &mut lists.removed_queries);
    }
    let query_bytes = lists.queries.len() + lists.removed_queries.len();
    let after = std::str::from_utf8(&lists.after).unwrap_or_default();
    let mut last = "";
    let mut more = false;
    for (listed, change) in changes(context, options, after, is_continued).enumerate() {
        let bytes = body.len() + lists.redirects.len() + lists.removed.len() + query_bytes;
        if listed == options.limit || bytes > ROUTES_PAGE_BYTES_MAX {
            more = true;
            break;
        }
        last = change.path();
        let variant_source = options.with_variants.then(|| (context.site(), context.pieces()));
        change.write(variant_source, body, &mut lists.redirects, &mut lists.removed);
    }
    let named = [
        ("redirects", &lists.redirects),
        ("removed", &lists.removed),
        ("queries", &lists.queries),
        ("removedQueries", &lists.removed_queries),
    ];
    for (name, list) in &named[..if is_continued { 2 } else { 4 }] {
        body.extend_from_slice(b"],\"");
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(b"\":[");
        body.extend_from_slice(list);
    }
    body.extend_from_slice(b"],\"nextCursor\":");
    match more {
        true => write_cursor(context, options, last, body),
        false => body.extend_from_slice(b"null"),
    }
    body.push(b'}');
    more.then_some(last)
}

fn write_opening(context: &RequestContext<'_>, options: &ListOptions<'_>, body: &mut Vec<u8>) {
    let site = context.site();
    body.extend_from_slice(b"{\"site\":");
    json::write_string(body, &site.site);
    body.extend_from_slice(b",\"version\":\"");
    json::write_number(body, site.version.to_native());
    body.extend_from_slice(b"\",\"updatedAt\":");
    match site.updated_at.as_ref() {
        Some(time) => json::write_string(body, time),
        None => body.extend_from_slice(b"null"),
    }
    match options.since {
        None => {}
        Some((_, None)) => body.extend_from_slice(b",\"since\":null"),
        Some((version, Some(_))) => {
            body.extend_from_slice(b",\"since\":\"");
            json::write_number(body, version);
            body.push(b'"');
        }
    }
    body.extend_from_slice(b",\"routes\":[");
}

/// Writes the new and changed queries, and the IDs of those that are gone. Without `since`, all queries are new.
fn write_queries(
    context: &RequestContext<'_>,
    options: &ListOptions<'_>,
    queries: &mut Vec<u8>,
    removed_queries: &mut Vec<u8>,
) {
    let now: &[ArchivedQuery] = &context.site().queries;
    let then = options.since.and_then(|(_, listed)| listed).map_or(&[][..], |listed| &listed.queries);
    for query in now {
        let index = then.binary_search_by(|entry| (*entry.key).cmp(query.key.as_str()));
        if index.is_ok_and(|at| then[at].content == query.content) {
            continue;
        }
        write_separator(queries);
        queries.extend_from_slice(b"{\"id\":");
        json::write_string(queries, &query.key);
        queries.extend_from_slice(b",\"hash\":\"");
        let [h0, h1, h2, h3, h4, h5, h6, h7, ..] = query.content;
        queries.extend_from_slice(&ids::hex_u64(u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7])));
        queries.extend_from_slice(b"\"}");
    }
    let is_gone =
        |entry: &&ContentEntry| now.binary_search_by(|query| query.key.as_str().cmp(&entry.key)).is_err();
    for entry in then.iter().filter(is_gone) {
        write_separator(removed_queries);
        json::write_string(removed_queries, &entry.key);
    }
}

/// An entry of the list.
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

    /// Appends the entry to its list. With `variant_source`, the entry has its variants.
    fn write(
        &self,
        variant_source: Option<(&ArchivedSite, Pieces<'_>)>,
        routes: &mut Vec<u8>,
        redirects: &mut Vec<u8>,
        removed_paths: &mut Vec<u8>,
    ) {
        match self {
            Self::Removed(path) => {
                write_separator(removed_paths);
                json::write_string(removed_paths, path);
            }
            Self::Published(route) => match &route.target {
                ArchivedRouteTarget::Redirect(_) => write_entry(route, None, redirects),
                ArchivedRouteTarget::Page(_) => write_entry(route, variant_source, routes),
            },
        }
    }
}

/// Appends a comma if the list is not empty.
fn write_separator(list: &mut Vec<u8>) {
    if list.last().is_some_and(|b| *b != b'[') {
        list.push(b',');
    }
}

fn write_entry(
    route: &ArchivedRoute,
    variant_source: Option<(&ArchivedSite, Pieces<'_>)>,
    list: &mut Vec<u8>,
) {
    write_separator(list);
    list.extend_from_slice(route.listing.as_bytes());
    if let Some((site, pieces)) = variant_source
        && let Some(page) = route::page(site, route)
    {
        let text = pieces.text(page.combinations.to_native());
        let array = page.combinations_array_bytes.to_native() as usize;
        list.extend_from_slice(b",\"variants\":");
        list.extend_from_slice(&text[..array]);
        if page.combinations_truncated {
            list.extend_from_slice(b",\"truncated\":true");
        }
    }
    list.push(b'}');
}

/// Returns the changed and the removed paths since the client's version, sorted, under the prefix and after the cursor.
fn changes<'a>(
    context: &RequestContext<'a>,
    options: &ListOptions<'a>,
    after_path: &str,
    is_continued: bool,
) -> impl Iterator<Item = Change<'a>> {
    let prefix = &*options.prefix;
    let is_after = |path: &str| if is_continued { path > after_path } else { path >= prefix };
    let routes = &context.site().routes;
    let now = &routes[routes.partition_point(|r| !is_after(&r.path))..];
    let then = options.since.and_then(|(_, listed)| listed).map_or(&[][..], |l| &l.paths);
    let then = &then[then.partition_point(|p| !is_after(&p.key))..];
    let mut now = now.iter().take_while(move |r| r.path.starts_with(prefix)).peekable();
    let mut then = then.iter().take_while(move |p| p.key.starts_with(prefix)).peekable();
    std::iter::from_fn(move || {
        loop {
            let route: Option<&&ArchivedRoute> = now.peek();
            let listed: Option<&&ContentEntry> = then.peek();
            let order = match (route, listed) {
                (None, None) => return None,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(route), Some(listed)) => route.path.get().cmp(&listed.key),
            };
            match order {
                std::cmp::Ordering::Less => return now.next().map(Change::Published),
                std::cmp::Ordering::Greater => return then.next().map(|p| Change::Removed(&p.key)),
                std::cmp::Ordering::Equal => {
                    let route = now.next()?;
                    let listed = then.next()?;
                    if route.content != listed.content {
                        return Some(Change::Published(route));
                    }
                }
            }
        }
    })
}

/// Appends a cursor: the last listed path, and a checksum of it, the site and the other parameters.
fn write_cursor(
    context: &RequestContext<'_>,
    options: &ListOptions<'_>,
    last_path: &str,
    body: &mut Vec<u8>,
) {
    body.push(b'"');
    cursor::encode(cursor_checksum(context, options, last_path.as_bytes()), last_path.as_bytes(), body);
    body.push(b'"');
}

fn read_cursor<'a>(
    context: &RequestContext<'a>,
    options: &ListOptions<'_>,
    text: &'a str,
    after_path: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let read = cursor::decode(text, ROUTE_BYTES_MAX, after_path);
    let genuine = read.is_some_and(|read| read == cursor_checksum(context, options, after_path));
    if genuine && std::str::from_utf8(after_path).is_ok() {
        return Ok(());
    }
    let problem = Problem::invalid_value(problem::INVALID_CURSOR, "a 'nextCursor' of the same list", text);
    Err(problem.at(Param::Cursor.name()))
}

fn cursor_checksum(context: &RequestContext<'_>, options: &ListOptions<'_>, last_path: &[u8]) -> u64 {
    let since = options.since.map_or(u64::MAX, |(version, _)| version).to_le_bytes();
    let parts: [&[u8]; 5] = [
        context.site().site.as_bytes(),
        options.prefix.as_bytes(),
        &since,
        &[u8::from(options.with_variants)],
        last_path,
    ];
    cursor::checksum_of(parts)
}

fn write_etag_prefix(
    context: &RequestContext<'_>,
    options: &ListOptions<'_>,
    after_path: &[u8],
    etag_input: &mut Vec<u8>,
) {
    etag_input.clear();
    etag_input.push(b't');
    etag_input.extend_from_slice(&context.published.hash());
    match options.since {
        None => etag_input.push(0),
        Some((_, None)) => etag_input.push(1),
        Some((version, Some(listed))) => {
            etag_input.push(2);
            etag_input.extend_from_slice(&version.to_le_bytes());
            etag_input.extend_from_slice(&listed.hash);
        }
    }
    etag_input.extend_from_slice(&(options.limit as u64).to_le_bytes());
    etag_input.push(u8::from(options.with_variants));
    etag_input.extend_from_slice(&(options.prefix.len() as u64).to_le_bytes());
    etag_input.extend_from_slice(options.prefix.as_bytes());
    etag_input.extend_from_slice(after_path);
}
