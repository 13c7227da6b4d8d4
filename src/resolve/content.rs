//! What content queries find, as bytes: for the endpoint, and for the nodes of a page whose items depend on its path.

use super::path::RoutePath;
use super::render::Plan;
use super::route;
use crate::condition::{Patterns, Value};
use crate::limits::QUERY_PAGE_BYTES_MAX;
use crate::site::query::params::{self, NO_VALUES, Values};
use crate::site::query::run::Search;
use crate::site::snapshot::format::{
    ArchivedEmbedded, ArchivedGiven, ArchivedPage, ArchivedQuery, ArchivedSite,
};

/// Notes what was found: the items, joined by commas. A page ends before the item that would make it too large, so that it is
/// shorter than was asked for.
pub fn push_items(site: &ArchivedSite, query: &ArchivedQuery, search: &mut Search, plan: &mut Plan) {
    let mut bytes = 0;
    search.end_page(|at| {
        let piece = query.items[at as usize].piece.to_native() as usize;
        bytes += site.pieces[piece].text.len() + 1;
        bytes > QUERY_PAGE_BYTES_MAX
    });
    for (i, at) in search.found.iter().enumerate() {
        if i > 0 {
            plan.text.push(b',');
        }
        plan.push(&site.pieces, query.items[*at as usize].piece.to_native());
    }
}

/// What the holes of a page depend on.
pub struct Holes<'h> {
    /// Kept from request to request.
    pub search: &'h mut Search,
    /// The snapshot's.
    pub patterns: &'h Patterns,
    /// As requested.
    pub path: &'h RoutePath,
}

impl Holes<'_> {
    /// Notes the items of the first page, `],"nextCursor":`, and the cursor or null. Nothing is found where a part of the path
    /// is no value of its parameter.
    pub(super) fn fill(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        embedded: &ArchivedEmbedded,
        plan: &mut Plan,
    ) {
        let query = &site.queries[embedded.query.to_native() as usize];
        let found = values(page, query, embedded, self.path).is_some_and(|values| {
            self.search.name(&site.site, query, &values);
            let limit = query.limit.to_native() as usize;
            // What could take too many evaluations is refused by `compile`.
            self.search.run(query, &values, limit, self.patterns).is_ok()
        });
        if found {
            push_items(site, query, self.search, plan);
        }
        plan.text.extend_from_slice(b"],\"nextCursor\":");
        match found {
            true => self.search.write_cursor(query, &mut plan.text),
            false => plan.text.extend_from_slice(b"null"),
        }
    }
}

fn values<'v>(
    page: &'v ArchivedPage,
    query: &'v ArchivedQuery,
    embedded: &'v ArchivedEmbedded,
    path: &'v RoutePath,
) -> Option<Values<'v>> {
    let mut values = NO_VALUES;
    for ((param, given), value) in query.params.iter().zip(embedded.given.iter()).zip(&mut values) {
        *value = match given {
            ArchivedGiven::Nothing => None,
            ArchivedGiven::Value(encoded) => Some(Value::decode(encoded)?),
            ArchivedGiven::Route(name) => {
                let (_, text) = route::params(&page.path, path).find(|(known, _)| *known == name.as_str())?;
                Some(params::read(param, text)?)
            }
        };
    }
    params::complete(query, &mut values).ok()?;
    Some(values)
}
