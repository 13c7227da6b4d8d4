//! Precomputes the results of a query: a list of items for each combination of parameter values, and columns
//! that narrow down ranges.
//!
//! A parameter can be indexed if all its values are known. They are known for an enumeration and for a
//! boolean. They are also known for a parameter that is compared only for equality: its values are those of
//! the items, and all other values give the same result. Each item is tried only with the values that it can
//! distinguish. So the cost of the build depends on the differences between items, not on items times values.
//!
//! A conjunct is evaluated by a scan unless all its parameters are indexed. To leave it out of the index only
//! makes lists longer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::entry::Entry;
use crate::condition::program::{ArchivedProgram, ProgramBuffer};
use crate::condition::{
    self, Condition, EncodedDocument, Evaluator, Memo, NoAudiences, Patterns, Value, encode_value, to_number,
};
use crate::site::query::order;
use crate::site::snapshot::format::{Column, ColumnBound, Index, IndexParam, Param, ParamKind};
use crate::site::snapshot::hash_index;

/// Number of positions in all lists of a query's index, 4 bytes each. If a query needs more, `compile`
/// indexes fewer of its parameters.
pub const INDEX_POSITIONS_MAX: usize = 4 << 20;
/// Number of combinations of parameter values that `compile` evaluates for one item. If a query needs more,
/// `compile` indexes fewer of its parameters.
pub const INDEX_COMBINATIONS_MAX: usize = 1_024;

/// A condition with its own regular expressions, for evaluation during compilation.
pub(super) struct Filter {
    program: ProgramBuffer,
    patterns: Patterns,
}

/// A filter with its program at hand. `ProgramBuffer::get` checks all bytes, so it is called once.
pub(super) struct FilterEvaluator<'f> {
    program: &'f ArchivedProgram,
    patterns: &'f Patterns,
}

impl Filter {
    /// # Errors
    /// The condition is larger than the limits of a site.
    pub(super) fn new(condition: &Condition) -> Result<Self, String> {
        let mut patterns = Vec::new();
        let program = condition.compile(&mut patterns).map_err(|error| error.to_string())?;
        let patterns = Patterns::new(&patterns).map_err(|error| error.to_string())?;
        Ok(Self { program: ProgramBuffer::new(&program), patterns })
    }

    pub(super) fn evaluator(&self) -> FilterEvaluator<'_> {
        FilterEvaluator { program: self.program.get(), patterns: &self.patterns }
    }
}

impl FilterEvaluator<'_> {
    /// Returns whether the condition holds for these fields and parameters.
    pub(super) fn holds(&self, root: Value<'_>, params: &[Option<Value<'_>>]) -> bool {
        let document = &EncodedDocument { root, now_ms: 0 };
        let memo = &mut Memo::default();
        Evaluator { document, audiences: &NoAudiences, patterns: self.patterns, params, memo }
            .holds(self.program)
    }
}

/// The parameters of a query and the conditions that use them.
pub(super) struct IndexInput<'q> {
    pub(super) params: &'q [Param],
    pub(super) conjuncts: &'q [Condition],
}

/// The precomputed part of a query.
pub(super) struct BuiltIndex {
    /// The index. Its positions refer to `kept`.
    pub(super) index: Index,
    /// The entries that at least one combination of values returns, in order.
    pub(super) kept: Vec<u32>,
    /// The conjuncts that need a scan.
    pub(super) scanned: Vec<usize>,
}

/// Builds an index over as many parameters as the limits allow.
pub(super) fn build_index(input: &IndexInput<'_>, entries: &[&Entry<'_>]) -> BuiltIndex {
    let mut indexed = input.indexable_params();
    loop {
        let (listed, scanned): (Vec<usize>, Vec<usize>) = (0..input.conjuncts.len())
            .partition(|at| input.conjuncts[*at].params().keys().all(|param| indexed.contains(param)));
        let used = listed.iter().flat_map(|at| input.conjuncts[*at].params().into_keys());
        indexed = used.collect();
        let building = IndexBuilder::new(input, &indexed, &listed, entries);
        match building.build_lists(entries) {
            Ok(lists) => return building.finish(lists, entries.len(), scanned),
            Err(TooLarge) => indexed.remove(&building.largest()),
        };
    }
}

