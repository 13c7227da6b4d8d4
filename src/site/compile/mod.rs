//! Compiles the source of a site to the bytes of its snapshot.
//!
//! All diagnostics are reported at once. The same source gives the same bytes.
//!
//! [`conditions`] compiles audiences and conditions to programs. [`fields`] finds the fields that they
//! name, [`comparisons`] lists their comparisons, and [`operands`] finds those that can never be meant. [`content`] compiles items and queries, and
//! [`index`] precomputes query results. [`experiments`] checks that zones agree on an experiment, and
//! [`metrics`] does so for the metrics of its result. [`layout`] compiles pages to pieces, and [`embed`]
//! inserts query results into them. [`each`] generates paths from items, [`combinations`] lists the
//! combinations of variants, [`paths`] indexes the routes, [`redirects`] compiles the targets of redirects
//! and finds circles, and [`timezone`] writes the UTC offsets. [`lints`] finds valid source that is probably
//! a mistake. [`rules`] copies the members of the rules file. [`piece`] compresses the texts on
//! all CPUs, and [`archive`] writes the file.

mod archive;
mod combinations;
mod comparisons;
mod conditions;
mod content;
mod each;
mod embed;
mod entry;
mod experiments;
mod fields;
mod goals;
pub(crate) mod index;
mod layout;
mod lints;
mod metrics;
mod operands;
mod param_texts;
pub(super) mod paths;
mod piece;
mod properties;
mod redirects;
mod routes;
mod rules;
mod schedule;
mod segments;
mod settings;
mod timezone;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use rkyv::rancor::Error;
use rkyv::vec::ArchivedVec;

use self::conditions::{CompiledConditions, ConditionCompiler};
use self::content::{Collections, DiagnosticSink};
use self::embed::EmbeddedQueries;
use self::experiments::Experiments;
use self::layout::PageCompiler;
pub(crate) use self::operands::time_text;
use self::piece::PieceBuilder;
use super::snapshot::format::{ArchivedQuery, Query, Site};
use super::source::diagnostics::Diagnostics;
use super::source::read::Source;
use super::source::types::{self, Verification};
use crate::condition::Patterns;
use crate::url;

/// A compiled site.
#[derive(Debug)]
pub struct CompiledSite {
    /// The contents of the snapshot file.
    pub bytes: Vec<u8>,
    /// The content hash of each route, by path, including those generated from items.
    pub routes: BTreeMap<String, [u8; 16]>,
    /// Diagnostics for valid source that is probably not intended.
    pub warnings: Diagnostics,
}

/// Compiles the source of a site as `version`. Calls `report_progress` with the number of steps done and the total. Each
/// authored route has two steps: its compilation, and its part of the compression.
///
/// # Errors
/// The diagnostics of the reading step and those of the compilation.
pub fn compile(
    source: &Source,
    mut diagnostics: Diagnostics,
    version: u64,
    report_progress: &dyn Fn(usize, usize),
) -> Result<CompiledSite, Diagnostics> {
    let mut warnings = Diagnostics::default();
    let mut sink = DiagnosticSink { errors: &mut diagnostics, warnings: &mut warnings };
    let routes = source.routes.len();
    let site = compile_site(source, &mut sink, version, &|done, _| report_progress(done, 2 * routes));
    let Some((mut site, pieces)) = site.filter(|_| diagnostics.is_empty()) else {
        return Err(diagnostics);
    };
    lints::check(source, &site, &mut warnings);
    let (table, file) = pieces.finish(&|done, all| report_progress(routes + routes * done / all, 2 * routes));
    site.pieces = table;
    if source.site.as_ref().is_some_and(|site| site.local_decisions) && site.preview.is_none() {
        site.rules = Some(rules::rules_file(&site)?);
    }
    let bytes = archive::archive_site(&site, file, version)?;
    let routes = site.routes.into_iter().map(|route| (route.path.into(), route.content)).collect();
    Ok(CompiledSite { bytes, routes, warnings })
}

/// Adds a warning for each condition that does not hold again after `now_ms`, in milliseconds since 1970. It is apart
/// from [`compile`], which has no clock.
pub fn warn_about_past(source: &Source, now_ms: i64, warnings: &mut Diagnostics) {
    lints::past::check(source, now_ms, warnings);
}

