//! Random collections, queries and requests.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Map, Value as Json, json};

use super::{item, object};

/// A collection, queries over it by name, and requests.
#[derive(Debug, Clone)]
pub struct Case {
    pub items: Vec<Json>,
    pub queries: Map<String, Json>,
    pub requests: Vec<QueryRequest>,
}

#[derive(Debug, Clone)]
pub struct QueryRequest {
    /// The name of the query.
    pub query: String,
    pub params: Map<String, Json>,
    pub limit: Option<usize>,
}

pub const PARAMS: [&str; 3] = ["p", "q", "r"];

/// The comparisons with a parameter in the generated queries.
#[derive(Debug, Clone, Copy)]
enum ParamComparison {
    Equality,
    Any,
}

pub fn case() -> impl Strategy<Value = Case> {
    let queries =
        [query(ParamComparison::Equality).boxed(), query(ParamComparison::Any).boxed(), range().boxed()];
    let queries = queries.prop_map(|queries| {
        ["equal", "free", "range"].map(str::to_owned).into_iter().zip(queries).collect::<Map<_, _>>()
    });
    (items(), queries, prop::collection::vec(request_choices(), 8)).prop_map(
        |(items, queries, request_choices)| {
            let requests =
                request_choices.iter().map(|request_choices| request_choices.request(&queries)).collect();
            Case { items, queries, requests }
        },
    )
}

/// Random choices that make a request of any query.
#[derive(Debug, Clone)]
struct RequestChoices {
    query: Index,
    params: [Option<ParamChoice>; PARAMS.len()],
    limit: Option<usize>,
}

#[derive(Debug, Clone)]
struct ParamChoice {
    text: Json,
    number: Json,
    flag: bool,
    enum_index: Index,
    /// A value that replaces the valid one, and may be invalid.
    replacement: Option<Json>,
}

fn request_choices() -> impl Strategy<Value = RequestChoices> {
    let params = PARAMS.map(|_| option::weighted(0.8, param_choice()));
    (any::<Index>(), params, option::of(1..7_usize)).prop_map(|(query, params, limit)| RequestChoices {
        query,
        params,
        limit,
    })
}

fn param_choice() -> impl Strategy<Value = ParamChoice> {
    let replacement = option::weighted(0.05, scalar(true));
    (text(), number(), any::<bool>(), any::<Index>(), replacement).prop_map(
        |(text, number, flag, enum_index, replacement)| ParamChoice {
            text,
            number,
            flag,
            enum_index,
            replacement,
        },
    )
}

impl RequestChoices {
    fn request(&self, queries: &Map<String, Json>) -> QueryRequest {
        let (name, query) = queries.iter().nth(self.query.index(queries.len())).expect("a query");
        let given = PARAMS.into_iter().zip(&self.params);
        let params = given.filter_map(|(param, param_choice)| {
            Some((param.to_owned(), param_choice.as_ref()?.value_for(&query["params"][param])))
        });
        QueryRequest { query: name.clone(), params: params.collect(), limit: self.limit }
    }
}

impl ParamChoice {
    fn value_for(&self, param: &Json) -> Json {
        let typed = || match (param["enum"].as_array(), param["type"].as_str()) {
            (Some(values), _) => self.enum_index.get(values).clone(),
            (None, Some("string")) => self.text.clone(),
            (None, Some("number")) => self.number.clone(),
            _ => json!(self.flag),
        };
        self.replacement.clone().unwrap_or_else(typed)
    }
}

/// Generates items. Each field mostly has a value of its type, and sometimes any value or none.
pub fn items() -> impl Strategy<Value = Vec<Json>> {
    let mostly = |home: BoxedStrategy<Json>| option::weighted(0.85, prop_oneof![4 => home, 1 => value()]);
    let fields = (
        mostly(text().boxed()),
        mostly(number().boxed()),
        mostly(any::<bool>().prop_map(Json::from).boxed()),
        mostly(scalar(true).boxed()),
        mostly(array().boxed()),
        mostly((scalar(true), array()).prop_map(|(x, l)| json!({ "x": x, "l": l })).boxed()),
    );
    let fields = fields.prop_map(|(t, n, b, m, l, o)| {
        let named = [("t", t), ("n", n), ("b", b), ("m", m), ("l", l), ("o", o)];
        object(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))))
    });
    let ids = prop::collection::hash_set("[ab1é\u{FFFD}\u{1F600}]{1,4}", 0..30);
    (ids, prop::collection::vec(fields, 30))
        .prop_map(|(ids, fields)| ids.iter().zip(fields).map(|(id, fields)| item(id, fields)).collect())
}