impl IndexInput<'_> {
    /// Returns the parameters whose values are all known.
    fn indexable_params(&self) -> BTreeSet<u16> {
        let mut by_equality = BTreeMap::new();
        for (param, only) in self.conjuncts.iter().flat_map(Condition::params) {
            *by_equality.entry(param).or_insert(true) &= only;
        }
        let known = by_equality.into_iter().filter(|(param, only)| *only || self.is_finite(*param));
        known.map(|(param, _)| param).collect()
    }

    fn is_finite(&self, param_index: u16) -> bool {
        let param = &self.params[usize::from(param_index)];
        !param.values.is_empty() || param.kind == ParamKind::Boolean
    }

    /// Returns whether a request can leave the parameter without a value.
    fn may_be_absent(&self, param_index: u16) -> bool {
        let param = &self.params[usize::from(param_index)];
        param.optional && param.default.is_none()
    }
}

/// The index exceeds its limit on memory or time.
struct TooLarge;

struct IndexBuilder<'q> {
    input: &'q IndexInput<'q>,
    params: Vec<IndexedParam>,
    conjuncts: Vec<&'q Condition>,
    filter: Option<Filter>,
}

/// An indexed parameter.
struct IndexedParam {
    param: u16,
    /// The known values and the digit of each.
    values: BTreeMap<Vec<u8>, u64>,
    /// True if no other values are valid.
    finite: bool,
    /// True if a request can leave the parameter without a value.
    may_be_absent: bool,
    /// A value that differs from all known values.
    other: Vec<u8>,
}

/// A value of a parameter to try for one item; `None` is no value.
struct Choice<'b> {
    value: Option<&'b [u8]>,
    digits: Digits<'b>,
}

impl<'b> Choice<'b> {
    fn known(value: &'b [u8], digit: u64) -> Self {
        Self { value: Some(value), digits: Digits::One(digit) }
    }
}

/// The digits of a choice in the key of a combination.
enum Digits<'b> {
    One(u64),
    /// The digits of all known values except the item's own, and the digit for any other value.
    Others {
        of: &'b IndexedParam,
        own: Vec<u64>,
    },
}

const ABSENT_DIGIT: u64 = 0;
const OTHER_DIGIT: u64 = 1;
const FIRST_VALUE_DIGIT: u64 = 2;

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
                let last = of.values.len() as u64 + FIRST_VALUE_DIGIT;
                (OTHER_DIGIT..last).filter(|digit| !own.contains(digit)).collect()
            }
        }
    }
}

impl IndexedParam {
    fn new(input: &IndexInput<'_>, param_index: u16, item_values: BTreeSet<Vec<u8>>) -> Self {
        let declared = &input.params[usize::from(param_index)];
        let finite = input.is_finite(param_index);
        let values = if !finite {
            item_values
        } else if declared.values.is_empty() {
            [false, true].map(|flag| encode_value(&Json::from(flag))).into()
        } else {
            declared.values.iter().cloned().collect()
        };
        let values: BTreeMap<Vec<u8>, u64> = values.into_iter().zip(FIRST_VALUE_DIGIT..).collect();
        let other = value_unlike(declared.kind, &values);
        Self { param: param_index, values, finite, may_be_absent: input.may_be_absent(param_index), other }
    }

    fn base(&self) -> u64 {
        self.values.len() as u64 + FIRST_VALUE_DIGIT
    }

    /// Returns the values that an item with these values can distinguish.
    fn choices(&self, item_values: Option<&BTreeSet<Vec<u8>>>) -> Vec<Choice<'_>> {
        let mut choices: Vec<Choice<'_>> = if self.finite {
            self.values.iter().map(|(value, digit)| Choice::known(value, *digit)).collect()
        } else {
            let values = item_values.into_iter().flatten();
            let known = values.filter_map(|value| self.values.get_key_value(value));
            known.map(|(value, digit)| Choice::known(value, *digit)).collect()
        };
        if !self.finite {
            let own = choices.iter().flat_map(|choice| choice.digits.list()).collect();
            choices.push(Choice { value: Some(&self.other), digits: Digits::Others { of: self, own } });
        }
        if self.may_be_absent {
            choices.push(Choice { value: None, digits: Digits::One(ABSENT_DIGIT) });
        }
        choices
    }
}

