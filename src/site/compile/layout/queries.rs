//! Compiles the queries in nodes: their first page, or a gap for it if it depends on the path.

use super::super::embed::QueryLocation;
use super::{LayoutCompiler, PageCompiler};
use crate::json;
use crate::limits::{EMBEDDED_QUERIES_MAX, QUERY_EVALUATIONS_MAX};
use crate::site::snapshot::format::{Argument, Part, QueryCall};
use crate::site::source::pattern::Name;
use crate::site::source::types::{EmbeddedQuery, Members, RawJson};

impl LayoutCompiler<'_, '_, '_> {
    /// Writes `,"query":{...},"items":[...],"total":...,"nextCursor":...`.
    pub(super) fn query(&mut self, query: &EmbeddedQuery, pointer: &str, parts: &mut Vec<Part>) {
        let at = QueryLocation { file: self.file, pointer: &format!("{pointer}/query"), path: self.path };
        let Some(embedded) = self.page_compiler.embedded_queries.embed(query, &at, self.diagnostics) else {
            return;
        };
        let is_dynamic = embedded.arguments.iter().any(|given| matches!(given, Argument::Route(_)));
        if is_dynamic && !self.has_room_for_query(&embedded, at.pointer) {
            return;
        }
        self.text.extend_from_slice(b",\"query\":{\"id\":");
        json::write_string(&mut self.text, &query.id);
        if let Some(params) = &query.params {
            self.query_params(params, &embedded, parts);
        }
        self.text.extend_from_slice(b"},\"items\":[");
        if is_dynamic {
            self.end_piece(parts);
            parts.push(Part::Query(self.embedded.len() as u16));
            self.embedded.push(embedded);
        } else {
            let PageCompiler { embedded_queries: contents, pieces, .. } = &mut *self.page_compiler;
            contents.write_first_page(&embedded, &at, pieces, &mut self.text, self.diagnostics);
        }
    }

    /// Writes `,"params":{...}`. The page gets the values from the path when it is rendered.
    fn query_params(&mut self, params: &Members<Name, RawJson>, call: &QueryCall, parts: &mut Vec<Part>) {
        self.text.extend_from_slice(b",\"params\":{");
        for (i, (name, value)) in params.0.iter().enumerate() {
            json::write_comma(&mut self.text, i);
            json::write_string(&mut self.text, name);
            self.text.push(b':');
            match self.page_compiler.embedded_queries.route_argument(call, name) {
                None => json::write_minified(&mut self.text, value.get()),
                Some(param) => {
                    self.end_piece(parts);
                    parts.push(Part::RouteValue(self.embedded.len() as u16, param as u8));
                }
            }
        }
        self.text.push(b'}');
    }

    /// Returns whether the page may embed one more query that uses a part of the path. If not, reports it.
    fn has_room_for_query(&mut self, call: &QueryCall, pointer: &str) -> bool {
        self.evaluations += self.page_compiler.embedded_queries.evaluations_max(call);
        if self.evaluations > QUERY_EVALUATIONS_MAX {
            let expected = format!(
                "queries with precomputed results, or queries that together evaluate at most {QUERY_EVALUATIONS_MAX} \
                 items per request of this page"
            );
            let actual = format!("{} items up to here", self.evaluations);
            self.wrong(pointer, "the queries of this page are too expensive", expected, &actual);
            return false;
        }
        if self.embedded.len() == EMBEDDED_QUERIES_MAX {
            let expected = format!("at most {EMBEDDED_QUERIES_MAX} queries that use a part of the path");
            self.wrong(pointer, "too many queries in this page", expected, "one more");
            return false;
        }
        true
    }
}
