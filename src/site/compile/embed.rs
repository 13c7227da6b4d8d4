//! Queries in nodes: checks their parameters against the declaration and runs those that do not depend on the
//! path.
//!
//! Queries run over their archived form, with the code of the server, so that the items equal those of the
//! query endpoint.

use std::collections::BTreeMap;

use rkyv::vec::ArchivedVec;
use serde_json::Value as Json;

use super::paths;
use super::piece::PieceBuilder;
use crate::condition::{self, Patterns, Value};
use crate::json;
use crate::limits::{QUERY_EVALUATIONS_MAX, QUERY_PAGE_BYTES_MAX, SORT_KEY_BYTES_MAX};
use crate::nearest::nearest;
use crate::site::query::params::{self, NO_VALUES, ParamValues};
use crate::site::query::run::{QueryRunner, evaluations_max};
use crate::site::snapshot::format::{ArchivedQuery, Argument, QueryCall};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::types::{EmbeddedQuery, RawJson};

/// The archived queries of a site and the state to run them.
pub(super) struct EmbeddedQueries<'c> {
    site: &'c str,
    /// `None` if their file has errors: then every query name counts as known.
    queries: Option<&'c ArchivedVec<ArchivedQuery>>,
    patterns: Patterns,
    search: QueryRunner,
}

/// The location of an embedded query: file, pointer, and the path of the route.
pub(super) struct QueryLocation<'p> {
    pub(super) file: &'p str,
    pub(super) pointer: &'p str,
    pub(super) path: &'p str,
}

impl<'c> EmbeddedQueries<'c> {
    pub(super) fn new(
        site: &'c str,
        queries: Option<&'c ArchivedVec<ArchivedQuery>>,
        patterns: Patterns,
    ) -> Self {
        Self { site, queries, patterns, search: QueryRunner::new() }
    }