impl<'q> IndexBuilder<'q> {
    fn new(
        input: &'q IndexInput<'q>,
        param_indexes: &BTreeSet<u16>,
        conjunct_indexes: &[usize],
        entries: &[&Entry<'_>],
    ) -> Self {
        let conjuncts: Vec<&Condition> = conjunct_indexes.iter().map(|at| &input.conjuncts[*at]).collect();
        let mut values: BTreeMap<u16, BTreeSet<Vec<u8>>> =
            param_indexes.iter().map(|param| (*param, BTreeSet::new())).collect();
        for entry in entries {
            for_each_equal_value(&conjuncts, entry, input, &mut |param, value| {
                values.entry(param).or_default().insert(value);
            });
        }
        let params =
            values.into_iter().map(|(param, values)| IndexedParam::new(input, param, values)).collect();
        let filter = Filter::new(&Condition::all(conjuncts.iter().map(|c| (*c).clone()))).ok();
        Self { input, params, conjuncts, filter }
    }

    /// Returns the parameter with the most values.
    fn largest(&self) -> u16 {
        let most = self.params.iter().max_by_key(|numbered| numbered.values.len());
        most.map_or(0, |numbered| numbered.param)
    }

    /// Returns the list of positions for each key.
    fn build_lists(&self, entries: &[&Entry<'_>]) -> Result<BTreeMap<u64, Vec<u32>>, TooLarge> {
        let mut bases = self.params.iter().map(IndexedParam::base);
        bases.try_fold(1u64, |product, base| product.checked_mul(base)).ok_or(TooLarge)?;
        let filter = self.filter.as_ref().ok_or(TooLarge)?.evaluator();
        let mut lists: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let mut positions = 0;
        let mut values = vec![None; self.input.params.len()];
        for (at, entry) in entries.iter().enumerate() {
            let choices = self.choices(entry);
            let combinations: usize = choices.iter().map(Vec::len).product();
            if combinations > INDEX_COMBINATIONS_MAX {
                return Err(TooLarge);
            }
            for combination in 0..combinations {
                let chosen = nth_combination(&choices, combination);
                for (numbered, choice) in self.params.iter().zip(&chosen) {
                    values[usize::from(numbered.param)] = choice.value.and_then(Value::decode);
                }
                if !filter.holds(entry.root(), &values) {
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

    /// Returns, for each parameter, the values that this item can distinguish.
    fn choices(&self, entry: &Entry<'_>) -> Vec<Vec<Choice<'_>>> {
        let mut own: BTreeMap<u16, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for_each_equal_value(&self.conjuncts, entry, self.input, &mut |param, value| {
            own.entry(param).or_default().insert(value);
        });
        self.params.iter().map(|numbered| numbered.choices(own.get(&numbered.param))).collect()
    }

    /// Returns all keys of these choices.
    fn keys(&self, choices: &[&Choice<'_>]) -> Vec<u64> {
        let mut keys = vec![0];
        for (numbered, choice) in self.params.iter().zip(choices) {
            let digits = choice.digits.list();
            let onward =
                |key: &u64| digits.iter().map(|digit| key * numbered.base() + digit).collect::<Vec<_>>();
            keys = keys.iter().flat_map(onward).collect();
        }
        keys
    }

    /// Removes the entries that no key returns, and renumbers the lists.
    fn finish(&self, lists: BTreeMap<u64, Vec<u32>>, entry_count: usize, scanned: Vec<usize>) -> BuiltIndex {
        let mut is_found = vec![false; entry_count];
        lists.values().flatten().for_each(|at| is_found[*at as usize] = true);
        let kept: Vec<u32> = (0..entry_count as u32).filter(|at| is_found[*at as usize]).collect();
        let mut renumbered = vec![0; entry_count];
        kept.iter().zip(0..).for_each(|(old, new)| renumbered[*old as usize] = new);
        let (keys, mut lists): (Vec<u64>, Vec<Vec<u32>>) = lists.into_iter().unzip();
        lists.iter_mut().flatten().for_each(|at| *at = renumbered[*at as usize]);
        let params = self.params.iter().map(|IndexedParam { param, values, .. }| {
            let texts = values.keys().zip(0..).map(|(value, at)| (at, &value[..]));
            let slots = hash_index::build(values.len(), texts);
            IndexParam { param: *param, slots, values: values.keys().cloned().collect() }
        });
        BuiltIndex { index: Index { params: params.collect(), keys, lists }, kept, scanned }
    }
}

/// Calls `visit` for each parameter value that is equal to a value of the entry and has the parameter's type.
fn for_each_equal_value(
    conjuncts: &[&Condition],
    entry: &Entry<'_>,
    input: &IndexInput<'_>,
    visit: &mut dyn FnMut(u16, Vec<u8>),
) {
    for conjunct in conjuncts {
        conjunct.each_equal_value(entry.root(), &mut |param, value| {
            let fits = match input.params[usize::from(param)].kind {
                ParamKind::Text => value.is_string(),
                ParamKind::Number => value.is_number(),
                ParamKind::Boolean => value.is_boolean(),
            };
            if fits {
                visit(param, encode_value(&value));
            }
        });
    }
}

/// Returns a value that is not equal to any of these. For a number or a boolean this is NaN, which equals
/// nothing.
fn value_unlike(kind: ParamKind, values: &BTreeMap<Vec<u8>, u64>) -> Vec<u8> {
    let mut out = Vec::new();
    match kind {
        ParamKind::Number | ParamKind::Boolean => condition::encode_scalar(Value::Number(f64::NAN), &mut out),
        ParamKind::Text => {
            let mut text = String::from("?");
            out = encode_value(&Json::from(text.as_str()));
            while values.contains_key(&out) {
                text.push('?');
                out = encode_value(&Json::from(text.as_str()));
            }
        }
    }
    out
}

/// Returns the combination with this number: one choice per parameter.
fn nth_combination<'c, 'b>(choices: &'c [Vec<Choice<'b>>], mut number: usize) -> Vec<&'c Choice<'b>> {
    let mut one = |of: &'c Vec<Choice<'b>>| {
        let at = number % of.len();
        number /= of.len();
        &of[at]
    };
    choices.iter().map(&mut one).collect()
}

/// Builds the columns for the bounds in these conjuncts.
pub(super) fn build_columns(
    params: &[Param],
    conjuncts: &[Condition],
    entries: &[&Entry<'_>],
) -> (Vec<Column>, Vec<ColumnBound>) {
    let mut known: Vec<(&str, ParamKind)> = Vec::new();
    let mut bounds = Vec::new();
    for bound in conjuncts.iter().filter_map(Condition::as_bound) {
        let column = (bound.path, params[usize::from(bound.param)].kind);
        let at = known.iter().position(|other| *other == column).unwrap_or(known.len());
        if at == known.len() {
            known.push(column);
        }
        bounds.push(ColumnBound { column: at as u16, param: bound.param, is_lower: bound.is_lower });
    }
    (known.into_iter().map(|(path, kind)| build_column(path, kind, entries)).collect(), bounds)
}

fn build_column(path: &str, kind: ParamKind, entries: &[&Entry<'_>]) -> Column {
    let mut sorted = Vec::new();
    let mut always = Vec::new();
    for (at, entry) in (0u32..).zip(entries) {
        let value = entry.get(path).unwrap_or(Value::Null);
        match (kind, value) {
            (ParamKind::Text, Value::String(text)) => sorted.push((text.as_bytes().to_vec(), at)),
            // A string is compared with other types as a number, if it is one.
            (ParamKind::Text, _) => always.push(at),
            // A value that is not a number is neither above nor below a number.
            _ => sorted.extend(to_number(value).map(|number| (order::number_key(number).to_vec(), at))),
        }
    }
    sorted.sort();
    let (keys, positions) = sorted.into_iter().unzip();
    Column { path: path.to_owned(), keys, positions, always }
}
