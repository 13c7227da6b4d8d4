//! The items of content queries in a body: for the query endpoint, and for embedded queries whose items
//! depend on the path.

use super::path::RoutePath;
use super::render::BodyPlan;
use super::route;
use crate::condition::{Patterns, Value};
use crate::json;
use crate::site::query::params::{self, NO_VALUES, ParamValues};
use crate::site::query::run::QueryRunner;
use crate::site::snapshot::format::{
    ArchivedArgument, ArchivedPage, ArchivedQuery, ArchivedQueryCall, ArchivedSite,
};

/// Adds the found items to the plan, separated by commas. A page ends before the item that would make it too
/// large, so it may be shorter than requested.
pub(crate) fn push_items(
    site: &ArchivedSite,
    query: &ArchivedQuery,
    query_runner: &mut QueryRunner,
    plan: &mut BodyPlan,
) {
    query_runner.limit_page_bytes(|at| {
        let piece = query.items[at as usize].piece.to_native() as usize;
        site.pieces[piece].text_bytes.to_native() as usize
    });
    for (i, at) in query_runner.positions.iter().enumerate() {
        if i > 0 {
            plan.text.push(b',');
        }
        plan.push_piece(&site.pieces, query.items[*at as usize].piece.to_native());
    }
}

/// The inputs and buffers of a page's embedded queries.
pub(crate) struct EmbeddedQueries<'h> {
    /// Reused from request to request.
    pub search: &'h mut QueryRunner,
    /// The snapshot's compiled regular expressions.
    pub patterns: &'h Patterns,
    /// The requested path.
    pub path: &'h RoutePath,
}

impl EmbeddedQueries<'_> {
    /// Adds the value of a parameter that the path gives, as JSON.
    pub(super) fn push_route_value(
        &self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        call: &ArchivedQueryCall,
        param_index: usize,
        plan: &mut BodyPlan,
    ) {
        let query = &site.queries[call.query.to_native() as usize];
        let text = match &call.arguments[param_index] {
            ArchivedArgument::Route(name) => route_text(page, self.path, name),
            ArchivedArgument::Nothing | ArchivedArgument::Value(_) => None,
        };
        params::write_route_value(&query.params[param_index], text.unwrap_or_default(), &mut plan.text);
    }

    /// Adds the items of the first page, `],"total":`, their number on all pages, `,"nextCursor":`, and the
    /// cursor or null. Finds nothing if a part of the path is not a value that its parameter accepts.
    pub(super) fn push_query(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        call: &ArchivedQueryCall,
        plan: &mut BodyPlan,
    ) {
        let query = &site.queries[call.query.to_native() as usize];
        let found = bind_params(page, query, call, self.path).is_some_and(|values| {
            self.search.set_query(&site.site, query, &values);
            let limit = query.limit.to_native() as usize;
            // `compile` rejects a page whose query may need too many evaluations.
            self.search.run(query, &values, limit, self.patterns).is_ok()
        });
        if found {
            push_items(site, query, self.search, plan);
        }
        plan.text.extend_from_slice(b"],\"total\":");
        json::write_number(&mut plan.text, if found { self.search.total } else { 0 });
        plan.text.extend_from_slice(b",\"nextCursor\":");
        match found {
            true => self.search.write_cursor(query, &mut plan.text),
            false => plan.text.extend_from_slice(b"null"),
        }
    }
}

/// Returns the part of the path that the route's parameter `name` matches.
fn route_text<'v>(page: &'v ArchivedPage, path: &'v RoutePath, name: &str) -> Option<&'v str> {
    route::params(&page.path, path).find(|(known, _)| *known == name).map(|(_, text)| text)
}

fn bind_params<'v>(
    page: &'v ArchivedPage,
    query: &'v ArchivedQuery,
    call: &'v ArchivedQueryCall,
    path: &'v RoutePath,
) -> Option<ParamValues<'v>> {
    let mut values = NO_VALUES;
    for ((param, given), value) in query.params.iter().zip(call.arguments.iter()).zip(&mut values) {
        *value = match given {
            ArchivedArgument::Nothing => None,
            ArchivedArgument::Value(encoded) => Some(Value::decode(encoded)?),
            ArchivedArgument::Route(name) => Some(params::parse(param, route_text(page, path, name)?)?),
        };
    }
    params::apply_defaults(query, &mut values).ok()?;
    Some(values)
}
