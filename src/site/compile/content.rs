//! Collections and queries to what is answered without a look at the source: items as finished JSON, in each query's order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::conditions::{self, Conditions};
use super::index::{self, Asked};
use super::piece::Pieces;
use crate::checksum;
use crate::condition::{self, Condition, Field, Kind, Value, Vocabulary};
use crate::json;
use crate::limits::{
    ITEM_BYTES_MAX, ITEMS_MAX, ORDER_FIELDS_MAX, PLACE_BYTES_MAX, QUERIES_MAX, QUERY_EVALUATIONS_MAX,
    QUERY_LIMIT_DEFAULT, QUERY_PARAMS_MAX,
};
use crate::nearest::nearest;
use crate::site::query::order;
use crate::site::snapshot::format::{Item, Param, ParamKind, Query, Scan};
use crate::site::source::diagnostics::{Mistake, Mistakes};
use crate::site::source::read::{QUERIES, Source};
use crate::site::source::types::{self, Groups, Scalar};

/// The collections of a site, ready to be asked.
pub(super) struct Collections<'s> {
    by_name: BTreeMap<&'s str, Collected<'s>>,
    groups: Option<&'s Groups>,
}

/// A collection.
pub(super) struct Collected<'s> {
    pub(super) file: &'s str,
    /// None where its file has mistakes.
    pub(super) entries: Option<Vec<Entry<'s>>>,
}

/// An item, and its fields where a condition can look at them.
pub(super) struct Entry<'s> {
    pub(super) item: &'s types::Item,
    pub(super) fields: Vec<u8>,
}

impl Entry<'_> {
    /// What stands at a dotted path of the fields.
    pub(super) fn at(&self, path: &str) -> Option<Value<'_>> {
        self.root().at(path)
    }

    pub(super) fn root(&self) -> Value<'_> {
        Value::decode(&self.fields).unwrap_or(Value::Null)
    }
}

impl<'s> Collections<'s> {
    pub(super) fn new(source: &'s Source, mistakes: &mut Mistakes) -> Self {
        let mut by_name = BTreeMap::new();
        for (name, collection) in &source.content {
            let entries = collection.items.as_ref().map(|items| {
                if items.len() > ITEMS_MAX {
                    let expected = format!("at most {ITEMS_MAX} items");
                    mistakes.add(Mistake::of_value(&collection.file, "", expected, items.len().to_string()));
                }
                items.iter().map(|item| Entry { item, fields: encoded(item) }).collect()
            });
            by_name.insert(&**name, Collected { file: &collection.file, entries });
        }
        Self { by_name, groups: source.groups.as_ref() }
    }

    /// A collection that stands at `pointer` in `file`; None where it is not there, or cannot be read.
    pub(super) fn named(
        &self,
        name: &str,
        (file, pointer): (&str, &str),
        mistakes: &mut Mistakes,
    ) -> Option<(&Collected<'s>, &[Entry<'s>])> {
        let Some(collected) = self.by_name.get(name) else {
            let expected = "a collection: the name of a file in `content/`";
            let mistake = Mistake::of_value(file, pointer, expected, format!("{name:?}"));
            mistakes.add(mistake.with_nearest(nearest(name, self.by_name.keys().copied())));
            return None;
        };
        Some((collected, collected.entries.as_deref()?))
    }

    /// Reads a condition over fields, which may name `params`.
    pub(super) fn condition(
        &self,
        written: &Json,
        params: Option<Vec<&str>>,
        place: (&str, &str),
        mistakes: &mut Mistakes,
    ) -> Option<Condition> {
        conditions::read(written, &ContentWords { groups: self.groups, params }, place, mistakes)
    }
}

fn encoded(item: &types::Item) -> Vec<u8> {
    let mut out = Vec::new();
    let value = |text: &str| serde_json::from_str::<Json>(text).expect("it was read before");
    let fields: Map<String, Json> =
        item.fields.0.iter().map(|(name, text)| (name.clone(), value(text.get()))).collect();
    condition::encode(&Json::Object(fields), &mut out);
    out
}

