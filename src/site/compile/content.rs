//! Compiles collections and queries: the items of each query as finished JSON, in the order of the query.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::conditions::{self, ConditionCompiler};
use super::entry::Entry;
use super::index::{self, IndexInput};
use super::param_texts::{describe_param, describe_params};
use super::piece::PieceBuilder;
use crate::checksum;
use crate::condition::{self, Condition, Field, FieldKind, Value, Vocabulary};
use crate::json;
use crate::limits::{
    ITEM_BYTES_MAX, ITEMS_MAX, ORDER_FIELDS_MAX, QUERIES_MAX, QUERY_EVALUATIONS_MAX, QUERY_LIMIT_DEFAULT,
    QUERY_PARAMS_MAX, SORT_KEY_BYTES_MAX,
};
use crate::site::query::order;
use crate::site::snapshot::format::{Item, Param, ParamKind, Query, Scan};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::read::{QUERIES_FILE, Source};
use crate::site::source::types::{self, Groups, Scalar};

/// The collections of a site, by name.
pub(super) struct Collections<'s> {
    by_name: BTreeMap<&'s str, LoadedCollection<'s>>,
    groups: Option<&'s Groups>,
}

/// The entries of a collection and its file.
pub(super) struct LoadedCollection<'s> {
    pub(super) file: &'s str,
    /// `None` if the file has errors.
    pub(super) entries: Option<Vec<Entry<'s>>>,
}

impl<'s> Collections<'s> {
    pub(super) fn new(source: &'s Source, diagnostics: &mut Diagnostics) -> Self {
        let mut by_name = BTreeMap::new();
        for (name, collection) in &source.content {
            let entries = collection.items.as_ref().map(|items| {
                if items.len() > ITEMS_MAX {
                    let expected = format!("at most {ITEMS_MAX} items");
                    diagnostics.add_titled(&collection.file, "", "too many items", expected, items.len());
                }
                items.iter().map(|item| Entry { item, fields: encode_fields(item) }).collect()
            });
            by_name.insert(&**name, LoadedCollection { file: &collection.file, entries });
        }
        Self { by_name, groups: source.groups.as_ref() }
    }

    /// Finds the collection that is named at `pointer` in `file`. Returns `None` if it does not exist, which
    /// is reported, or if its file has errors.
    pub(super) fn find(
        &self,
        name: &str,
        file: &str,
        pointer: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<(&LoadedCollection<'s>, &[Entry<'s>])> {
        let Some(collected) = self.by_name.get(name) else {
            let expected = "a collection: the name of a file in `content/`";
            let known = self.by_name.keys().copied();
            diagnostics.add_unknown(file, pointer, "collection", name, expected, known);
            return None;
        };
        Some((collected, collected.entries.as_deref()?))
    }

    /// Parses a condition over fields that may use `param_names`.
    pub(super) fn parse_condition(
        &self,
        condition: &Json,
        param_names: Option<Vec<&str>>,
        file: &str,
        pointer: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Condition> {
        let vocabulary = ContentVocabulary { groups: self.groups, params: param_names };
        conditions::parse_condition(condition, &vocabulary, file, pointer, diagnostics)
    }
}

fn encode_fields(item: &types::Item) -> Vec<u8> {
    let value = |text: &str| serde_json::from_str::<Json>(text).expect("the reader has parsed it");
    let fields: Map<String, Json> =
        item.fields.0.iter().map(|(name, text)| (name.clone(), value(text.get()))).collect();
    condition::encode_value(&Json::Object(fields))
}

/// The names that a condition over an item's fields can use: any path, but no audience.
struct ContentVocabulary<'a> {
    groups: Option<&'a Groups>,
    params: Option<Vec<&'a str>>,
}

impl Vocabulary for ContentVocabulary<'_> {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        Ok(Field { code: 0, name: path.to_owned(), kind: FieldKind::Any })
    }

    fn group(&self, name: &str) -> Option<&[Json]> {
        self.groups.map_or(Some(&[]), |groups| groups.get(name).map(Vec::as_slice))
    }

    fn group_names(&self) -> Vec<&str> {
        self.groups.into_iter().flat_map(|groups| groups.keys()).map(|name| &**name).collect()
    }

    fn param_names(&self) -> Option<Vec<&str>> {
        self.params.clone()
    }
}

