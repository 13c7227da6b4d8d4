//! A site's source to the bytes of its snapshot. All mistakes at once; same source, same bytes.
//!
//! [`conditions`] turns audiences and conditions into programs, [`experiments`] agrees what an
//! experiment is across zones, [`layout`] makes pieces of pages, [`combinations`] counts what a
//! page can show, [`paths`] indexes the routes, [`timezone`] writes down the site's clock.

mod combinations;
mod conditions;
mod experiments;
mod layout;
mod paths;
mod piece;
mod timezone;

use jiff::Timestamp;

use self::conditions::Conditions;
use self::experiments::Experiments;
use self::layout::Layouts;
use super::format::{HEADER_BYTES, Header, Redirect, Route, Shows, Site};
use super::mistake::{Mistake, Mistakes};
use super::read::Source;
use super::source;
use crate::checksum;
use crate::ids;
use crate::json;
use crate::limits::{ROUTES_MAX, SNAPSHOT_BYTES_MAX};

/// Compiles what was read of a site as `version`. `progress` hears, route by route, how many are
/// done and how many there are.
///
/// # Errors
/// `mistakes`, which were found in reading, and all that are found here beside them.
pub fn compile(
    source: &Source,
    mut mistakes: Mistakes,
    version: u64,
    progress: &dyn Fn(usize, usize),
) -> Result<Vec<u8>, Mistakes> {
    let site = compile_site(source, &mut mistakes, version, progress);
    let Some(site) = site.filter(|_| mistakes.is_empty()) else {
        return Err(mistakes);
    };
    let archived = rkyv::to_bytes::<rkyv::rancor::Error>(&site);
    let too_large = |came: String| {
        let expected = format!("a site whose snapshot takes at most {SNAPSHOT_BYTES_MAX} bytes");
        let mut mistakes = Mistakes::default();
        mistakes.add(Mistake::of_value("site.json", "", expected, came));
        mistakes
    };
    let payload = archived.map_err(|error| too_large(error.to_string()))?;
    if payload.len() as u64 > SNAPSHOT_BYTES_MAX {
        return Err(too_large(format!("{} bytes", payload.len())));
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&Header::of(&payload, version).to_bytes());
    bytes.extend_from_slice(&payload);
    Ok(bytes)
}

fn compile_site(
    source: &Source,
    mistakes: &mut Mistakes,
    version: u64,
    progress: &dyn Fn(usize, usize),
) -> Option<Site> {
    let mut conditions = Conditions::new(source, mistakes);
    let experiments = Experiments::collect(&source.routes, mistakes);
    let (routes, newest) = routes(source, &mut conditions, &experiments, mistakes, progress);
    let index = paths::index(&routes, mistakes);
    let site = source.site.as_ref()?;
    let clock = timezone::offsets(&site.time_zone, mistakes);
    origins(site, mistakes);
    let (patterns, audiences, sees_url) = conditions.finish(mistakes);
    let routes = routes.into_iter().map(|drafted| drafted.route).collect();
    Some(Site {
        site: site.site.to_string(),
        tracking_id: site.tracking_id.clone(),
        name: site.name.clone(),
        version,
        origins: site.origins.clone(),
        cookie: site.cookie.clone(),
        cache_resolve: cache_control(site.cache.resolve()),
        cache_routes: cache_control(site.cache.routes()),
        updated_at: newest,
        clock,
        patterns,
        audiences,
        experiments: experiments.finish(),
        sees_url,
        routes,
        literals: index.literals,
        tree: index.tree,
    })
}

fn cache_control(times: source::CacheTimes) -> String {
    format!(
        "public, max-age=0, s-maxage={}, stale-while-revalidate={}, stale-if-error={}",
        times.s_max_age, times.stale_while_revalidate, times.stale_if_error
    )
}

fn origins(site: &source::Site, mistakes: &mut Mistakes) {
    for (i, origin) in site.origins.iter().enumerate().filter(|(_, origin)| !is_origin(origin)) {
        let expected =
            "an origin such as `https://www.example.com`, `https://*.example.com` or `http://localhost:*`";
        mistakes.add(Mistake::of_value(
            "site.json",
            format!("/origins/{i}"),
            expected,
            format!("{origin:?}"),
        ));
    }
}

/// Scheme, host and port as a browser writes them; `*` may stand for the first labels or for the port.
fn is_origin(text: &str) -> bool {
    let Some(authority) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
        return false;
    };
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "0"));
    // One wildcard at most: what matches origins knows no more.
    let domain = host.strip_prefix("*.").filter(|_| port != "*").unwrap_or(host);
    let is_label = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b);
    let is_port = port == "*" || !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    !domain.is_empty() && domain.bytes().all(is_label) && is_port
}