/// Texts that begin other texts, contain zeros, look like numbers, or have another order in UTF-16.
fn text() -> impl Strategy<Value = Json> {
    const TEXTS: [&str; 12] =
        ["", "1", "-2.5", "a", "a\0", "ab", "b", "?", "??", "true", "\u{FFFD}", "\u{1F600}"];
    select(&TEXTS[..]).prop_map(Json::from)
}

fn number() -> impl Strategy<Value = Json> {
    select(vec![json!(0), json!(-0.0), json!(1), json!(-2.5), json!(2), json!(11), json!(-11)])
}

/// A value that a caller may give or an item may have.
pub fn scalar(or_null: bool) -> impl Strategy<Value = Json> {
    let null = if or_null { json!(null) } else { json!(true) };
    prop_oneof![4 => text(), 4 => number(), 2 => any::<bool>().prop_map(Json::from), 1 => Just(null)]
}

fn array() -> impl Strategy<Value = Json> {
    let member = prop_oneof![3 => scalar(true), 1 => scalar(true).prop_map(|x| json!({ "x": x }))];
    prop::collection::vec(member, 0..4).prop_map(Json::from)
}

fn value() -> impl Strategy<Value = Json> {
    prop_oneof![2 => scalar(true), 1 => array(), 1 => scalar(true).prop_map(|x| json!({ "x": x }))]
}

fn query(comparison_kind: ParamComparison) -> impl Strategy<Value = Json> {
    (PARAMS.map(|_| param().boxed()), clauses(comparison_kind), query_options()).prop_map(build_query)
}

/// Generates a query with bounds on a number, sometimes with another clause.
fn range() -> impl Strategy<Value = Json> {
    let number = (option::of(-3..3), option::of(3..12)).prop_map(|(minimum, maximum)| {
        without_nulls(json!({ "type": "number", "optional": true, "minimum": minimum, "maximum": maximum }))
    });
    let bounds = (select(vec!["n", "m", "o.x"]), select(vec!["$gt", "$gte"]), select(vec!["$lt", "$lte"]));
    let bounded = bounds.prop_map(
        |(path, lower, upper)| json!({ path: { lower: { "$param": "p" }, upper: { "$param": "q" } } }),
    );
    let equal = (select(vec!["t", "m", "b", "n"]), select(vec!["$eq", "$ne"]))
        .prop_map(|(path, operator)| json!({ path: { operator: { "$param": "r" } } }));
    let beside = prop_oneof![equal, Just(json!({})), clause(ParamComparison::Equality)];
    let condition = (bounded, beside).prop_map(|(bounded, beside)| json!({ "$and": [bounded, beside] }));
    let params = [number.clone().boxed(), number.boxed(), param().boxed()];
    (params, condition, query_options()).prop_map(build_query)
}

fn build_query((params, condition, mut query): ([Json; 3], Json, Json)) -> Json {
    query["params"] = object(PARAMS.map(str::to_owned).into_iter().zip(params));
    query["where"] = condition;
    query
}

/// Removes the members that are null.
fn without_nulls(mut param: Json) -> Json {
    param.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    param
}

fn param() -> impl Strategy<Value = Json> {
    let (texts, numbers) = (prop::collection::vec(text(), 1..4), prop::collection::vec(number(), 1..4));
    let optional = || prop::bool::weighted(0.7);
    let enum_values = prop_oneof![texts, numbers];
    prop_oneof![
        (text(), option::weighted(0.2, Just(())), optional()).prop_map(|(value, default, optional)| {
            without_nulls(
                json!({ "type": "string", "default": default.map(|()| value), "optional": optional }),
            )
        }),
        (option::of(number()), optional()).prop_map(|(default, optional)| {
            without_nulls(
                json!({ "type": "number", "default": default, "optional": optional, "maximum": 11 }),
            )
        }),
        (option::of(any::<bool>()), optional()).prop_map(|(default, optional)| {
            without_nulls(json!({ "type": "boolean", "default": default, "optional": optional }))
        }),
        (enum_values, option::weighted(0.3, any::<Index>()), optional()).prop_map(
            |(values, default, optional)| {
                let kind = if values[0].is_string() { "string" } else { "number" };
                let default = default.map(|at| at.get(&values).clone());
                without_nulls(
                    json!({ "type": kind, "enum": values, "default": default, "optional": optional }),
                )
            }
        ),
    ]
}

