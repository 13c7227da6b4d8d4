//! A site's source to the bytes of its snapshot. All mistakes at once; same source, same bytes.
//!
//! [`conditions`] turns audiences and conditions into programs, [`content`] makes items and queries, [`index`] answers them
//! ahead, [`experiments`] agrees what an experiment is across zones, [`layout`] makes pieces of pages, [`embed`] puts items
//! into them, [`each`] makes paths of items, [`combinations`] counts what a page can show, [`paths`] indexes the routes,
//! [`timezone`] writes down the site's clock.

mod combinations;
mod conditions;
mod content;
mod each;
mod embed;
mod experiments;
mod index;
mod layout;
mod paths;
mod piece;
mod routes;
mod timezone;

use rkyv::rancor::Error;
use rkyv::vec::ArchivedVec;

use self::conditions::Conditions;
use self::content::{Collections, Said};
use self::embed::Contents;
use self::experiments::Experiments;
use self::layout::Layouts;
use self::piece::Pieces;
use super::snapshot::format::{ArchivedQuery, HEADER_BYTES, Header, Query, Site};
use super::source::diagnostics::{Mistake, Mistakes};
use super::source::read::Source;
use super::source::types;
use crate::condition::Patterns;
use crate::limits::SNAPSHOT_BYTES_MAX;

/// A compiled site.
#[derive(Debug)]
pub struct Compiled {
    /// The snapshot file.
    pub bytes: Vec<u8>,
    /// How many routes it has, those that items make included.
    pub routes: usize,
    /// What is allowed, but hardly meant.
    pub warnings: Mistakes,
}

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
) -> Result<Compiled, Mistakes> {
    let mut warnings = Mistakes::default();
    let mut said = Said { mistakes: &mut mistakes, warnings: &mut warnings };
    let site = compile_site(source, &mut said, version, progress);
    let Some(site) = site.filter(|_| mistakes.is_empty()) else {
        return Err(mistakes);
    };
    let payload = rkyv::to_bytes::<Error>(&site).map_err(|error| too_large(error.to_string()))?;
    if payload.len() as u64 > SNAPSHOT_BYTES_MAX {
        return Err(too_large(format!("{} bytes", payload.len())));
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&Header::of(&payload, version).to_bytes());
    bytes.extend_from_slice(&payload);
    Ok(Compiled { bytes, routes: site.routes.len(), warnings })
}

fn too_large(came: String) -> Mistakes {
    let expected = format!("a site whose snapshot takes at most {SNAPSHOT_BYTES_MAX} bytes");
    let mut mistakes = Mistakes::default();
    mistakes.add(Mistake::of_value("site.json", "", expected, came));
    mistakes
}

fn compile_site(
    source: &Source,
    said: &mut Said<'_>,
    version: u64,
    progress: &dyn Fn(usize, usize),
) -> Option<Site> {
    let mut pieces = Pieces::new();
    let mut conditions = Conditions::new(source, said.mistakes);
    let collections = Collections::new(source, said.mistakes);
    let queries = content::queries(source, &collections, &mut conditions, &mut pieces, said);
    let mistakes = &mut *said.mistakes;
    let archived = archived(&queries, mistakes)?;
    let archived = rkyv::access::<ArchivedVec<ArchivedQuery>, Error>(&archived).ok();
    // Expressions that do not fit are a mistake of the whole site's, said when all are there.
    let patterns = Patterns::new(conditions.patterns()).or_else(|_| Patterns::new(&[""; 0])).ok()?;
    let name = source.site.as_ref().map_or("", |site| &site.site);
    let readable = archived.filter(|_| source.queries.is_some());
    let mut contents = Contents::new(name, readable, patterns);

    let experiments = Experiments::collect(&source.routes, mistakes);
    let layouts = Layouts::new(&mut conditions, &experiments, &mut contents, &mut pieces);
    let made = routes::of(source, layouts, &collections, mistakes, progress);
    let index = paths::index(&made.routes);
    let site = source.site.as_ref()?;
    let clock = timezone::offsets(&site.time_zone, mistakes);
    origins(site, mistakes);
    let (patterns, audiences, sees_url) = conditions.finish(mistakes);
    Some(Site {
        site: site.site.to_string(),
        tracking_id: site.tracking_id.clone(),
        name: site.name.clone(),
        version,
        origins: site.origins.clone(),
        cookie: site.cookie.clone(),
        bots: site.bots as u8,
        honor_gpc: site.privacy.honor_gpc,
        ip: site.privacy.ip as u8,
        cache_resolve: cache_control(site.cache.resolve()),
        cache_routes: cache_control(site.cache.routes()),
        cache_query: cache_control(site.cache.query()),
        updated_at: made.updated_at,
        clock,
        patterns,
        audiences,
        experiments: experiments.finish(),
        sees_url,
        pieces: pieces.finish(),
        queries,
        pages: made.pages,
        routes: made.routes,
        literals: index.literals,
        tree: index.tree,
    })
}

/// The queries as a server will have them.
fn archived(queries: &Vec<Query>, mistakes: &mut Mistakes) -> Option<rkyv::util::AlignedVec> {
    rkyv::to_bytes::<Error>(queries)
        .map_err(|error| {
            let expected = "queries that fit a snapshot";
            mistakes.add(Mistake::of_value("queries.json", "", expected, error.to_string()));
        })
        .ok()
}

fn cache_control(times: types::CacheTimes) -> String {
    format!(
        "public, max-age=0, s-maxage={}, stale-while-revalidate={}, stale-if-error={}",
        times.s_max_age, times.stale_while_revalidate, times.stale_if_error
    )
}

fn origins(site: &types::Site, mistakes: &mut Mistakes) {
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