/// What a condition over an item's fields may name: any path, no audience.
struct ContentWords<'a> {
    groups: Option<&'a Groups>,
    params: Option<Vec<&'a str>>,
}

impl Vocabulary for ContentWords<'_> {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        Ok(Field { code: 0, name: path.to_owned(), kind: Kind::Any })
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

/// What is said while queries are compiled: what stops it, and what does not.
pub(super) struct Said<'m> {
    pub(super) mistakes: &'m mut Mistakes,
    pub(super) warnings: &'m mut Mistakes,
}

/// Compiles the queries of a site, sorted by key.
pub(super) fn queries(
    source: &Source,
    collections: &Collections<'_>,
    conditions: &mut Conditions<'_>,
    pieces: &mut Pieces,
    said: &mut Said<'_>,
) -> Vec<Query> {
    let Some(queries) = &source.queries else { return Vec::new() };
    if queries.len() > QUERIES_MAX {
        let expected = format!("at most {QUERIES_MAX} queries");
        said.mistakes.add(Mistake::of_value(QUERIES, "", expected, queries.len().to_string()));
        return Vec::new();
    }
    let mut written = BTreeMap::new();
    let compile = |(key, query)| {
        Drafting { key, query, said }.query(
            collections,
            conditions,
            &mut Written { pieces, written: &mut written },
        )
    };
    queries.iter().map(|(key, query)| (&**key, query)).map(compile).collect()
}

/// The pieces of items, by collection, selection and place in the collection: queries alike share them.
struct Written<'p, 's> {
    pieces: &'p mut Pieces,
    written: &'p mut BTreeMap<(&'s str, Option<&'s [String]>, usize), u32>,
}

impl<'s> Written<'_, 's> {
    fn item(&mut self, query: &'s types::Query, number: usize, item: &types::Item) -> u32 {
        let selection = query.select.as_deref();
        let pieces = &mut self.pieces;
        let write = || pieces.add(text(item, selection));
        *self.written.entry((&query.collection, selection, number)).or_insert_with(write)
    }
}

/// `{"id":...,"type":...,"fields":{...}}`, the fields in the author's order.
fn text(item: &types::Item, selection: Option<&[String]>) -> Vec<u8> {
    let mut out = b"{\"id\":".to_vec();
    json::string(&mut out, &item.id);
    out.extend_from_slice(b",\"type\":");
    json::string(&mut out, &item.kind);
    out.extend_from_slice(b",\"fields\":{");
    let selected = |name: &String| selection.is_none_or(|names| names.contains(name));
    for (i, (name, value)) in item.fields.0.iter().filter(|(name, _)| selected(name)).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::string(&mut out, name);
        out.push(b':');
        json::minified(&mut out, value.get());
    }
    out.extend_from_slice(b"}}");
    out
}

/// One query.
struct Drafting<'d, 's, 'm> {
    key: &'s str,
    query: &'s types::Query,
    said: &'d mut Said<'m>,
}

/// An item that some parameters may find, where it stands in its collection, and its place in the query's order.
struct Placed<'c, 's> {
    number: usize,
    entry: &'c Entry<'s>,
    place: Vec<u8>,
}