/// The diagnostics of the compilation: errors, which stop it, and warnings.
pub(super) struct DiagnosticSink<'m> {
    pub(super) errors: &'m mut Diagnostics,
    pub(super) warnings: &'m mut Diagnostics,
}

/// Compiles the queries of a site, sorted by key.
pub(super) fn compile_queries(
    source: &Source,
    collections: &Collections<'_>,
    condition_compiler: &mut ConditionCompiler<'_>,
    pieces: &mut PieceBuilder,
    sink: &mut DiagnosticSink<'_>,
) -> Vec<Query> {
    let Some(queries) = &source.queries else { return Vec::new() };
    if queries.len() > QUERIES_MAX {
        let expected = format!("at most {QUERIES_MAX} queries");
        sink.errors.add_titled(QUERIES_FILE, "", "too many queries", expected, queries.len());
        return Vec::new();
    }
    let mut written = BTreeMap::new();
    let compile = |(key, query)| {
        let mut writer = ItemWriter { pieces, pieces_by_item: &mut written };
        QueryCompiler { key, query, sink }.compile(collections, condition_compiler, &mut writer)
    };
    queries.iter().map(|(key, query)| (&**key, query)).map(compile).collect()
}

/// Writes items as pieces. The key of a piece is collection, `select` and position in the collection, so that
/// similar queries share pieces.
struct ItemWriter<'p, 's> {
    pieces: &'p mut PieceBuilder,
    pieces_by_item: &'p mut BTreeMap<(&'s str, Option<&'s [String]>, usize), u32>,
}

impl<'s> ItemWriter<'_, 's> {
    fn write_item(&mut self, query: &'s types::Query, item_index: usize, item: &types::Item) -> u32 {
        let selection = query.select.as_deref();
        let pieces = &mut self.pieces;
        let write = || pieces.add(&item_json(item, selection));
        *self.pieces_by_item.entry((&query.collection, selection, item_index)).or_insert_with(write)
    }
}

/// Returns `{"id":...,"type":...,"fields":{...}}`, with the fields in the author's order.
fn item_json(item: &types::Item, selection: Option<&[String]>) -> Vec<u8> {
    let mut out = b"{\"id\":".to_vec();
    json::write_string(&mut out, &item.id);
    out.extend_from_slice(b",\"type\":");
    json::write_string(&mut out, &item.kind);
    out.extend_from_slice(b",\"fields\":{");
    let selected = |name: &String| selection.is_none_or(|names| names.contains(name));
    for (i, (name, value)) in item.fields.0.iter().filter(|(name, _)| selected(name)).enumerate() {
        json::write_comma(&mut out, i);
        json::write_string(&mut out, name);
        out.push(b':');
        json::write_minified(&mut out, value.get());
    }
    out.extend_from_slice(b"}}");
    out
}

/// A compiler for one query.
struct QueryCompiler<'d, 's, 'm> {
    key: &'s str,
    query: &'s types::Query,
    sink: &'d mut DiagnosticSink<'m>,
}

/// An item that the query can return, its position in the collection, and its key in the order of the query.
struct MatchedItem<'c, 's> {
    number: usize,
    entry: &'c Entry<'s>,
    sort_key: Vec<u8>,
}