fn compile_site(
    source: &Source,
    sink: &mut DiagnosticSink<'_>,
    version: u64,
    report_progress: &dyn Fn(usize, usize),
) -> Option<(Site, PieceBuilder)> {
    let mut pieces = PieceBuilder::new();
    let mut conditions = ConditionCompiler::new(source, sink.errors);
    let collections = Collections::new(source, sink.errors);
    let queries = content::compile_queries(source, &collections, &mut conditions, &mut pieces, sink);
    let diagnostics = &mut *sink.errors;
    let archived = archive_queries(&queries, diagnostics)?;
    let archived = rkyv::access::<ArchivedVec<ArchivedQuery>, Error>(&archived).ok();
    // `finish` reports expressions that exceed the limit as an error of the whole site.
    let patterns = Patterns::new(conditions.patterns()).or_else(|_| Patterns::new(&[""; 0])).ok()?;
    let name = source.site.as_ref().map_or("", |site| &site.site);
    let readable = archived.filter(|_| source.queries.is_some());
    let mut contents = EmbeddedQueries::new(name, readable, patterns);
    let experiments = Experiments::collect(source, diagnostics);
    let layouts = PageCompiler::new(&mut conditions, &experiments, &mut contents, &mut pieces);
    let made = routes::compile_routes(source, layouts, &collections, diagnostics, report_progress);
    let index = paths::build_index(&made.routes);
    redirects::check_circles(&source.routes, &made.routes, &index.tree, diagnostics);
    let site = source.site.as_ref()?;
    check_origins_and_hosts(site, diagnostics);
    let CompiledConditions { patterns, audiences, sees_url } = conditions.finish(diagnostics);
    let (experiments, namespaces) = experiments.finish();
    let site = Site {
        site: (*site.site).into(),
        tracking_id: site.tracking_id.clone(),
        name: site.name.clone(),
        preview: site.preview.clone(),
        version,
        origins: site.origins.clone(),
        hosts: collect_hosts(site),
        ignored_referrers: sort_hosts(site.ignored_referrers.iter().filter_map(|host| ascii_host(host))),
        ignores_providers: site.ignore_providers,
        cookie: site.cookie.clone(),
        verifies_users: site.identity.verify == Verification::Signed,
        bots: site.bots as u8,
        honor_gpc: site.privacy.honor_gpc,
        ip: site.privacy.ip as u8,
        measure_categories: site.privacy.consent_categories.measure.names().to_vec(),
        cache_resolve: cache_control(site.cache.resolve()),
        cache_routes: cache_control(site.cache.routes()),
        cache_query: cache_control(site.cache.query()),
        settings: settings::site_settings(site),
        updated_at: made.updated_at,
        time_zone: site.time_zone.clone(),
        clock_offsets: timezone::clock_offsets(&site.time_zone, diagnostics),
        patterns,
        audiences,
        goals: goals::compile_goals(site, &experiments, diagnostics),
        segments: segments::compile_segments(site, diagnostics),
        traits: properties::compile_traits(site, diagnostics),
        experiments,
        namespaces,
        holdout: experiments::compile_holdout(site),
        sees_url,
        rules: None,
        // `compile` adds the pieces when they are compressed, and the rules.
        pieces: Vec::new(),
        queries,
        pages: made.pages,
        routes: made.routes,
        literals: index.literals,
        tree: index.tree,
    };
    Some((site, pieces))
}

/// Archives the queries in the form that a server runs.
fn archive_queries(queries: &Vec<Query>, diagnostics: &mut Diagnostics) -> Option<rkyv::util::AlignedVec> {
    rkyv::to_bytes::<Error>(queries)
        .map_err(|error| {
            let expected = "queries that fit a snapshot";
            diagnostics.add_titled("queries.json", "", "cannot archive the queries", expected, error);
        })
        .ok()
}

fn cache_control(times: types::CacheTimes) -> String {
    format!(
        "public, max-age=0, s-maxage={}, stale-while-revalidate={}, stale-if-error={}",
        times.s_max_age, times.stale_while_revalidate, times.stale_if_error
    )
}

fn check_origins_and_hosts(site: &types::Site, diagnostics: &mut Diagnostics) {
    check_origins(site, diagnostics);
    check_hosts(site, diagnostics);
}

fn check_origins(site: &types::Site, diagnostics: &mut Diagnostics) {
    for (i, origin) in site.origins.iter().enumerate().filter(|(_, origin)| !is_origin(origin)) {
        let expected =
            "an origin such as `https://www.example.com`, `https://*.example.com` or `http://localhost:*`";
        let pointer = format!("/origins/{i}");
        let title = format!("invalid origin {origin:?}");
        diagnostics.add_titled("site.json", pointer, title, expected, format!("{origin:?}"));
    }
}

/// Returns the hosts of the site's `origins` and `hosts`, sorted, without a leading `www.`.
fn collect_hosts(site: &types::Site) -> Vec<String> {
    let origins = site.origins.iter().filter_map(|origin| url::host(origin)).map(str::to_owned);
    sort_hosts(origins.chain(site.hosts.iter().filter_map(|host| ascii_host(host))))
}

/// Returns hosts sorted, each once, without a leading `www.`.
fn sort_hosts(hosts: impl Iterator<Item = String>) -> Vec<String> {
    hosts.map(|host| url::without_www(&host).to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the A-label form of a host (RFC 5890), as browsers send it: `xn--bcher-kva.example` of `bücher.example`.
/// `None` if it is no valid internationalized name.
fn ascii_host(host: &str) -> Option<String> {
    if host.is_ascii() { Some(host.to_owned()) } else { idna::domain_to_ascii(host).ok() }
}

/// Checks the internationalized names among the hosts.
fn check_hosts(site: &types::Site, diagnostics: &mut Diagnostics) {
    for (i, host) in site.hosts.iter().enumerate().filter(|(_, host)| ascii_host(host).is_none()) {
        let expected = "a host name that IDNA allows, such as `bücher.example`";
        let title = format!("invalid host {host:?}");
        diagnostics.add_titled("site.json", format!("/hosts/{i}"), title, expected, format!("{host:?}"));
    }
}

/// Checks scheme, host and port in the form of browsers; `*` may replace the first labels or the port.
fn is_origin(text: &str) -> bool {
    let Some(authority) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
        return false;
    };
    // The colons of an IPv6 address are within brackets.
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let (host, port) = port.unwrap_or((authority, "0"));
    // At most one wildcard: the code that matches origins supports no more.
    let domain = host.strip_prefix("*.").filter(|_| port != "*").unwrap_or(host);
    let is_label = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b);
    let is_port = port == "*" || !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_host = !domain.is_empty() && domain.bytes().all(is_label) || is_ipv6_host(host);
    is_host && is_port
}

/// Returns whether `host` is an IPv6 address in brackets, in the form of browsers: shortened and in lower case.
fn is_ipv6_host(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    address.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok_and(|address| address.to_string() == text))
}
