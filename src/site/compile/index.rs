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
use crate::site::query::order;
use crate::site::snapshot::format::{Column, ColumnBound, Index, Indexed, Param, ParamKind};
use crate::site::snapshot::hash_index;

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
    params: Vec<Numbered>,
    conjuncts: Vec<&'q Condition>,
    filter: Option<Filter>,
}

/// A parameter that is indexed.
struct Numbered {
    param: u16,
    /// Its values, and the digit of each.
    values: BTreeMap<Vec<u8>, u64>,
    /// Whether there are no others.
    finite: bool,
    /// Whether it may have no value.
    may_lack: bool,
    /// A value that is none of them.
    other: Vec<u8>,
}

/// What a parameter is while an item is tried.
struct Choice<'b> {
    value: Option<&'b [u8]>,
    digits: Digits<'b>,
}

/// The digits that a choice stands for.
enum Digits<'b> {
    One(u64),
    /// All of these values' but those that the item has, and that of any other value.
    Others {
        of: &'b Numbered,
        own: Vec<u64>,
    },
}

const LACKING: u64 = 0;
const OTHER: u64 = 1;
const FIRST: u64 = 2;

impl Digits<'_> {
    fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Others { of, own } => of.values.len() + 1 - own.len(),
        }
    }

    fn list(&self) -> Vec<u64> {
        match self {
            Self::One(digit) => vec![*digit],
            Self::Others { of, own } => {
                let last = of.values.len() as u64 + FIRST;
                (OTHER..last).filter(|digit| !own.contains(digit)).collect()
            }
        }
    }
}

impl Numbered {
    fn new(asked: &Asked<'_>, param: u16, held: BTreeSet<Vec<u8>>) -> Self {
        let declared = &asked.params[usize::from(param)];
        let finite = asked.is_finite(param);
        let values = match (finite, declared.values.is_empty()) {
            (false, _) => held,
            (true, false) => declared.values.iter().cloned().collect(),
            (true, true) => [false, true].map(|flag| encoded(&Json::from(flag))).into(),
        };
        let values: BTreeMap<Vec<u8>, u64> = values.into_iter().zip(FIRST..).collect();
        let other = unlike(declared.kind, &values);
        Self { param, values, finite, may_lack: asked.may_lack(param), other }
    }

    fn base(&self) -> u64 {
        self.values.len() as u64 + FIRST
    }

    /// The values that an item can tell apart which equals `own`.
    fn choices(&self, own: Option<&BTreeSet<Vec<u8>>>) -> Vec<Choice<'_>> {
        let mut choices: Vec<Choice<'_>> = match self.finite {
            true => self.values.iter().map(known).collect(),
            false => {
                own.into_iter().flatten().filter_map(|v| self.values.get_key_value(v)).map(known).collect()
            }
        };
        if !self.finite {
            let own = choices.iter().flat_map(|choice| choice.digits.list()).collect();
            choices.push(Choice { value: Some(&self.other), digits: Digits::Others { of: self, own } });
        }
        if self.may_lack {
            choices.push(Choice { value: None, digits: Digits::One(LACKING) });
        }
        choices
    }
}

fn known<'b>((value, digit): (&'b Vec<u8>, &u64)) -> Choice<'b> {
    Choice { value: Some(value), digits: Digits::One(*digit) }
}

impl<'q> Building<'q> {
    fn new(asked: &'q Asked<'q>, indexed: &BTreeSet<u16>, listed: &[usize], entries: &[&Entry<'_>]) -> Self {
        let conjuncts: Vec<&Condition> = listed.iter().map(|at| &asked.conjuncts[*at]).collect();
        let mut held: BTreeMap<u16, BTreeSet<Vec<u8>>> =
            indexed.iter().map(|param| (*param, BTreeSet::new())).collect();
        for entry in entries {
            equal(&conjuncts, entry, asked, &mut |param, value| {
                held.entry(param).or_default().insert(value);
            });
        }
        let params = held.into_iter().map(|(param, values)| Numbered::new(asked, param, values)).collect();
        let filter = Filter::new(&Condition::all(conjuncts.iter().map(|c| (*c).clone()))).ok();
        Self { asked, params, conjuncts, filter }
    }

    /// The parameter with the most values.
    fn largest(&self) -> u16 {
        let most = self.params.iter().max_by_key(|numbered| numbered.values.len());
        most.map_or(0, |numbered| numbered.param)
    }

    /// The positions that each key finds.
    fn lists(&self, entries: &[&Entry<'_>]) -> Result<BTreeMap<u64, Vec<u32>>, TooLarge> {
        let mut bases = self.params.iter().map(Numbered::base);
        bases.try_fold(1u64, |product, base| product.checked_mul(base)).ok_or(TooLarge)?;
        let filter = self.filter.as_ref().ok_or(TooLarge)?;
        let mut lists: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let (mut positions, mut scratch) = (0, Vec::new());
        let mut values = vec![None; self.asked.params.len()];
        for (at, entry) in entries.iter().enumerate() {
            let choices = self.choices(entry);
            let combinations: usize = choices.iter().map(Vec::len).product();
            if combinations > INDEX_COMBINATIONS_MAX {
                return Err(TooLarge);
            }
            for combination in 0..combinations {
                let chosen = nth(&choices, combination);
                for (numbered, choice) in self.params.iter().zip(&chosen) {
                    values[usize::from(numbered.param)] = choice.value.and_then(Value::decode);
                }
                if !filter.holds(entry.root(), &values, &mut scratch) {
                    continue;
                }
                positions += chosen.iter().map(|choice| choice.digits.count()).product::<usize>();
                if positions > INDEX_POSITIONS_MAX {
                    return Err(TooLarge);
                }
                for key in self.keys(&chosen) {
                    lists.entry(key).or_default().push(at as u32);
                }
            }
        }
        Ok(lists)
    }

    /// For each parameter the values that this item can tell apart.
    fn choices(&self, entry: &Entry<'_>) -> Vec<Vec<Choice<'_>>> {
        let mut own: BTreeMap<u16, BTreeSet<Vec<u8>>> = BTreeMap::new();
        equal(&self.conjuncts, entry, self.asked, &mut |param, value| {
            own.entry(param).or_default().insert(value);
        });
        self.params.iter().map(|numbered| numbered.choices(own.get(&numbered.param))).collect()
    }

    /// All keys that these choices stand for.
    fn keys(&self, chosen: &[&Choice<'_>]) -> Vec<u64> {
        let mut keys = vec![0];
        for (numbered, choice) in self.params.iter().zip(chosen) {
            let digits = choice.digits.list();
            let onward =
                |key: &u64| digits.iter().map(|digit| key * numbered.base() + digit).collect::<Vec<_>>();
            keys = keys.iter().flat_map(onward).collect();
        }
        keys
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
        let params = self.params.iter().map(|Numbered { param, values, .. }| {
            let texts = values.keys().zip(0..).map(|(value, at)| (at, &value[..]));
            let slots = hash_index::slots(values.len(), texts);
            Indexed { param: *param, slots, values: values.keys().cloned().collect() }
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
fn nth<'c, 'b>(choices: &'c [Vec<Choice<'b>>], mut number: usize) -> Vec<&'c Choice<'b>> {
    let mut one = |of: &'c Vec<Choice<'b>>| {
        let at = number % of.len();
        number /= of.len();
        &of[at]
    };
    choices.iter().map(&mut one).collect()
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
