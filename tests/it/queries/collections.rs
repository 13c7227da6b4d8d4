//! Random collections, queries and what they are asked.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Map, Value as Json, json};

use super::{item, object};

/// A collection, queries over it by name, and questions.
#[derive(Debug, Clone)]
pub struct Case {
    pub items: Vec<Json>,
    pub queries: Map<String, Json>,
    pub questions: Vec<Question>,
}

#[derive(Debug, Clone)]
pub struct Question {
    /// The query's name.
    pub query: String,
    pub params: Map<String, Json>,
    pub limit: Option<usize>,
}

pub const PARAMS: [&str; 3] = ["p", "q", "r"];

/// What the generated queries compare with a parameter.
#[derive(Debug, Clone, Copy)]
enum Compares {
    ByEquality,
    Anyhow,
}

pub fn case() -> impl Strategy<Value = Case> {
    let queries = [query(Compares::ByEquality).boxed(), query(Compares::Anyhow).boxed(), range().boxed()];
    let queries = queries.prop_map(|queries| {
        ["equal", "free", "range"].map(str::to_owned).into_iter().zip(queries).collect::<Map<_, _>>()
    });
    (items(), queries, prop::collection::vec(picks(), 8)).prop_map(|(items, queries, picks)| {
        let questions = picks.iter().map(|picks| picks.question(&queries)).collect();
        Case { items, queries, questions }
    })
}

/// What makes a question, whatever the queries are.
#[derive(Debug, Clone)]
struct Picks {
    query: Index,
    params: [Option<Pick>; PARAMS.len()],
    limit: Option<usize>,
}

#[derive(Debug, Clone)]
struct Pick {
    text: Json,
    number: Json,
    flag: bool,
    listed: Index,
    /// In place of what the parameter takes.
    stray: Option<Json>,
}

fn picks() -> impl Strategy<Value = Picks> {
    let params = PARAMS.map(|_| option::weighted(0.8, pick()));
    (any::<Index>(), params, option::of(1..7_usize)).prop_map(|(query, params, limit)| Picks {
        query,
        params,
        limit,
    })
}

fn pick() -> impl Strategy<Value = Pick> {
    let stray = option::weighted(0.05, scalar(true));
    (text(), number(), any::<bool>(), any::<Index>(), stray)
        .prop_map(|(text, number, flag, listed, stray)| Pick { text, number, flag, listed, stray })
}

impl Picks {
    fn question(&self, queries: &Map<String, Json>) -> Question {
        let (name, query) = queries.iter().nth(self.query.index(queries.len())).expect("there are some");
        let given = PARAMS.into_iter().zip(&self.params);
        let params = given
            .filter_map(|(param, pick)| Some((param.to_owned(), pick.as_ref()?.of(&query["params"][param]))));
        Question { query: name.clone(), params: params.collect(), limit: self.limit }
    }
}

impl Pick {
    fn of(&self, param: &Json) -> Json {
        let typed = || match (param["enum"].as_array(), param["type"].as_str()) {
            (Some(values), _) => self.listed.get(values).clone(),
            (None, Some("string")) => self.text.clone(),
            (None, Some("number")) => self.number.clone(),
            _ => json!(self.flag),
        };
        self.stray.clone().unwrap_or_else(typed)
    }
}

/// Where texts, numbers and others mostly stand; any of them may have any value, or none.
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

/// Some begin others, hold zeros, look like numbers, or stand in another order in UTF-16.
fn text() -> impl Strategy<Value = Json> {
    const TEXTS: [&str; 12] =
        ["", "1", "-2.5", "a", "a\0", "ab", "b", "?", "??", "true", "\u{FFFD}", "\u{1F600}"];
    select(&TEXTS[..]).prop_map(Json::from)
}

fn number() -> impl Strategy<Value = Json> {
    select(vec![json!(0), json!(-0.0), json!(1), json!(-2.5), json!(2), json!(11), json!(-11)])
}

/// What a caller may give, or an item have.
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

fn query(compares: Compares) -> impl Strategy<Value = Json> {
    (PARAMS.map(|_| param().boxed()), clauses(compares), rest()).prop_map(with_rest)
}

/// Bounds on numbers, and now and then something beside.
fn range() -> impl Strategy<Value = Json> {
    let number = (option::of(-3..3), option::of(3..12)).prop_map(|(minimum, maximum)| {
        declared(json!({ "type": "number", "optional": true, "minimum": minimum, "maximum": maximum }))
    });
    let bounds = (select(vec!["n", "m", "o.x"]), select(vec!["$gt", "$gte"]), select(vec!["$lt", "$lte"]));
    let bounded = bounds.prop_map(
        |(path, lower, upper)| json!({ path: { lower: { "$param": "p" }, upper: { "$param": "q" } } }),
    );
    let equal = (select(vec!["t", "m", "b", "n"]), select(vec!["$eq", "$ne"]))
        .prop_map(|(path, operator)| json!({ path: { operator: { "$param": "r" } } }));
    let beside = prop_oneof![equal, Just(json!({})), clause(Compares::ByEquality)];
    let condition = (bounded, beside).prop_map(|(bounded, beside)| json!({ "$and": [bounded, beside] }));
    let params = [number.clone().boxed(), number.boxed(), param().boxed()];
    (params, condition, rest()).prop_map(with_rest)
}