impl<'s> QueryCompiler<'_, 's, '_> {
    fn compile(
        mut self,
        collections: &Collections<'s>,
        condition_compiler: &mut ConditionCompiler<'_>,
        writer: &mut ItemWriter<'_, 's>,
    ) -> Query {
        let params = self.compile_params();
        let conjuncts = self.parse_conjuncts(collections);
        let at = format!("/{}/collection", self.key);
        let named = collections.find(&self.query.collection, QUERIES_FILE, &at, self.sink.errors);
        let (file, entries) = named.map_or(("", &[][..]), |(collected, entries)| (collected.file, entries));
        self.warn_of_unknown_fields(entries, &conjuncts);
        let (with_params, plain): (Vec<_>, Vec<_>) =
            conjuncts.into_iter().partition(|c| !c.params().is_empty());
        let placed = self.matching_items(file, entries, Condition::all(plain));

        let input = IndexInput { params: &params, conjuncts: &with_params };
        let entries: Vec<&Entry<'_>> = placed.iter().map(|placed| placed.entry).collect();
        let known = index::build_index(&input, &entries);
        let placed: Vec<_> = known.kept.iter().map(|at| &placed[*at as usize]).collect();
        let entries: Vec<&Entry<'_>> = placed.iter().map(|placed| placed.entry).collect();
        let scanned: Vec<Condition> = known.scanned.iter().map(|at| with_params[*at].clone()).collect();
        let mut looked_at = Vec::new();
        let scan = (!scanned.is_empty()).then(|| {
            let (columns, bounds) = index::build_columns(&params, &scanned, &entries);
            let at = format!("/{}/where", self.key);
            let mut compile = |conjuncts: &[Condition]| {
                let condition = Condition::all(conjuncts.iter().cloned()).with_field_codes(&mut looked_at);
                condition_compiler.compile_parsed(QUERIES_FILE, &at, &condition, self.sink.errors)
            };
            let program = compile(&with_params);
            let residual = compile(&scanned);
            let params: BTreeSet<u16> = scanned.iter().flat_map(|c| c.params().into_keys()).collect();
            let params = scanned.iter().all(Condition::vanishes).then(|| params.into_iter().collect());
            Scan { params, program, residual, columns, bounds }
        });
        self.warn_if_expensive(scan.as_ref(), known.index.lists.iter().map(Vec::len).max().unwrap_or(0));

        let items = placed.iter().map(|placed| Item {
            sort_key: placed.sort_key.clone(),
            piece: writer.write_item(self.query, placed.number, placed.entry.item),
            fields: encode_field_values(placed.entry, &looked_at),
        });
        let mut query = Query {
            key: self.key.to_owned(),
            content: [0; 16],
            collection: self.query.collection.to_string(),
            param_names: describe_params(&params),
            params,
            limit: self.query.limit.unwrap_or(QUERY_LIMIT_DEFAULT as u32),
            order: self.query.order_by.join(","),
            items: items.collect(),
            index: known.index,
            scan,
        };
        query.content = self.content_id(&query, &scanned, writer.pieces);
        let largest = query.items.iter().map(|item| writer.pieces.text(item.piece).len()).max().unwrap_or(0);
        if largest > ITEM_BYTES_MAX {
            let expected =
                format!("items of at most {ITEM_BYTES_MAX} bytes; use `select` to return fewer fields");
            let actual = format!("an item of {largest} bytes");
            self.report("", "an item of this query is too large", expected, actual);
        }
        query
    }

    fn compile_params(&mut self) -> Vec<Param> {
        if self.query.params.len() > QUERY_PARAMS_MAX {
            let expected = format!("at most {QUERY_PARAMS_MAX} parameters");
            self.report("/params", "too many parameters", expected, self.query.params.len().to_string());
            return Vec::new();
        }
        self.query.params.iter().map(|(name, param)| compile_param(name, param)).collect()
    }

    /// Parses `where` into conjuncts. Returns no conjuncts if there are too many parameters, because they
    /// could refer to parameters that are not compiled. The error is already reported.
    fn parse_conjuncts(&mut self, collections: &Collections<'_>) -> Vec<Condition> {
        let names = self.query.params.keys().map(|name| &**name).collect();
        let at = format!("/{}/where", self.key);
        let read = self.query.condition.as_ref().and_then(|written| {
            collections.parse_condition(written, Some(names), QUERIES_FILE, &at, self.sink.errors)
        });
        let conjuncts = read.map_or(Vec::new(), Condition::into_conjuncts);
        let used: BTreeSet<u16> = conjuncts.iter().flat_map(|c| c.params().into_keys()).collect();
        let unused = (0..).zip(self.query.params.keys()).filter(|(at, _)| !used.contains(at));
        for (_, name) in unused {
            let expected = format!("{{\"$param\": \"{name}\"}} somewhere in `where`");
            let pointer = format!("/{}/params/{name}", self.key);
            let diagnostic = Diagnostic::at_key(QUERIES_FILE, pointer, expected, "none");
            self.sink.warnings.add(diagnostic.with_title(format!("unused parameter `{name}`")));
        }
        if self.query.params.len() > QUERY_PARAMS_MAX { Vec::new() } else { conjuncts }
    }