/// Generates the members of a query except parameters and condition.
fn query_options() -> impl Strategy<Value = Json> {
    let paths = vec!["t", "n", "b", "m", "l", "l.0", "o.x", "id", "none"];
    let order =
        (subsequence(paths, 0..4).prop_shuffle(), any::<[bool; 4]>()).prop_map(|(paths, descends)| {
            let signs = descends.map(|descends| if descends { "-" } else { "" });
            paths.iter().zip(signs).map(|(path, sign)| format!("{sign}{path}")).collect::<Vec<_>>()
        });
    let select = option::weighted(0.3, subsequence(vec!["t", "n", "l", "o", "none"], 0..4));
    (order, select, option::of(1..5)).prop_map(|(order, select, limit)| {
        without_nulls(json!({ "collection": "c", "orderBy": order, "select": select, "limit": limit }))
    })
}

/// Generates conditions that use the parameters.
pub fn condition() -> impl Strategy<Value = Json> {
    clauses(ParamComparison::Any)
}

fn clauses(comparison_kind: ParamComparison) -> impl Strategy<Value = Json> {
    let clauses = prop::collection::vec(clause(comparison_kind), 0..3);
    clauses.prop_map(|clauses| match &clauses[..] {
        [only] => only.clone(),
        _ => json!({ "$and": clauses }),
    })
}

fn clause(comparison_kind: ParamComparison) -> impl Strategy<Value = Json> {
    let path = select(vec!["t", "n", "b", "m", "l", "o.x", "o.l", "o.l.0", "l.0", "o", "none"]);
    let leaf = (path, test(comparison_kind)).prop_map(|(path, test)| json!({ path: test }));
    leaf.prop_recursive(2, 8, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (select(vec!["$and", "$or", "$nor"]), several)
                .prop_map(|(operator, all)| json!({ operator: all })),
            inner.prop_map(|one| json!({ "$not": one })),
        ]
    })
}

/// Generates the test for one path.
fn test(comparison_kind: ParamComparison) -> impl Strategy<Value = Json> {
    let lists = (select(vec!["$in", "$nin"]), prop::collection::vec(scalar(true), 0..3));
    let plain = prop_oneof![
        lists.prop_map(|(operator, list)| json!({ operator: list })),
        any::<bool>().prop_map(|there| json!({ "$exists": there })),
        Just(json!({ "$regex": "^a" })),
        (0..4).prop_map(|size| json!({ "$size": size })),
    ];
    let leaf = prop_oneof![8 => comparison(comparison_kind), 2 => plain];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|test| json!({ "$not": test })),
            inner.clone().prop_map(|test| json!({ "$elemMatch": { "x": test } })),
            inner
                .clone()
                .prop_filter("operators", is_operators)
                .prop_map(|test| { json!({ "$elemMatch": test }) }),
            inner.prop_filter("operators", is_operators).prop_map(|test| json!({ "$size": test })),
        ]
    })
}

/// Returns whether `test` has only operators. A parameter in this place would be a value.
fn is_operators(test: &Json) -> bool {
    let members = test.as_object();
    members.is_some_and(|members| members.keys().all(|key| key.starts_with('$') && key != "$param"))
}

fn comparison(comparison_kind: ParamComparison) -> impl Strategy<Value = Json> {
    let param = select(&PARAMS[..]).prop_map(|name| json!({ "$param": name }));
    let ordered = prop_oneof![text(), number()];
    let by_equality = (select(vec!["", "$eq", "$ne"]), prop_oneof![1 => scalar(true), 4 => param.clone()]);
    let by_order =
        (select(vec!["$gt", "$gte", "$lt", "$lte"]), prop_oneof![1 => ordered.clone(), 4 => param]);
    let by_plain_order = (select(vec!["$gt", "$gte", "$lt", "$lte"]), ordered);
    let by_order = match comparison_kind {
        ParamComparison::Equality => by_plain_order.boxed(),
        ParamComparison::Any => by_order.boxed(),
    };
    prop_oneof![3 => by_equality, 2 => by_order].prop_map(|(operator, operand)| match operator {
        "" => operand,
        _ => json!({ operator: operand }),
    })
}
