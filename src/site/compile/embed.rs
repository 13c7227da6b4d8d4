//! Queries in nodes: their parameters against the declaration, and what they find where that is known.
//!
//! Queries are run as a server runs them, over their archived form, so that the items are the endpoint's.

use std::collections::BTreeMap;

use rkyv::vec::ArchivedVec;
use serde_json::Value as Json;

use super::paths;
use super::piece::Pieces;
use crate::condition::{self, Patterns, Value};
use crate::limits::{PLACE_BYTES_MAX, QUERY_EVALUATIONS_MAX};
use crate::nearest::nearest;
use crate::site::query::params::{self, NO_VALUES, Values};
use crate::site::query::run::{Search, evaluations_max};
use crate::site::snapshot::format::{ArchivedQuery, Embedded, Given};
use crate::site::source::diagnostics::{Mistake, Mistakes};
use crate::site::source::types::{Authored, EmbeddedQuery};

/// The queries of a site, ready to be run.
pub(super) struct Contents<'c> {
    site: &'c str,
    /// None where their file has mistakes: then any name is taken.
    queries: Option<&'c ArchivedVec<ArchivedQuery>>,
    patterns: Patterns,
    search: Search,
}

/// Where a query stands: file, pointer, and the path of the route.
pub(super) struct Place<'p> {
    pub(super) file: &'p str,
    pub(super) pointer: &'p str,
    pub(super) path: &'p str,
}

impl<'c> Contents<'c> {
    pub(super) fn new(
        site: &'c str,
        queries: Option<&'c ArchivedVec<ArchivedQuery>>,
        patterns: Patterns,
    ) -> Self {
        Self { site, queries, patterns, search: Search::new() }
    }

