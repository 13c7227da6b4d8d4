//! What a query's answers are, ahead of the question: a list of items for every combination of parameter values, and columns
//! that make ranges short.
//!
//! A parameter can be indexed where all of its values are known: those of an enumeration, the two booleans, or, where it is
//! compared by nothing but equality, the values that the items have (all others find the same). Each item is tried with the
//! values that it can tell apart, so that building costs what the items differ by, not all items times all values.
//!
//! A conjunct whose parameters are not all indexed is left to be scanned; leaving it out here only makes lists longer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::content::Entry;
use crate::condition::{self, Condition, Encoded, Evaluator, Memo, Patterns, Value, number_of};
use crate::limits::{INDEX_COMBINATIONS_MAX, INDEX_POSITIONS_MAX};
use crate::snapshot::format::{Column, ColumnBound, Index, Indexed, Param, ParamKind};
use crate::snapshot::{order, table};

/// A condition with its own expressions, to be evaluated while compiling.
pub(super) struct Filter {
    template: Vec<u8>,
    patterns: Patterns,
}

impl Filter {
    /// # Errors
    /// It is larger than a site may have it.
    pub(super) fn new(condition: &Condition) -> Result<Self, String> {
        let mut patterns = Vec::new();
        let template = condition.compile(&mut patterns).map_err(|error| error.to_string())?;
        let patterns = Patterns::new(&patterns).map_err(|error| error.to_string())?;
        Ok(Self { template, patterns })
    }

    /// Whether the condition holds for these fields and parameters. `scratch` is for the program.
    pub(super) fn holds(&self, root: Value<'_>, values: &[Option<Value<'_>>], scratch: &mut Vec<u8>) -> bool {
        if condition::bind(&self.template, values, scratch).is_none() {
            return false;
        }
        let document = Encoded { root, now_ms: 0 };
        let audiences: &[&[u8]] = &[];
        let mut memo = Memo::default();
        Evaluator { document: &document, audiences, patterns: &self.patterns, memo: &mut memo }.holds(scratch)
    }
}

/// What a query asks: parameters, and conditions that name them.
pub(super) struct Asked<'q> {
    pub(super) params: &'q [Param],
    pub(super) conjuncts: &'q [Condition],
}

/// What is known ahead of a query.
pub(super) struct Known {
    /// Its positions count `kept`.
    pub(super) index: Index,
    /// The entries that some values find, in order.
    pub(super) kept: Vec<u32>,
    /// The conjuncts that are left to be scanned.
    pub(super) scanned: Vec<usize>,
}

/// Indexes as many parameters as there is room for.
pub(super) fn of(asked: &Asked<'_>, entries: &[&Entry<'_>]) -> Known {
    let mut indexed = asked.knowable();
    loop {
        let (listed, scanned): (Vec<usize>, Vec<usize>) = (0..asked.conjuncts.len())
            .partition(|at| asked.conjuncts[*at].params().keys().all(|param| indexed.contains(param)));
        let used = listed.iter().flat_map(|at| asked.conjuncts[*at].params().into_keys());
        indexed = used.collect();
        let building = Building::new(asked, &indexed, &listed, entries);
        match building.lists(entries) {
            Ok(lists) => return building.finish(lists, entries.len(), scanned),
            Err(TooLarge) => indexed.remove(&building.largest()),
        };
    }
}

impl Asked<'_> {
    /// The parameters whose values are all known.
    fn knowable(&self) -> BTreeSet<u16> {
        let mut by_equality = BTreeMap::new();
        for (param, only) in self.conjuncts.iter().flat_map(Condition::params) {
            *by_equality.entry(param).or_insert(true) &= only;
        }
        let known = by_equality.into_iter().filter(|(param, only)| *only || self.is_finite(*param));
        known.map(|(param, _)| param).collect()
    }

    fn is_finite(&self, param: u16) -> bool {
        let param = &self.params[usize::from(param)];
        !param.values.is_empty() || param.kind == ParamKind::Boolean
    }

    /// Whether the parameter may have no value.
    fn may_lack(&self, param: u16) -> bool {
        let param = &self.params[usize::from(param)];
        param.optional && param.default.is_none()
    }
}

/// The index would take more memory or time than it may.
struct TooLarge;

struct Building<'q> {
    asked: &'q Asked<'q>,
    /// The parameters that are indexed, each with its values in order.
    params: Vec<(u16, BTreeMap<Vec<u8>, u64>)>,
    conjuncts: Vec<&'q Condition>,
    filter: Option<Filter>,
}

/// What a parameter is while an item is tried, and the digits of the keys that this stands for.
struct Choice {
    value: Option<Vec<u8>>,
    digits: Vec<u64>,
}

