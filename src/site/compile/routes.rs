//! Compiles routes: pages, redirects, and the paths that items generate from patterns.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::content::Collections;
use super::each::{self, ConcretePath};
use super::layout::{ItemGaps, PageCompiler, remove_unknown_fields};
use super::{paths, redirects};
use crate::checksum;
use crate::ids;
use crate::json;
use crate::limits::ROUTES_MAX;
use crate::site::snapshot::format::{Page, Redirect, Route, RouteTarget};
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::read::Source;
use crate::site::source::types::{self, PageRoute};

/// The compiled routes of a site.
pub(super) struct CompiledRoutes {
    /// The routes, sorted by path.
    pub(super) routes: Vec<Route>,
    pub(super) pages: Vec<Page>,
    /// The latest `updatedAt`, as authored.
    pub(super) updated_at: Option<String>,
}

pub(super) fn compile_routes(
    source: &Source,
    page_compiler: PageCompiler<'_, '_>,
    collections: &Collections<'_>,
    diagnostics: &mut Diagnostics,
    report_progress: &dyn Fn(usize, usize),
) -> CompiledRoutes {
    let site = source.site.as_ref().map_or("", |site| &site.site);
    // Not sorted by file: file names would change the bytes through the order of the table of regular
    // expressions.
    let mut in_order: Vec<_> = source.routes.iter().map(|(file, route)| (file.as_str(), route)).collect();
    in_order.sort_by_cached_key(|(_, route)| (paths::precedence(route.path()), route.path()));
    let authored = in_order.iter().map(|(file, route)| (*file, route.path()));
    paths::check_shapes(authored.clone(), diagnostics);
    let taken = authored.map(|(_, path)| path.to_owned()).collect();
    let made = CompiledRoutes { routes: Vec::new(), pages: Vec::new(), updated_at: None };
    let mut scheduler =
        RouteCompiler { site, layouts: page_compiler, collections, diagnostics, taken, output: made };
    let mut newest: Option<(Timestamp, &str)> = None;
    for (done, (file, route)) in in_order.into_iter().enumerate() {
        newest = newest.max(scheduler.compile_route(file, route));
        if scheduler.output.routes.len() > ROUTES_MAX {
            let expected = format!("at most {ROUTES_MAX} routes, including those generated from items");
            scheduler.diagnostics.add_titled("site.json", "", "too many routes", expected, "more");
            break;
        }
        report_progress(done + 1, source.routes.len());
    }
    let mut made = scheduler.output;
    made.routes.sort_by(|a, b| a.path.cmp(&b.path));
    made.updated_at = newest.map(|(_, text)| text.to_owned());
    made
}

struct RouteCompiler<'m, 'a, 's> {
    site: &'m str,
    layouts: PageCompiler<'a, 's>,
    collections: &'m Collections<'m>,
    diagnostics: &'m mut Diagnostics,
    /// The authored paths and the paths generated so far. A path in this set is not generated again: authored
    /// paths win.
    taken: BTreeSet<String>,
    output: CompiledRoutes,
}