    /// The query that a node names, with what it gives for each parameter.
    pub(super) fn embed(
        &self,
        written: &EmbeddedQuery,
        place: &Place<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Embedded> {
        let queries = self.queries?;
        let Ok(at) = queries.binary_search_by(|query| query.key.as_str().cmp(&written.id)) else {
            let known = queries.iter().map(|query| query.key.as_str());
            let came = format!("{:?}", &*written.id);
            let pointer = format!("{}/id", place.pointer);
            let mistake = Mistake::of_value(place.file, pointer, "a query of `queries.json`", came);
            mistakes.add(mistake.with_nearest(nearest(&written.id, known)));
            return None;
        };
        let before = mistakes.len();
        let query = &queries[at];
        let mut given: Vec<Given> = query.params.iter().map(|_| Given::Nothing).collect();
        let members = || written.params.iter().flat_map(|params| &params.0);
        for (name, value) in members() {
            let Some(param) = params::index(query, name) else {
                let known = query.params.iter().map(|param| param.name.as_str());
                let pointer = format!("{}/params/{name}", place.pointer);
                let mistake =
                    Mistake::of_key(place.file, pointer, query.declares.as_str(), format!("`{name}`"));
                mistakes.add(mistake.with_nearest(nearest(name, known)));
                continue;
            };
            given[param] = self.given(query, param, value, place, mistakes);
        }
        let is_given = |name: &str| members().any(|(known, _)| **known == *name);
        for param in query
            .params
            .iter()
            .filter(|param| !is_given(&param.name) && param.default.is_none() && !param.optional)
        {
            let expected = format!("the parameter `{}`, {}", param.name, param.says);
            mistakes.add(Mistake::of_value(place.file, place.pointer, expected, "none"));
        }
        (mistakes.len() == before).then_some(Embedded { query: at as u32, given })
    }

    /// A value, or the part of the path that stands for one.
    fn given(
        &self,
        query: &ArchivedQuery,
        param: usize,
        written: &Authored,
        place: &Place<'_>,
        mistakes: &mut Mistakes,
    ) -> Given {
        let param = &query.params[param];
        let written: Json = serde_json::from_str(written.get()).expect("it was read before");
        let pointer = format!("{}/params/{}", place.pointer, param.name);
        if let Some(name) = written.as_object().and_then(|members| members.get("$route")) {
            let known: Vec<&str> = paths::param_names(place.path).collect();
            let text = name.as_str().unwrap_or_default();
            if known.contains(&text) {
                return Given::Route(text.to_owned());
            }
            let expected = match known.is_empty() {
                true => "a value: this path has no parameters".to_owned(),
                false => format!("a parameter of the path: one of {}", known.join(", ")),
            };
            let mistake =
                Mistake::of_value(place.file, format!("{pointer}/$route"), expected, name.to_string());
            mistakes.add(mistake.with_nearest(nearest(text, known)));
            return Given::Nothing;
        }
        let mut encoded = Vec::new();
        condition::encode(&written, &mut encoded);
        if !Value::decode(&encoded).is_some_and(|value| params::takes(param, value)) {
            mistakes.add(Mistake::of_value(place.file, pointer, param.says.as_str(), written.to_string()));
        }
        Given::Value(encoded)
    }

    /// Appends the first page of a query that depends on nothing: items, `],"nextCursor":` and the cursor.
    pub(super) fn first_page(
        &mut self,
        embedded: &Embedded,
        place: &Place<'_>,
        pieces: &Pieces,
        out: &mut Vec<u8>,
        mistakes: &mut Mistakes,
    ) {
        let Some(query) = self.run(embedded, &BTreeMap::new()) else {
            let expected = format!("a query that looks at no more than {QUERY_EVALUATIONS_MAX} items");
            return mistakes.add(Mistake::of_value(
                place.file,
                place.pointer,
                expected,
                "one that looks at more",
            ));
        };
        self.write(query, pieces, out);
    }

    /// Appends what each of a page's queries finds for these parts of the path.
    pub(super) fn found(
        &mut self,
        embedded: &[Embedded],
        route: &BTreeMap<String, String>,
        pieces: &Pieces,
        out: &mut Vec<u8>,
    ) {
        for embedded in embedded {
            out.push(0);
            if let Some(query) = self.run(embedded, route) {
                self.write(query, pieces, out);
            }
        }
    }

    /// Appends names of all that a page's queries could find.
    pub(super) fn findable(&self, embedded: &[Embedded], out: &mut Vec<u8>) {
        for query in embedded.iter().filter_map(|embedded| self.queries?.get(embedded.query as usize)) {
            out.extend_from_slice(&query.content);
        }
    }

    /// None where a part of the path is no value of its parameter, or it would take too long.
    fn run(&mut self, embedded: &Embedded, route: &BTreeMap<String, String>) -> Option<&'c ArchivedQuery> {
        let query = &self.queries?[embedded.query as usize];
        let mut values: Values<'_> = NO_VALUES;
        for ((param, given), value) in query.params.iter().zip(&embedded.given).zip(&mut values) {
            *value = match given {
                Given::Nothing => None,
                Given::Value(encoded) => Some(Value::decode(encoded)?),
                Given::Route(name) => Some(params::read(param, route.get(name)?)?),
            };
        }
        params::complete(query, &mut values).ok()?;
        self.search.name(self.site, query, &values);
        let limit = query.limit.to_native() as usize;
        self.search.run(query, &values, limit, &self.patterns).ok()?;
        Some(query)
    }

    fn write(&self, query: &ArchivedQuery, pieces: &Pieces, out: &mut Vec<u8>) {
        for (i, at) in self.search.found.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(pieces.text(query.items[*at as usize].piece.to_native()));
        }
        out.extend_from_slice(b"],\"nextCursor\":");
        self.search.write_cursor(query, out);
    }

    /// Items that a request may have to look at for an embedded query.
    pub(super) fn evaluations_max(&self, embedded: &Embedded) -> usize {
        let query = self.queries.and_then(|queries| queries.get(embedded.query as usize));
        query.map_or(0, evaluations_max)
    }

    /// Bytes that an embedded query's first page takes at most.
    pub(super) fn bytes_max(&self, embedded: &Embedded, pieces: &Pieces) -> usize {
        let Some(query) = self.queries.and_then(|queries| queries.get(embedded.query as usize)) else {
            return 0;
        };
        let mut items: Vec<usize> =
            query.items.iter().map(|item| pieces.text(item.piece.to_native()).len() + 1).collect();
        items.sort_unstable_by(|a, b| b.cmp(a));
        let cursor = 2 * PLACE_BYTES_MAX + 64;
        items.iter().take(query.limit.to_native() as usize).sum::<usize>() + cursor
    }
}