    /// Warns about field names that no item has. They are allowed, but probably not intended.
    fn warn_of_unknown_fields(&mut self, entries: &[Entry<'_>], conjuncts: &[Condition]) {
        let known: BTreeSet<&str> =
            entries.iter().flat_map(|entry| &entry.item.fields.0).map(|(name, _)| name.as_str()).collect();
        if known.is_empty() {
            return;
        }
        let first = |path: &str| path.split('.').next().unwrap_or(path).to_owned();
        let sorted = self.query.order_by.iter().enumerate();
        let sorted = sorted.filter(|(_, path)| path.trim_start_matches('-') != "id");
        let sorted = sorted.map(|(at, path)| (format!("orderBy/{at}"), first(path.trim_start_matches('-'))));
        let selected = self.query.select.iter().flatten().enumerate();
        let selected = selected.map(|(at, name)| (format!("select/{at}"), name.clone()));
        let filtered = conjuncts.iter().flat_map(Condition::member_names);
        let filtered = filtered.map(|name| ("where".to_owned(), name.to_owned()));
        for (at, name) in sorted.chain(selected).chain(filtered).filter(|(_, name)| !known.contains(&**name))
        {
            let expected = format!("a field that some item of `{}` has", &*self.query.collection);
            let pointer = format!("/{}/{at}", self.key);
            let known = known.iter().copied();
            self.sink.warnings.add_unknown(QUERIES_FILE, pointer, "field", &name, expected, known);
        }
    }

    /// Returns the items that match the conditions without parameters, in order.
    fn matching_items<'c>(
        &mut self,
        file: &str,
        entries: &'c [Entry<'s>],
        condition: Condition,
    ) -> Vec<MatchedItem<'c, 's>> {
        let fields = self.sort_fields();
        let filter = match index::Filter::new(&condition) {
            Ok(filter) => filter,
            Err(reason) => {
                self.report("/where", "the condition is too large", "a smaller condition", reason);
                return Vec::new();
            }
        };
        let filter = filter.evaluator();
        let mut placed = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            if !filter.holds(entry.root(), &[]) {
                continue;
            }
            let mut place = Vec::new();
            for (path, descending) in &fields {
                let value = if *path == "id" { Some(Value::String(&entry.item.id)) } else { entry.get(path) };
                order::append_sort_key(value, *descending, &mut place);
            }
            if place.len() > SORT_KEY_BYTES_MAX {
                let expected = format!(
                    "fields to sort by (query `{}`) of at most {SORT_KEY_BYTES_MAX} bytes together",
                    self.key
                );
                let actual = format!("{} bytes", place.len());
                let title = "the fields to sort by are too large";
                self.sink.errors.add_titled(file, format!("/{number}/fields"), title, expected, actual);
            }
            placed.push(MatchedItem { number, entry, sort_key: place });
        }
        placed.sort_by(|a, b| a.sort_key.cmp(&b.sort_key));
        placed
    }

    /// Returns the fields to sort by and whether they descend. Adds `id` as a tie-breaker if it is missing.
    fn sort_fields(&mut self) -> Vec<(&'s str, bool)> {
        let mut fields = Vec::new();
        for (at, written) in self.query.order_by.iter().enumerate() {
            let path = written.strip_prefix('-').unwrap_or(written);
            if path.is_empty() || fields.iter().any(|(known, _)| *known == path) {
                let title = if path.is_empty() { "invalid sort field" } else { "duplicate sort field" };
                let title = format!("{title} {written:?}");
                let expected = "a field name that occurs once";
                self.report(&format!("/orderBy/{at}"), &title, expected, format!("{written:?}"));
            }
            fields.push((path, path.len() < written.len()));
        }
        if !fields.iter().any(|(path, _)| *path == "id") {
            fields.push(("id", false));
        }
        if fields.len() > ORDER_FIELDS_MAX {
            let expected = format!("at most {ORDER_FIELDS_MAX} fields, `id` included");
            self.report("/orderBy", "too many sort fields", expected, fields.len().to_string());
        }
        fields
    }

    fn warn_if_expensive(&mut self, scan: Option<&Scan>, item_count: usize) {
        if scan.is_none() || item_count <= QUERY_EVALUATIONS_MAX {
            return;
        }
        let expected = format!(
            "a condition with precomputed results, or at most {QUERY_EVALUATIONS_MAX} items to evaluate; a request that \
             needs more gets 422 `query_too_expensive`"
        );
        let pointer = format!("/{}/where", self.key);
        let actual = format!("one that may evaluate {item_count} items");
        let title = "the query may be too expensive";
        self.sink.warnings.add_titled(QUERIES_FILE, pointer, title, expected, actual);
    }

    /// Returns an ID for everything that responses of this query can contain, for any parameters. Members of
    /// groups are part of the scanned conditions; for the indexed conditions the lists contain the result.
    fn content_id(&self, query: &Query, conditions: &[Condition], pieces: &PieceBuilder) -> [u8; 16] {
        let mut described = format!("{:?}{conditions:?}", self.query).into_bytes();
        for item in &query.items {
            for part in [&item.sort_key[..], pieces.text(item.piece), &item.fields] {
                described.extend_from_slice(&checksum::hash128(part).to_le_bytes());
            }
        }
        for (key, list) in query.index.keys.iter().zip(&query.index.lists) {
            described.extend_from_slice(&key.to_le_bytes());
            described.extend(list.iter().flat_map(|at| at.to_le_bytes()));
        }
        checksum::hash128(&described).to_be_bytes()
    }

    fn report(&mut self, inner_pointer: &str, title: &str, expected: impl Into<String>, actual: String) {
        let pointer = format!("/{}{inner_pointer}", self.key);
        self.sink.errors.add_titled(QUERIES_FILE, pointer, title, expected, actual);
    }
}