fn with_rest((params, condition, mut query): ([Json; 3], Json, Json)) -> Json {
    query["params"] = object(PARAMS.map(str::to_owned).into_iter().zip(params));
    query["where"] = condition;
    query
}

/// Without what is null.
fn declared(mut param: Json) -> Json {
    param.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    param
}

fn param() -> impl Strategy<Value = Json> {
    let (texts, numbers) = (prop::collection::vec(text(), 1..4), prop::collection::vec(number(), 1..4));
    let optional = || prop::bool::weighted(0.7);
    let listed = prop_oneof![texts, numbers];
    prop_oneof![
        (text(), option::weighted(0.2, Just(())), optional()).prop_map(|(value, default, optional)| {
            declared(json!({ "type": "string", "default": default.map(|()| value), "optional": optional }))
        }),
        (option::of(number()), optional()).prop_map(|(default, optional)| {
            declared(json!({ "type": "number", "default": default, "optional": optional, "maximum": 11 }))
        }),
        (option::of(any::<bool>()), optional()).prop_map(|(default, optional)| {
            declared(json!({ "type": "boolean", "default": default, "optional": optional }))
        }),
        (listed, option::weighted(0.3, any::<Index>()), optional()).prop_map(
            |(values, default, optional)| {
                let kind = if values[0].is_string() { "string" } else { "number" };
                let default = default.map(|at| at.get(&values).clone());
                declared(json!({ "type": kind, "enum": values, "default": default, "optional": optional }))
            }
        ),
    ]
}

/// Everything but parameters and condition.
fn rest() -> impl Strategy<Value = Json> {
    let paths = vec!["t", "n", "b", "m", "l", "l.0", "o.x", "id", "none"];
    let order =
        (subsequence(paths, 0..4).prop_shuffle(), any::<[bool; 4]>()).prop_map(|(paths, descends)| {
            let signs = descends.map(|descends| if descends { "-" } else { "" });
            paths.iter().zip(signs).map(|(path, sign)| format!("{sign}{path}")).collect::<Vec<_>>()
        });
    let select = option::weighted(0.3, subsequence(vec!["t", "n", "l", "o", "none"], 0..4));
    (order, select, option::of(1..5)).prop_map(|(order, select, limit)| {
        declared(json!({ "collection": "c", "orderBy": order, "select": select, "limit": limit }))
    })
}

/// Conditions that the parameters stand in.
pub fn condition() -> impl Strategy<Value = Json> {
    clauses(Compares::Anyhow)
}

fn clauses(compares: Compares) -> impl Strategy<Value = Json> {
    let clauses = prop::collection::vec(clause(compares), 0..3);
    clauses.prop_map(|clauses| match &clauses[..] {
        [only] => only.clone(),
        _ => json!({ "$and": clauses }),
    })
}

fn clause(compares: Compares) -> impl Strategy<Value = Json> {
    let path = select(vec!["t", "n", "b", "m", "l", "o.x", "o.l", "o.l.0", "l.0", "o", "none"]);
    let leaf = (path, test(compares)).prop_map(|(path, test)| json!({ path: test }));
    leaf.prop_recursive(2, 8, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (select(vec!["$and", "$or", "$nor"]), several)
                .prop_map(|(operator, all)| json!({ operator: all })),
            inner.prop_map(|one| json!({ "$not": one })),
        ]
    })
}

/// What stands at a path.
fn test(compares: Compares) -> impl Strategy<Value = Json> {
    let lists = (select(vec!["$in", "$nin"]), prop::collection::vec(scalar(true), 0..3));
    let plain = prop_oneof![
        lists.prop_map(|(operator, list)| json!({ operator: list })),
        any::<bool>().prop_map(|there| json!({ "$exists": there })),
        Just(json!({ "$regex": "^a" })),
        (0..4).prop_map(|size| json!({ "$size": size })),
    ];
    let leaf = prop_oneof![8 => comparison(compares), 2 => plain];
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

/// A parameter in their place would become a value.
fn is_operators(test: &Json) -> bool {
    let members = test.as_object();
    members.is_some_and(|members| members.keys().all(|key| key.starts_with('$') && key != "$param"))
}

fn comparison(compares: Compares) -> impl Strategy<Value = Json> {
    let param = select(&PARAMS[..]).prop_map(|name| json!({ "$param": name }));
    let ordered = prop_oneof![text(), number()];
    let by_equality = (select(vec!["", "$eq", "$ne"]), prop_oneof![1 => scalar(true), 4 => param.clone()]);
    let by_order =
        (select(vec!["$gt", "$gte", "$lt", "$lte"]), prop_oneof![1 => ordered.clone(), 4 => param]);
    let by_plain_order = (select(vec!["$gt", "$gte", "$lt", "$lte"]), ordered);
    let by_order = match compares {
        Compares::ByEquality => by_plain_order.boxed(),
        Compares::Anyhow => by_order.boxed(),
    };
    prop_oneof![3 => by_equality, 2 => by_order].prop_map(|(operator, operand)| match operator {
        "" => operand,
        _ => json!({ operator: operand }),
    })
}