impl<'s> Drafting<'_, 's, '_> {
    fn query(
        mut self,
        collections: &Collections<'s>,
        conditions: &mut Conditions<'_>,
        written: &mut Written<'_, 's>,
    ) -> Query {
        let params = self.params();
        let conjuncts = self.conjuncts(collections);
        let at = format!("/{}/collection", self.key);
        let named = collections.named(&self.query.collection, (QUERIES, &at), self.said.mistakes);
        let (file, entries) = named.map_or(("", &[][..]), |(collected, entries)| (collected.file, entries));
        self.known_fields(entries, &conjuncts);
        let (asking, plain): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(|c| !c.params().is_empty());
        let placed = self.placed(file, entries, Condition::all(plain));

        let asked = Asked { params: &params, conjuncts: &asking };
        let entries: Vec<&Entry<'_>> = placed.iter().map(|placed| placed.entry).collect();
        let known = index::of(&asked, &entries);
        let placed: Vec<_> = known.kept.iter().map(|at| &placed[*at as usize]).collect();
        let entries: Vec<&Entry<'_>> = placed.iter().map(|placed| placed.entry).collect();
        let scanned: Vec<Condition> = known.scanned.iter().map(|at| asking[*at].clone()).collect();
        let mut looked_at = Vec::new();
        let scan = (!scanned.is_empty()).then(|| {
            let (columns, bounds) = index::columns(&params, &scanned, &entries);
            let at = format!("/{}/where", self.key);
            let mut program = |conjuncts: &[Condition]| {
                let condition = Condition::all(conjuncts.iter().cloned()).numbered(&mut looked_at);
                conditions.program(QUERIES, &at, &condition, self.said.mistakes)
            };
            let (program, open) = (program(&asking), program(&scanned));
            let params: BTreeSet<u16> = scanned.iter().flat_map(|c| c.params().into_keys()).collect();
            let params = scanned.iter().all(Condition::vanishes).then(|| params.into_iter().collect());
            Scan { params, program, open, columns, bounds }
        });
        self.warn_of_scan(scan.as_ref(), known.index.lists.iter().map(Vec::len).max().unwrap_or(0));

        let items = placed.iter().map(|placed| Item {
            place: placed.place.clone(),
            piece: written.item(self.query, placed.number, placed.entry.item),
            facts: facts(placed.entry, &looked_at),
        });
        let mut query = Query {
            key: self.key.to_owned(),
            content: [0; 16],
            collection: self.query.collection.to_string(),
            declares: declared(&params),
            params,
            limit: self.query.limit.unwrap_or(QUERY_LIMIT_DEFAULT as u32),
            order: self.query.order_by.join(","),
            items: items.collect(),
            index: known.index,
            scan,
        };
        query.content = self.content(&query, &scanned, written.pieces);
        let largest = query.items.iter().map(|item| written.pieces.text(item.piece).len()).max().unwrap_or(0);
        if largest > ITEM_BYTES_MAX {
            let expected = format!("items of at most {ITEM_BYTES_MAX} bytes, by a `select` of fewer fields");
            self.wrong("", expected, format!("one of {largest} bytes"));
        }
        query
    }

    fn params(&mut self) -> Vec<Param> {
        if self.query.params.len() > QUERY_PARAMS_MAX {
            let expected = format!("at most {QUERY_PARAMS_MAX} parameters");
            self.wrong("/params", expected, self.query.params.len().to_string());
            return Vec::new();
        }
        self.query.params.iter().map(|(name, param)| compiled(name, param)).collect()
    }

    /// Empty where the parameters are too many, which is a mistake by then: nothing is to name what is not compiled.
    fn conjuncts(&mut self, collections: &Collections<'_>) -> Vec<Condition> {
        let names = self.query.params.keys().map(|name| &**name).collect();
        let at = format!("/{}/where", self.key);
        let read = self.query.matching.as_ref().and_then(|written| {
            collections.condition(written, Some(names), (QUERIES, &at), self.said.mistakes)
        });
        let conjuncts = read.map_or(Vec::new(), Condition::conjuncts);
        let used: BTreeSet<u16> = conjuncts.iter().flat_map(|c| c.params().into_keys()).collect();
        let unused = (0..).zip(self.query.params.keys()).filter(|(at, _)| !used.contains(at));
        for (_, name) in unused {
            let expected = format!("{{\"$param\": \"{name}\"}} somewhere in `where`");
            let pointer = format!("/{}/params/{name}", self.key);
            let mistake = Mistake::of_key(QUERIES, pointer, expected, "a parameter that changes nothing");
            self.said.warnings.add(mistake);
        }
        if self.query.params.len() > QUERY_PARAMS_MAX { Vec::new() } else { conjuncts }
    }