    /// Resolves the query that a node names and its arguments.
    pub(super) fn embed(
        &self,
        embedded_query: &EmbeddedQuery,
        location: &QueryLocation<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<QueryCall> {
        let queries = self.queries?;
        let Ok(at) = queries.binary_search_by(|query| query.key.as_str().cmp(&embedded_query.id)) else {
            let known = queries.iter().map(|query| query.key.as_str());
            let id = &embedded_query.id;
            let pointer = format!("{}/id", location.pointer);
            let expected = "a query of `queries.json`";
            diagnostics.add_unknown(location.file, pointer, "query", id, expected, known);
            return None;
        };
        let before = diagnostics.len();
        let query = &queries[at];
        let mut arguments: Vec<Argument> = query.params.iter().map(|_| Argument::Nothing).collect();
        let members = || embedded_query.params.iter().flat_map(|params| &params.0);
        for (name, value) in members() {
            let Some(param) = params::index_of(query, name) else {
                let known = query.params.iter().map(|param| param.name.as_str());
                let pointer = format!("{}/params/{name}", location.pointer);
                let expected = query.param_names.as_str();
                let diagnostic = Diagnostic::at_key(location.file, pointer, expected, format!("`{name}`"));
                let diagnostic = diagnostic.with_title(format!("unknown parameter `{name}`"));
                diagnostics.add(diagnostic.with_nearest(nearest(name, known)));
                continue;
            };
            arguments[param] = self.parse_argument(query, param, value, location, diagnostics);
        }
        let is_given = |name: &str| members().any(|(known, _)| **known == *name);
        for param in query
            .params
            .iter()
            .filter(|param| !is_given(&param.name) && param.default.is_none() && !param.optional)
        {
            let expected = format!("the parameter `{}`, {}", param.name, param.accepts);
            let title = format!("missing parameter `{}`", param.name);
            diagnostics.add_titled(location.file, location.pointer, title, expected, "none");
        }
        (diagnostics.len() == before).then_some(QueryCall { query: at as u32, arguments })
    }

    /// Parses an argument: a value, or a reference to a part of the path.
    fn parse_argument(
        &self,
        query: &ArchivedQuery,
        param_index: usize,
        argument: &RawJson,
        location: &QueryLocation<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Argument {
        let param = &query.params[param_index];
        let argument: Json = serde_json::from_str(argument.get()).expect("the reader has parsed it");
        let pointer = format!("{}/params/{}", location.pointer, param.name);
        if let Some(name) = argument.as_object().and_then(|members| members.get("$route")) {
            let known: Vec<&str> = paths::param_names(location.path).collect();
            let text = name.as_str().unwrap_or_default();
            if known.contains(&text) {
                return Argument::Route(text.to_owned());
            }
            let expected = match known.is_empty() {
                true => "a value, because this path has no parameters".to_owned(),
                false => format!("a parameter of the path: one of {}", known.join(", ")),
            };
            let diagnostic =
                Diagnostic::at_value(location.file, format!("{pointer}/$route"), expected, name.to_string());
            let diagnostic = diagnostic.with_title(format!("unknown route parameter {name}"));
            diagnostics.add(diagnostic.with_nearest(nearest(text, known)));
            return Argument::Nothing;
        }
        if params::may_be_absent(param) && (argument.is_null() || argument == "") {
            return Argument::Nothing;
        }
        let encoded = condition::encode_value(&argument);
        if !Value::decode(&encoded).is_some_and(|value| params::accepts(param, value)) {
            let expected = param.accepts.as_str();
            diagnostics.add(Diagnostic::at_value(location.file, pointer, expected, argument));
        }
        Argument::Value(encoded)
    }

    /// Returns the index of the parameter `name` if the path gives its value.
    pub(super) fn route_argument(&self, call: &QueryCall, name: &str) -> Option<usize> {
        let param = params::index_of(self.query_of(call)?, name)?;
        matches!(call.arguments[param], Argument::Route(_)).then_some(param)
    }

    /// Appends the first page of a query that does not depend on the path: items, `],"total":`, their number
    /// on all pages, `,"nextCursor":` and the cursor.
    pub(super) fn write_first_page(
        &mut self,
        call: &QueryCall,
        location: &QueryLocation<'_>,
        pieces: &PieceBuilder,
        out: &mut Vec<u8>,
        diagnostics: &mut Diagnostics,
    ) {
        let Some(query) = self.run(call, &BTreeMap::new()) else {
            let expected = format!("a query that evaluates at most {QUERY_EVALUATIONS_MAX} items");
            let diagnostic =
                Diagnostic::at_value(location.file, location.pointer, expected, "one that evaluates more");
            return diagnostics.add(diagnostic.with_title("the query is too expensive for a page"));
        };
        self.write_items(query, pieces, out);
    }

    /// Appends the results of a page's queries for these parts of the path.
    pub(super) fn write_found_items(
        &mut self,
        calls: &[QueryCall],
        route_values: &BTreeMap<String, String>,
        pieces: &PieceBuilder,
        out: &mut Vec<u8>,
    ) {
        for call in calls {
            out.push(0);
            if let Some(query) = self.run(call, route_values) {
                self.write_items(query, pieces, out);
            }
        }
    }

    /// Appends the content IDs of the queries, which identify everything that they can return.
    pub(super) fn write_content_ids(&self, calls: &[QueryCall], out: &mut Vec<u8>) {
        for query in calls.iter().filter_map(|call| self.query_of(call)) {
            out.extend_from_slice(&query.content);
        }
    }

    /// Runs a query. Returns `None` if a part of the path is not valid for its parameter, or if the query is
    /// too expensive.
    fn query_of(&self, call: &QueryCall) -> Option<&'c ArchivedQuery> {
        self.queries?.get(call.query as usize)
    }

    fn run(
        &mut self,
        call: &QueryCall,
        route_values: &BTreeMap<String, String>,
    ) -> Option<&'c ArchivedQuery> {
        let query = &self.queries?[call.query as usize];
        let mut values: ParamValues<'_> = NO_VALUES;
        for ((param, argument), value) in query.params.iter().zip(&call.arguments).zip(&mut values) {
            *value = match argument {
                Argument::Nothing => None,
                Argument::Value(encoded) => Some(Value::decode(encoded)?),
                Argument::Route(name) => Some(params::parse(param, route_values.get(name)?)?),
            };
        }
        params::apply_defaults(query, &mut values).ok()?;
        self.search.set_query(self.site, query, &values);
        let limit = query.limit.to_native() as usize;
        self.search.run(query, &values, limit, &self.patterns).ok()?;
        Some(query)
    }

    fn write_items(&mut self, query: &ArchivedQuery, pieces: &PieceBuilder, out: &mut Vec<u8>) {
        self.search.limit_page_bytes(|at| pieces.text(query.items[at as usize].piece.to_native()).len());
        for (i, at) in self.search.positions.iter().enumerate() {
            json::write_comma(out, i);
            out.extend_from_slice(pieces.text(query.items[*at as usize].piece.to_native()));
        }
        out.extend_from_slice(b"],\"total\":");
        json::write_number(out, self.search.total);
        out.extend_from_slice(b",\"nextCursor\":");
        self.search.write_cursor(query, out);
    }

    /// Returns the maximum number of items that one request evaluates for this query.
    pub(super) fn evaluations_max(&self, call: &QueryCall) -> usize {
        self.query_of(call).map_or(0, evaluations_max)
    }

    /// Returns the maximum size of the query's first page, in bytes.
    pub(super) fn bytes_max(&self, call: &QueryCall, pieces: &PieceBuilder) -> usize {
        let Some(query) = self.query_of(call) else { return 0 };
        let mut items: Vec<usize> =
            query.items.iter().map(|item| pieces.text(item.piece.to_native()).len() + 1).collect();
        items.sort_unstable_by(|a, b| b.cmp(a));
        let cursor = 2 * SORT_KEY_BYTES_MAX + 64;
        let first_page = items.iter().take(query.limit.to_native() as usize).sum::<usize>();
        // A first item of the largest size stays, with its comma.
        first_page.min(QUERY_PAGE_BYTES_MAX + 1) + cursor
    }
}