impl RouteCompiler<'_, '_, '_> {
    fn compile_route<'r>(&mut self, file: &str, route: &'r types::Route) -> Option<(Timestamp, &'r str)> {
        let path = route.path();
        paths::check_path(file, path, self.diagnostics);
        let updated = parse_updated_at(file, route, self.diagnostics);
        match route {
            types::Route::Redirect(leads) => {
                let types::Redirect { to, status } = &leads.redirect;
                let parts = redirects::compile_target(file, path, to, self.diagnostics);
                let redirect = Redirect { to: to.clone(), parts, status: *status };
                let content = self.content_id(path, format!("{redirect:?}").as_bytes());
                let listing = redirect_listing(path, to, *status);
                self.add_route(path.to_owned(), content, listing, RouteTarget::Redirect(redirect));
            }
            types::Route::Page(page) => self.compile_page(file, page, updated.map(|(_, text)| text)),
        }
        updated
    }

    fn compile_page(&mut self, file: &str, route: &PageRoute, updated_at: Option<&str>) {
        let (page, mut gaps) = self.layouts.compile_page(file, route, self.diagnostics);
        let described = checksum::hash128(self.layouts.description()).to_be_bytes();
        match &route.each {
            None => {
                let mut found = described.to_vec();
                self.layouts.embedded_queries.write_content_ids(&page.embedded, &mut found);
                self.add_page_route(route.path.clone(), &page, &found, updated_at);
            }
            Some(each) => {
                let made = each::make_paths(file, &route.path, each, self.collections, self.diagnostics);
                remove_unknown_fields(file, &mut gaps, &made, self.diagnostics);
                for concrete in made {
                    self.add_item_route(&page, &gaps, concrete, &described, updated_at);
                }
            }
        }
        if gaps.is_empty() {
            self.output.pages.push(page);
        }
    }

    /// Adds the route of an item. It has a page of its own if `page` has gaps. Otherwise all items share `page`.
    fn add_item_route(
        &mut self,
        page: &Page,
        gaps: &ItemGaps,
        concrete_path: ConcretePath<'_>,
        description_hash: &[u8],
        updated_at: Option<&str>,
    ) {
        if !self.taken.insert(concrete_path.path.clone()) {
            return;
        }
        let mut found = description_hash.to_vec();
        self.layouts.write_found_items(&page.embedded, &concrete_path.values, &mut found);
        if gaps.is_empty() {
            return self.add_page_route(concrete_path.path, page, &found, updated_at);
        }
        let own = self.layouts.compile_item_page(page, gaps, &concrete_path, &mut found, self.diagnostics);
        self.add_page_route(concrete_path.path, &own, &found, updated_at);
        self.output.pages.push(own);
    }

    /// Adds a route for the page that is pushed next.
    fn add_page_route(&mut self, path: String, page: &Page, description: &[u8], updated_at: Option<&str>) {
        let content = self.content_id(&path, description);
        let listing = page_listing(&path, page, &content, updated_at, self.layouts.combinations_counted());
        let target = RouteTarget::Page(self.output.pages.len() as u32);
        self.add_route(path, content, listing, target);
    }

    fn content_id(&self, path: &str, description: &[u8]) -> [u8; 16] {
        let mut all = Vec::with_capacity(self.site.len() + path.len() + description.len() + 2);
        for text in [self.site, path] {
            all.extend_from_slice(text.as_bytes());
            all.push(0);
        }
        all.extend_from_slice(description);
        checksum::hash128(&all).to_be_bytes()
    }

    fn add_route(&mut self, path: String, content_id: [u8; 16], mut listing: Vec<u8>, target: RouteTarget) {
        let is_pattern = paths::is_pattern(&path);
        if is_pattern {
            listing.extend_from_slice(b",\"pattern\":true");
        }
        let listing = String::from_utf8(listing).expect("all parts are strings");
        let route = Route { path: path.into(), content: content_id, is_pattern, listing, target };
        self.output.routes.push(route);
    }
}

fn parse_updated_at<'s>(
    file: &str,
    route: &'s types::Route,
    diagnostics: &mut Diagnostics,
) -> Option<(Timestamp, &'s str)> {
    let text = route.updated_at()?;
    match text.parse() {
        Ok(time) => Some((time, text)),
        Err(_) => {
            let expected = "a time such as \"2026-01-05T10:00:00Z\" (RFC 3339)";
            let title = format!("invalid time {text:?}");
            diagnostics.add_titled(file, "/updatedAt", title, expected, format!("{text:?}"));
            None
        }
    }
}

fn redirect_listing(path: &str, target: &str, status: u16) -> Vec<u8> {
    let mut listing = b"{\"from\":".to_vec();
    json::write_string(&mut listing, path);
    listing.extend_from_slice(b",\"to\":");
    json::write_string(&mut listing, target);
    listing.extend_from_slice(b",\"status\":");
    json::write_number(&mut listing, status);
    listing
}

fn page_listing(
    path: &str,
    page: &Page,
    content_id: &[u8; 16],
    updated_at: Option<&str>,
    combination_count: usize,
) -> Vec<u8> {
    let mut listing = b"{\"path\":".to_vec();
    json::write_string(&mut listing, path);
    listing.extend_from_slice(b",\"updatedAt\":");
    match updated_at {
        Some(text) => json::write_string(&mut listing, text),
        None => listing.extend_from_slice(b"null"),
    }
    listing.extend_from_slice(b",\"hash\":\"");
    let [h0, h1, h2, h3, h4, h5, h6, h7, ..] = *content_id;
    listing.extend_from_slice(&ids::hex_u64(u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7])));
    listing.extend_from_slice(b"\",\"zones\":[");
    for (i, zone) in page.zones.iter().enumerate() {
        json::write_comma(&mut listing, i);
        json::write_string(&mut listing, &zone.name);
    }
    listing.extend_from_slice(b"],\"combinations\":");
    json::write_number(&mut listing, combination_count);
    listing
}