/// Encodes the values of these fields, after a table of their offsets.
fn encode_field_values(entry: &Entry<'_>, paths: &[String]) -> Vec<u8> {
    let mut out = vec![0; 4 * paths.len()];
    for (number, path) in paths.iter().enumerate() {
        if let Some(value) = entry.get(path) {
            let at = (out.len() as u32).to_le_bytes();
            out[4 * number..4 * number + 4].copy_from_slice(&at);
            condition::encode(&value.to_json(), &mut out);
        }
    }
    out
}

fn compile_param(name: &str, param: &types::Param) -> Param {
    let kind = match param.kind {
        types::ParamKind::String => ParamKind::Text,
        types::ParamKind::Number => ParamKind::Number,
        types::ParamKind::Boolean => ParamKind::Boolean,
    };
    Param {
        name: name.to_owned(),
        kind,
        optional: param.optional,
        default: param.default.as_ref().map(encode_scalar),
        values: param.values.iter().flatten().map(encode_scalar).collect(),
        minimum: param.minimum.as_ref().and_then(|bound| bound.as_f64()),
        maximum: param.maximum.as_ref().and_then(|bound| bound.as_f64()),
        accepts: describe_param(param),
    }
}

fn encode_scalar(scalar: &Scalar) -> Vec<u8> {
    let value = match scalar {
        Scalar::String(text) => Json::from(text.as_str()),
        Scalar::Number(number) => Json::from(number.clone()),
        Scalar::Boolean(flag) => Json::from(*flag),
    };
    condition::encode_value(&value)
}