const LACKING: u64 = 0;
const OTHER: u64 = 1;
const FIRST: u64 = 2;

impl<'q> Building<'q> {
    fn new(asked: &'q Asked<'q>, indexed: &BTreeSet<u16>, listed: &[usize], entries: &[&Entry<'_>]) -> Self {
        let conjuncts: Vec<&Condition> = listed.iter().map(|at| &asked.conjuncts[*at]).collect();
        let mut held: BTreeMap<u16, BTreeSet<Vec<u8>>> =
            indexed.iter().map(|param| (*param, BTreeSet::new())).collect();
        for (param, values) in &mut held {
            let declared = &asked.params[usize::from(*param)];
            values.extend(declared.values.iter().cloned());
            if declared.kind == ParamKind::Boolean && declared.values.is_empty() {
                values.extend([false, true].map(|flag| encoded(&Json::from(flag))));
            }
        }
        for entry in entries {
            equal(&conjuncts, entry, asked, &mut |param, value| {
                if !asked.is_finite(param) {
                    held.entry(param).or_default().insert(value);
                }
            });
        }
        let numbered = |values: BTreeSet<Vec<u8>>| values.into_iter().zip(FIRST..).collect();
        let params = held.into_iter().map(|(param, values)| (param, numbered(values))).collect();
        let filter = Filter::new(&Condition::all(conjuncts.iter().map(|c| (*c).clone()))).ok();
        Self { asked, params, conjuncts, filter }
    }

    /// The parameter with the most values.
    fn largest(&self) -> u16 {
        let most = self.params.iter().max_by_key(|(_, values)| values.len());
        most.map_or(0, |(param, _)| *param)
    }

    /// The positions that each key finds.
    fn lists(&self, entries: &[&Entry<'_>]) -> Result<BTreeMap<u64, Vec<u32>>, TooLarge> {
        let bases = self.params.iter().map(|(_, values)| values.len() as u64 + FIRST);
        bases.clone().try_fold(1u64, |product, base| product.checked_mul(base)).ok_or(TooLarge)?;
        let bases: Vec<u64> = bases.collect();
        let filter = self.filter.as_ref().ok_or(TooLarge)?;
        let mut lists: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let (mut positions, mut scratch) = (0, Vec::new());
        for (at, entry) in entries.iter().enumerate() {
            let choices = self.choices(entry);
            let combinations: usize = choices.iter().map(Vec::len).product();
            if combinations > INDEX_COMBINATIONS_MAX {
                return Err(TooLarge);
            }
            for combination in 0..combinations {
                let chosen = nth(&choices, combination);
                let mut values = vec![None; self.asked.params.len()];
                for ((param, _), choice) in self.params.iter().zip(&chosen) {
                    values[usize::from(*param)] =
                        choice.value.as_ref().and_then(|value| Value::decode(value));
                }
                if !filter.holds(entry.root(), &values, &mut scratch) {
                    continue;
                }
                positions += chosen.iter().map(|choice| choice.digits.len()).product::<usize>();
                if positions > INDEX_POSITIONS_MAX {
                    return Err(TooLarge);
                }
                for key in keys(&bases, &chosen) {
                    lists.entry(key).or_default().push(at as u32);
                }
            }
        }
        Ok(lists)
    }

    /// For each parameter the values that this item can tell apart.
    fn choices(&self, entry: &Entry<'_>) -> Vec<Vec<Choice>> {
        let mut held: BTreeMap<u16, BTreeSet<Vec<u8>>> = BTreeMap::new();
        equal(&self.conjuncts, entry, self.asked, &mut |param, value| {
            held.entry(param).or_default().insert(value);
        });
        let choices = self.params.iter().map(|(param, values)| {
            let finite = self.asked.is_finite(*param);
            let own = held.remove(param).unwrap_or_default();
            let told_apart = values.iter().filter(|(value, _)| finite || own.contains(*value));
            let mut choices: Vec<Choice> = told_apart
                .map(|(value, digit)| Choice { value: Some(value.clone()), digits: vec![*digit] })
                .collect();
            if !finite {
                let others =
                    values.iter().filter(|(value, _)| !own.contains(*value)).map(|(_, digit)| *digit);
                let digits = std::iter::once(OTHER).chain(others).collect();
                let value = Some(unlike(self.asked.params[usize::from(*param)].kind, values));
                choices.push(Choice { value, digits });
            }
            if self.asked.may_lack(*param) {
                choices.push(Choice { value: None, digits: vec![LACKING] });
            }
            choices
        });
        choices.collect()
    }

    /// Leaves out the entries that nothing finds.
    fn finish(&self, lists: BTreeMap<u64, Vec<u32>>, entries: usize, scanned: Vec<usize>) -> Known {
        let mut is_found = vec![false; entries];
        lists.values().flatten().for_each(|at| is_found[*at as usize] = true);
        let kept: Vec<u32> = (0..entries as u32).filter(|at| is_found[*at as usize]).collect();
        let mut renumbered = vec![0; entries];
        kept.iter().zip(0..).for_each(|(old, new)| renumbered[*old as usize] = new);
        let (keys, mut lists): (Vec<u64>, Vec<Vec<u32>>) = lists.into_iter().unzip();
        lists.iter_mut().flatten().for_each(|at| *at = renumbered[*at as usize]);
        let params = self.params.iter().map(|(param, values)| {
            let texts = values.keys().zip(0..).map(|(value, at)| (at, &value[..]));
            Indexed {
                param: *param,
                slots: table::slots(values.len(), texts),
                values: values.keys().cloned().collect(),
            }
        });
        Known { index: Index { params: params.collect(), keys, lists }, kept, scanned }
    }
}

/// Tells the values of parameters' own types that equal something of the entry.
fn equal(conjuncts: &[&Condition], entry: &Entry<'_>, asked: &Asked<'_>, tell: &mut dyn FnMut(u16, Vec<u8>)) {
    for conjunct in conjuncts {
        conjunct.equals(entry.root(), &mut |param, value| {
            let fits = match asked.params[usize::from(param)].kind {
                ParamKind::Text => value.is_string(),
                ParamKind::Number => value.is_number(),
                ParamKind::Boolean => value.is_boolean(),
            };
            if fits {
                tell(param, encoded(&value));
            }
        });
    }
}

fn encoded(value: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    condition::encode(value, &mut out);
    out
}

/// A value that equals none of these, nor itself where it is a number.
fn unlike(kind: ParamKind, values: &BTreeMap<Vec<u8>, u64>) -> Vec<u8> {
    let mut out = Vec::new();
    match kind {
        ParamKind::Number | ParamKind::Boolean => condition::encode_scalar(Value::Number(f64::NAN), &mut out),
        ParamKind::Text => {
            let mut text = String::from("?");
            out = encoded(&Json::from(text.as_str()));
            while values.contains_key(&out) {
                text.push('?');
                out = encoded(&Json::from(text.as_str()));
            }
        }
    }
    out
}

/// One choice of each.
fn nth(choices: &[Vec<Choice>], mut number: usize) -> Vec<&Choice> {
    let mut one = |of: &'_ Vec<Choice>| {
        let at = number % of.len();
        number /= of.len();
        at
    };
    choices.iter().map(|of| &of[one(of)]).collect()
}

/// All keys that these choices stand for.
fn keys(bases: &[u64], chosen: &[&Choice]) -> Vec<u64> {
    let mut keys = vec![0];
    for (base, choice) in bases.iter().zip(chosen) {
        keys =
            keys.iter().flat_map(|key| choice.digits.iter().map(move |digit| key * base + digit)).collect();
    }
    keys
}

/// The columns that the bounds among these conjuncts ask for.
pub(super) fn columns(
    params: &[Param],
    scanned: &[Condition],
    entries: &[&Entry<'_>],
) -> (Vec<Column>, Vec<ColumnBound>) {
    let mut known: Vec<(&str, ParamKind)> = Vec::new();
    let mut bounds = Vec::new();
    for bound in scanned.iter().filter_map(Condition::bound) {
        let column = (bound.path, params[usize::from(bound.param)].kind);
        let at = known.iter().position(|other| *other == column).unwrap_or(known.len());
        if at == known.len() {
            known.push(column);
        }
        bounds.push(ColumnBound { column: at as u16, param: bound.param, is_lower: bound.is_lower });
    }
    (known.into_iter().map(|(path, kind)| column(path, kind, entries)).collect(), bounds)
}

fn column(path: &str, kind: ParamKind, entries: &[&Entry<'_>]) -> Column {
    let mut sorted = Vec::new();
    let mut always = Vec::new();
    for (at, entry) in (0u32..).zip(entries) {
        let value = entry.at(path).unwrap_or(Value::Null);
        match (kind, value) {
            (ParamKind::Text, Value::String(text)) => sorted.push((text.as_bytes().to_vec(), at)),
            // A text is compared with anything else as a number, if it is one.
            (ParamKind::Text, _) => always.push(at),
            // What has no number is neither above nor below one.
            _ => sorted.extend(number_of(value).map(|number| (order::number_key(number).to_vec(), at))),
        }
    }
    sorted.sort();
    let (keys, positions) = sorted.into_iter().unzip();
    Column { path: path.to_owned(), keys, positions, always }
}