    /// Warns of names that no item has: they are allowed, but hardly meant.
    fn known_fields(&mut self, entries: &[Entry<'_>], conjuncts: &[Condition]) {
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
        let asked = conjuncts.iter().flat_map(Condition::members);
        let asked = asked.map(|name| ("where".to_owned(), name.to_owned()));
        for (at, name) in sorted.chain(selected).chain(asked).filter(|(_, name)| !known.contains(&**name)) {
            let expected = format!("a field that some item of `{}` has", &*self.query.collection);
            let pointer = format!("/{}/{at}", self.key);
            let mistake = Mistake::of_value(QUERIES, pointer, expected, format!("{name:?}"));
            self.said.warnings.add(mistake.with_nearest(nearest(&name, known.iter().copied())));
        }
    }

    /// The items that match whatever the parameters are, in order.
    fn placed<'c>(&mut self, file: &str, entries: &'c [Entry<'s>], plain: Condition) -> Vec<Placed<'c, 's>> {
        let fields = self.order();
        let filter = match index::Filter::new(&plain) {
            Ok(filter) => filter,
            Err(reason) => {
                self.wrong("/where", "a smaller condition", reason);
                return Vec::new();
            }
        };
        let mut scratch = Vec::new();
        let mut placed = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            if !filter.holds(entry.root(), &[], &mut scratch) {
                continue;
            }
            let mut place = Vec::new();
            for (path, descending) in &fields {
                let value = if *path == "id" { Some(Value::String(&entry.item.id)) } else { entry.at(path) };
                order::sort_value(value, *descending, &mut place);
            }
            if place.len() > PLACE_BYTES_MAX {
                let expected = format!(
                    "fields to sort by (query `{}`) of at most {PLACE_BYTES_MAX} bytes together",
                    self.key
                );
                let came = format!("{} bytes", place.len());
                self.said.mistakes.add(Mistake::of_value(file, format!("/{number}/fields"), expected, came));
            }
            placed.push(Placed { number, entry, place });
        }
        placed.sort_by(|a, b| a.place.cmp(&b.place));
        placed
    }

    /// The fields to sort by and whether they descend, up to `id`, which ends every order.
    fn order(&mut self) -> Vec<(&'s str, bool)> {
        let mut fields = Vec::new();
        for (at, written) in self.query.order_by.iter().enumerate() {
            let path = written.strip_prefix('-').unwrap_or(written);
            if path.is_empty() || fields.iter().any(|(known, _)| *known == path) {
                self.wrong(&format!("/orderBy/{at}"), "a field, each once", format!("{written:?}"));
            }
            fields.push((path, path.len() < written.len()));
        }
        if !fields.iter().any(|(path, _)| *path == "id") {
            fields.push(("id", false));
        }
        if fields.len() > ORDER_FIELDS_MAX {
            let expected = format!("at most {ORDER_FIELDS_MAX} fields, `id` included");
            self.wrong("/orderBy", expected, fields.len().to_string());
        }
        fields
    }

    fn warn_of_scan(&mut self, scan: Option<&Scan>, items: usize) {
        if scan.is_none() || items <= QUERY_EVALUATIONS_MAX {
            return;
        }
        let expected = format!(
            "a condition whose answers are known ahead, or at most {QUERY_EVALUATIONS_MAX} items to look at; where more are \
             needed the answer is 422 `query_too_expensive`"
        );
        let pointer = format!("/{}/where", self.key);
        let came = format!("one that may look at {items} items");
        self.said.warnings.add(Mistake::of_value(QUERIES, pointer, expected, came));
    }

