//! The areas of the admin address, and the refusals that a client gets outside of its own: as if the endpoint or the site did
//! not exist.

use super::query::parse_pairs;
use super::{audiences, changes, invented, metrics, records, sites, visitor_list, visitors};
use crate::access::{Area, Caller};
use crate::api::Endpoint;
use crate::http::request::{Method, Request};
use crate::problem::{self, Problem};
use crate::site::catalog::catalog::Catalog;

/// The path of the rights of the caller.
pub(super) const ACCESS_PATH: &str = "/access";
/// The path of the shared links.
pub(super) const LINKS_PATH: &str = "/access/links";

/// Returns the area of a request. `None` if there is no such endpoint.
fn area_of(method: Method, path: &str) -> Option<Area> {
    Some(match path {
        ACCESS_PATH => Area::OwnAccess,
        LINKS_PATH => Area::Links,
        sites::PATH => Area::Sites,
        metrics::PATH => Area::Metrics,
        audiences::PATH => Area::AudienceSizes,
        changes::PATH => Area::Changes,
        invented::PATH => Area::Decisions,
        visitors::PATH if !matches!(method, Method::Get | Method::Head) => Area::Erasures,
        visitors::PATH | visitors::EXPLAIN_PATH | records::PATH | visitor_list::PATH => Area::Visitors,
        visitors::EXPORT_PATH => Area::Exports,
        path if path.starts_with("/insights/") => Area::Numbers,
        path => match Endpoint::of(path)? {
            Endpoint::Resolve | Endpoint::Variants | Endpoint::Routes => Area::Decisions,
            _ => return None,
        },
    })
}

/// Returns whether a shared link can answer a request for this path: one for numbers, which a viewer may send.
pub(super) fn is_open_to_links(path: &str) -> bool {
    matches!(area_of(Method::Get, path), Some(Area::Numbers | Area::AudienceSizes))
}

/// Returns the site of a request, if it is published.
pub(super) fn published_site(request: &Request<'_>, catalog: &Catalog) -> Option<Box<str>> {
    let pairs = parse_pairs(request.query).ok()?;
    let (_, site) = pairs.iter().find(|(name, _)| name == "site")?;
    catalog.by_site_id(site).map(|published| (*published.site().site).into())
}

/// Returns the text of the audit log about a refused request. Any text can be a path, so only those of endpoints are kept.
pub(super) fn refusal_text(request: &Request<'_>, problem: &Problem<'_>) -> String {
    let path = if area_of(request.method, request.path).is_some() { request.path } else { "(another path)" };
    format!("{} {} {path}", problem.kind.code, request.method.name())
}

/// The part of the recorded visitors that the client of a request sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    /// No recorded visitors, but only invented ones.
    Invented,
    WithoutPrivateTraits,
    Everything,
}

impl Sight {
    fn of(caller: &Caller, site: &str) -> Self {
        match (caller.sees_visitors(site), caller.sees_private_traits(site)) {
            (_, true) => Self::Everything,
            (true, false) => Self::WithoutPrivateTraits,
            (false, false) => Self::Invented,
        }
    }
}

/// Checks that a client may send a request. Returns the part of the visitors that it sees.
///
/// # Errors
/// `unknown_endpoint`, `method_not_allowed`, `site_not_found`, `invalid_query`.
pub(super) fn authorize<'a>(
    caller: &Caller,
    request: &Request<'a>,
    catalog: &Catalog,
) -> Result<Sight, Problem<'a>> {
    let Some(area) = area_of(request.method, request.path) else { return Ok(Sight::Everything) };
    if !caller.may_use(area) {
        return Err(hidden_endpoint(area, caller, request));
    }
    let pairs = parse_pairs(request.query)?;
    let has_question = !matches!(area, Area::OwnAccess | Area::Sites);
    if has_question && !caller.may_ask(request.path, &pairs) {
        return Err(hidden_endpoint(area, caller, request));
    }
    let mut sight = Sight::Everything;
    for (name, value) in pairs {
        let site = match (name.as_str(), area) {
            ("site", _) => Some(value.as_str()),
            ("trackingId", Area::Decisions) => {
                catalog.by_tracking_id(&value).map(|published| &*published.site().site)
            }
            _ => continue,
        };
        match site.filter(|site| caller.may_use_for(area, site)) {
            Some(site) => sight = sight.min(Sight::of(caller, site)),
            None if caller.may_use_for_all(area) => {}
            None => {
                let sentence = "The server has no such site.";
                return Err(Problem::new(problem::SITE_NOT_FOUND, sentence));
            }
        }
    }
    Ok(sight)
}

/// Returns the refusal of a client without an area: that of a server without the endpoint, or without the method.
fn hidden_endpoint<'a>(area: Area, caller: &Caller, request: &Request<'a>) -> Problem<'a> {
    match area {
        Area::Erasures if caller.may_use(Area::Visitors) => {
            Problem::method_not_allowed(request.method.subject(), "GET, HEAD")
        }
        _ => unknown_endpoint(request.path),
    }
}

/// Returns the refusal of a path that is no endpoint.
pub(super) fn unknown_endpoint(path: &str) -> Problem<'_> {
    let sentence = "{} is not an endpoint of the admin address that you may use. /access shows your rights, and docs/access.md all endpoints.";
    Problem::with_value(problem::UNKNOWN_ENDPOINT, sentence, path)
}
