//! Routes to what is found under each path: pages, redirects, and the paths that items make of patterns.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::content::Collections;
use super::each::{self, Concrete};
use super::layout::Layouts;
use super::paths;
use crate::checksum;
use crate::ids;
use crate::json;
use crate::limits::ROUTES_MAX;
use crate::site::snapshot::format::{Page, Redirect, Route, Shows};
use crate::site::source::diagnostics::{Mistake, Mistakes};
use crate::site::source::read::Source;
use crate::site::source::types::{self, PageRoute};

/// The routes of a site.
pub(super) struct Made {
    /// Sorted by path.
    pub(super) routes: Vec<Route>,
    pub(super) pages: Vec<Page>,
    /// The newest `updatedAt`, as authored.
    pub(super) updated_at: Option<String>,
}

pub(super) fn of(
    source: &Source,
    layouts: Layouts<'_, '_>,
    collections: &Collections<'_>,
    mistakes: &mut Mistakes,
    progress: &dyn Fn(usize, usize),
) -> Made {
    let site = source.site.as_ref().map_or("", |site| &site.site);
    // Not by file: the names of files must not show in the bytes, through the table of patterns.
    let mut in_order: Vec<_> = source.routes.iter().map(|(file, route)| (file.as_str(), route)).collect();
    in_order.sort_by_cached_key(|(_, route)| (paths::precedence(route.path()), route.path()));
    let authored = in_order.iter().map(|(file, route)| (*file, route.path()));
    paths::check_shapes(authored.clone(), mistakes);
    let taken = authored.map(|(_, path)| path.to_owned()).collect();
    let made = Made { routes: Vec::new(), pages: Vec::new(), updated_at: None };
    let mut making = Making { site, layouts, collections, mistakes, taken, made };
    let mut newest: Option<(Timestamp, &str)> = None;
    for (done, (file, route)) in in_order.into_iter().enumerate() {
        newest = newest.max(making.route(file, route));
        if making.made.routes.len() > ROUTES_MAX {
            let expected = format!("at most {ROUTES_MAX} routes, those of items included");
            making.mistakes.add(Mistake::of_value("site.json", "", expected, "more"));
            break;
        }
        progress(done + 1, source.routes.len());
    }
    let mut made = making.made;
    made.routes.sort_by(|a, b| a.path.cmp(&b.path));
    made.updated_at = newest.map(|(_, text)| text.to_owned());
    made
}

struct Making<'m, 'a, 's> {
    site: &'m str,
    layouts: Layouts<'a, 's>,
    collections: &'m Collections<'m>,
    mistakes: &'m mut Mistakes,
    /// The paths that are made already, or written by authors: these go before those that items make.
    taken: BTreeSet<String>,
    made: Made,
}

impl Making<'_, '_, '_> {
    fn route<'r>(&mut self, file: &str, route: &'r types::Route) -> Option<(Timestamp, &'r str)> {
        let path = route.path();
        paths::check(file, path, self.mistakes);
        let updated = updated_at(file, route, self.mistakes);
        match route {
            types::Route::Redirect(leads) => {
                let leads = Redirect { to: leads.redirect.to.clone(), status: leads.redirect.status };
                let content = self.content(path, format!("{leads:?}").as_bytes());
                let listing = redirect_listing(path, &leads);
                self.push(path.to_owned(), content, listing, Shows::Redirect(leads));
            }
            types::Route::Page(page) => self.page(file, page, updated.map(|(_, text)| text)),
        }
        updated
    }

    fn page(&mut self, file: &str, route: &PageRoute, updated: Option<&str>) {
        let page = self.layouts.page(file, &route.path, &route.layout, self.mistakes);
        let described = checksum::tag(self.layouts.description()).to_be_bytes();
        match &route.each {
            None => {
                let mut found = described.to_vec();
                self.layouts.contents.findable(&page.embedded, &mut found);
                self.shown(route.path.clone(), &page, &found, updated);
            }
            Some(each) => {
                let made = each::paths(file, &route.path, each, self.collections, self.mistakes);
                for Concrete { path, values } in made {
                    if !self.taken.insert(path.clone()) {
                        continue;
                    }
                    let mut found = described.to_vec();
                    self.layouts.find(&page.embedded, &values, &mut found);
                    self.shown(path, &page, &found, updated);
                }
            }
        }
        self.made.pages.push(page);
    }

    /// Makes a route that shows the page which comes next.
    fn shown(&mut self, path: String, page: &Page, described: &[u8], updated: Option<&str>) {
        let content = self.content(&path, described);
        let listing = page_listing(&path, page, &content, updated, self.layouts.combinations_counted());
        let shows = Shows::Page(self.made.pages.len() as u32);
        self.push(path, content, listing, shows);
    }

    fn content(&self, path: &str, described: &[u8]) -> [u8; 16] {
        let mut all = Vec::with_capacity(self.site.len() + path.len() + described.len() + 2);
        for text in [self.site, path] {
            all.extend_from_slice(text.as_bytes());
            all.push(0);
        }
        all.extend_from_slice(described);
        checksum::tag(&all).to_be_bytes()
    }

    fn push(&mut self, path: String, content: [u8; 16], mut listing: Vec<u8>, shows: Shows) {
        let pattern = paths::is_pattern(&path);
        if pattern {
            listing.extend_from_slice(b",\"pattern\":true");
        }
        let listing = String::from_utf8(listing).expect("it was written from strings");
        self.made.routes.push(Route { path, content, pattern, listing, shows });
    }
}

fn updated_at<'s>(
    file: &str,
    route: &'s types::Route,
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

fn redirect_listing(path: &str, leads: &Redirect) -> Vec<u8> {
    let mut listing = b"{\"from\":".to_vec();
    json::string(&mut listing, path);
    listing.extend_from_slice(b",\"to\":");
    json::string(&mut listing, &leads.to);
    listing.extend_from_slice(b",\"status\":");
    json::number(&mut listing, leads.status);
    listing
}

fn page_listing(
    path: &str,
    page: &Page,
    content: &[u8; 16],
    updated: Option<&str>,
    combinations: usize,
) -> Vec<u8> {
    let mut listing = b"{\"path\":".to_vec();
    json::string(&mut listing, path);
    listing.extend_from_slice(b",\"updatedAt\":");
    match updated {
        Some(text) => json::string(&mut listing, text),
        None => listing.extend_from_slice(b"null"),
    }
    listing.extend_from_slice(b",\"hash\":\"");
    let [h0, h1, h2, h3, h4, h5, h6, h7, ..] = *content;
    listing.extend_from_slice(&ids::hex(u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7])));
    listing.extend_from_slice(b"\",\"zones\":[");
    for (i, zone) in page.zones.iter().enumerate() {
        if i > 0 {
            listing.push(b',');
        }
        json::string(&mut listing, &zone.name);
    }
    listing.extend_from_slice(b"],\"combinations\":");
    json::number(&mut listing, combinations);
    listing
}