    /// Names everything that answers can hold, by whatever parameters. The members of groups stand in the conditions that are
    /// scanned; for all others the lists show what came of them.
    fn content(&self, query: &Query, scanned: &[Condition], pieces: &Pieces) -> [u8; 16] {
        let mut described = format!("{:?}{scanned:?}", self.query).into_bytes();
        for item in &query.items {
            for part in [&item.place[..], pieces.text(item.piece), &item.facts] {
                described.extend_from_slice(&checksum::tag(part).to_le_bytes());
            }
        }
        for (key, list) in query.index.keys.iter().zip(&query.index.lists) {
            described.extend_from_slice(&key.to_le_bytes());
            described.extend(list.iter().flat_map(|at| at.to_le_bytes()));
        }
        checksum::tag(&described).to_be_bytes()
    }

    fn wrong(&mut self, at: &str, expected: impl Into<String>, came: String) {
        let pointer = format!("/{}{at}", self.key);
        self.said.mistakes.add(Mistake::of_value(QUERIES, pointer, expected, came));
    }
}

/// The values of these fields, behind their places.
fn facts(entry: &Entry<'_>, looked_at: &[String]) -> Vec<u8> {
    let mut out = vec![0; 4 * looked_at.len()];
    for (number, path) in looked_at.iter().enumerate() {
        if let Some(value) = entry.at(path) {
            let at = (out.len() as u32).to_le_bytes();
            out[4 * number..4 * number + 4].copy_from_slice(&at);
            condition::encode(&value.to_json(), &mut out);
        }
    }
    out
}

fn compiled(name: &str, param: &types::Param) -> Param {
    let kind = match param.kind {
        types::ParamKind::String => ParamKind::Text,
        types::ParamKind::Number => ParamKind::Number,
        types::ParamKind::Boolean => ParamKind::Boolean,
    };
    Param {
        name: name.to_owned(),
        kind,
        optional: param.optional,
        default: param.default.as_ref().map(scalar),
        values: param.values.iter().flatten().map(scalar).collect(),
        minimum: param.minimum.as_ref().and_then(|bound| bound.as_f64()),
        maximum: param.maximum.as_ref().and_then(|bound| bound.as_f64()),
        says: says(param),
    }
}

fn scalar(scalar: &Scalar) -> Vec<u8> {
    let mut out = Vec::new();
    let value = match scalar {
        Scalar::String(text) => Json::from(text.as_str()),
        Scalar::Number(number) => Json::from(number.clone()),
        Scalar::Boolean(flag) => Json::from(*flag),
    };
    condition::encode(&value, &mut out);
    out
}

/// Values of an enumeration that a refusal names.
const VALUES_SAID_MAX: usize = 12;

fn says(param: &types::Param) -> String {
    if let Some(values) = &param.values {
        let named: Vec<String> = values.iter().take(VALUES_SAID_MAX).map(Scalar::to_string).collect();
        let more = if values.len() > VALUES_SAID_MAX { ", ..." } else { "" };
        return format!("one of {}{more}", named.join(", "));
    }
    match (param.kind, &param.minimum, &param.maximum) {
        (types::ParamKind::String, ..) => "a string".to_owned(),
        (types::ParamKind::Boolean, ..) => "true or false".to_owned(),
        (types::ParamKind::Number, None, None) => "a number".to_owned(),
        (types::ParamKind::Number, Some(minimum), None) => format!("a number from {minimum}"),
        (types::ParamKind::Number, None, Some(maximum)) => format!("a number up to {maximum}"),
        (types::ParamKind::Number, Some(minimum), Some(maximum)) => {
            format!("a number from {minimum} to {maximum}")
        }
    }
}

fn declared(params: &[Param]) -> String {
    let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
    if names.is_empty() {
        "no parameter: the query has none".to_owned()
    } else {
        format!("one of {}", names.join(", "))
    }
}