/// A compiled route and where it was written.
struct Drafted<'s> {
    file: &'s str,
    route: Route,
}

/// The routes, sorted by path, and the newest `updatedAt`.
fn routes<'s>(
    source: &'s Source,
    conditions: &mut Conditions<'s>,
    experiments: &Experiments,
    mistakes: &mut Mistakes,
    progress: &dyn Fn(usize, usize),
) -> (Vec<Drafted<'s>>, Option<String>) {
    let site = source.site.as_ref().map_or("", |site| &site.site);
    let mut layouts = Layouts::new(conditions, experiments, source.queries.as_ref());
    let mut newest: Option<(Timestamp, &str)> = None;
    let mut drafted = Vec::with_capacity(source.routes.len());
    if source.routes.len() > ROUTES_MAX {
        let expected = format!("at most {ROUTES_MAX} routes");
        mistakes.add(Mistake::of_value("site.json", "", expected, source.routes.len().to_string()));
        return (drafted, None);
    }
    // By path, not by file: the names of files must not show in the bytes, through the table of patterns.
    let mut by_path: Vec<_> = source.routes.iter().collect();
    by_path.sort_by_key(|(_, route)| route.path());
    for (done, (file, route)) in by_path.into_iter().enumerate() {
        paths::check(file, route.path(), mistakes);
        let updated = updated_at(file, route, mistakes);
        newest = newest.max(updated);
        let shows = match route {
            source::Route::Page(page) => Shows::Page(layouts.page(file, &page.layout, mistakes)),
            source::Route::Redirect(leads) => {
                Shows::Redirect(Redirect { to: leads.redirect.to.clone(), status: leads.redirect.status })
            }
        };
        drafted.push(Drafted { file, route: finish(site, route.path(), updated, shows, &layouts) });
        progress(done + 1, source.routes.len());
    }
    (drafted, newest.map(|(_, text)| text.to_owned()))
}

fn updated_at<'s>(
    file: &str,
    route: &'s source::Route,
    mistakes: &mut Mistakes,
) -> Option<(Timestamp, &'s str)> {
    let text = route.updated_at()?;
    match text.parse() {
        Ok(time) => Some((time, text)),
        Err(_) => {
            let expected = "a time such as \"2026-01-05T10:00:00Z\" (RFC 3339)";
            mistakes.add(Mistake::of_value(file, "/updatedAt", expected, format!("{text:?}")));
            None
        }
    }
}

/// Names the content, and writes the entry in the list of routes.
fn finish(
    site: &str,
    path: &str,
    updated: Option<(Timestamp, &str)>,
    shows: Shows,
    layouts: &Layouts<'_, '_>,
) -> Route {
    let pattern = paths::is_pattern(path);
    let mut described = Vec::new();
    for text in [site, path] {
        described.extend_from_slice(text.as_bytes());
        described.push(0);
    }
    match &shows {
        Shows::Redirect(leads) => described.extend_from_slice(format!("{leads:?}").as_bytes()),
        Shows::Page(_) => described.extend_from_slice(layouts.description()),
    }
    let content = checksum::tag(&described).to_be_bytes();
    let mut listing = Vec::new();
    match &shows {
        Shows::Redirect(leads) => {
            listing.extend_from_slice(b"{\"from\":");
            json::string(&mut listing, path);
            listing.extend_from_slice(b",\"to\":");
            json::string(&mut listing, &leads.to);
            listing.extend_from_slice(b",\"status\":");
            json::number(&mut listing, leads.status);
        }
        Shows::Page(page) => {
            listing.extend_from_slice(b"{\"path\":");
            json::string(&mut listing, path);
            listing.extend_from_slice(b",\"updatedAt\":");
            match updated {
                Some((_, text)) => json::string(&mut listing, text),
                None => listing.extend_from_slice(b"null"),
            }
            listing.extend_from_slice(b",\"hash\":\"");
            let [h0, h1, h2, h3, h4, h5, h6, h7, ..] = content;
            listing.extend_from_slice(&ids::hex(u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7])));
            listing.extend_from_slice(b"\",\"zones\":[");
            for (i, zone) in page.zones.iter().enumerate() {
                if i > 0 {
                    listing.push(b',');
                }
                json::string(&mut listing, &zone.name);
            }
            listing.extend_from_slice(b"],\"combinations\":");
            json::number(&mut listing, layouts.combinations_counted());
        }
    }
    if pattern {
        listing.extend_from_slice(b",\"pattern\":true");
    }
    let listing = String::from_utf8(listing).expect("it was written from strings");
    Route { path: path.to_owned(), content, pattern, listing, shows }
}
