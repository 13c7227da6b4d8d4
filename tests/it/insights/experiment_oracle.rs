//! The visitors and sums of an experiment, compared with a naive count over all records.

use std::collections::BTreeMap;

use parallax::testing::insights::{ExperimentQuestion, Filters};
use parallax::testing::record::RecordKind;
use parallax::testing::site::experiment_metrics::Cap;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::Event;
use super::experiments::{HOUR_MS, START_MS, ask_columns, columns, parse_known, unknown};
use super::visitor_rule::{is_of_visit, visitor_of};

const HALF_HOUR_MS: i64 = HOUR_MS / 2;

/// Generates events of few visitors and users, with and without an anonymous ID.
fn any_event() -> impl Strategy<Value = Event> {
    let kinds =
        [RecordKind::Page, RecordKind::Page, RecordKind::Track, RecordKind::Screen, RecordKind::Identify];
    let ids = (
        select(vec![Some("1"), Some("2"), Some("3"), Some("4"), None]),
        select(vec![None, None, Some("u"), Some("w")]),
        select(vec!["acme", "acme", "acme", "other"]),
        proptest::bool::weighted(0.1),
    );
    let texts = (
        select(vec![None, Some("Order Placed"), Some("Viewed")]),
        select(vec![None, Some("/"), Some("/a")]),
        select(vec![
            None,
            None,
            Some("cta:b"),
            Some("cta:b,x:b"),
            Some("cta:default"),
            Some("cta:~"),
            Some("x:b"),
        ]),
        select(vec![None, None, Some("news")]),
        select(vec![None, Some("DE"), Some("NO")]),
        select(vec!["{}", r#"{"properties":{"revenue":2}}"#, r#"{"properties":{"revenue":"x"}}"#]),
    );
    (select(kinds.to_vec()), -20..60_i64, ids, texts).prop_map(|(kind, step, ids, texts)| {
        let (anon_id, user_id, site, bot) = ids;
        let (event, path, experiments, source, country, payload) = texts;
        let base = Event { site, anon_id, user_id, bot, ..Event::page(START_MS + step * HALF_HOUR_MS) };
        let touch = [source, None, None];
        Event { kind, event, path, experiments, touch, country, payload: payload.to_owned(), ..base }
    })
}

fn any_query() -> impl Strategy<Value = String> {
    let filters =
        ["country=DE", "country=NO", "page=/", "page=/a", "source=news", "source=(direct)", "bots=include"];
    let others = [
        "window=2h",
        "window=1d",
        "cap=3",
        "cap=none",
        "cap=p50",
        "cap=p75.5",
        "by=hour",
        "by=segment:country",
        "by=segment:source",
        "by=segment:new",
        "more=page:/a",
        "more=Viewed",
        "more=event:screen",
    ];
    let some = |from: &[&'static str]| proptest::collection::btree_set(select(from.to_vec()), 0..3);
    (some(&filters), some(&others)).prop_map(|(filters, others)| {
        let named = filters.into_iter().chain(others).filter(|pair| !pair.is_empty());
        let named: BTreeMap<&str, &str> = named.filter_map(|pair| pair.split_once('=')).collect();
        let pairs = named.into_iter().map(|(name, value)| format!("&{name}={value}"));
        pairs.collect()
    })
}

/// The records that count, in the order of their seqs.
struct Naive<'e> {
    events: Vec<&'e Event>,
    /// The visitors of the events.
    visitors: Vec<Option<String>>,
    question: &'e ExperimentQuestion,
}

impl<'e> Naive<'e> {
    fn new(events: &'e [Event], question: &'e ExperimentQuestion) -> Self {
        let counts = |event: &Event| event.site == "acme" && (question.bots || !event.bot);
        let counted = (0..events.len()).filter(|at| counts(&events[*at]));
        let counted = counted.map(|at| (&events[at], visitor_of(events, at)));
        let (events, visitors) = counted.unzip();
        Self { events, visitors, question }
    }

    /// Returns the indices of a visitor's events before the end of the range, by time.
    fn of_visitor(&self, visitor: &str) -> Vec<usize> {
        let is_own = |at: &usize| {
            let event = self.events[*at];
            event.time_ms < self.question.range.end && self.visitors[*at].as_deref() == Some(visitor)
        };
        let mut own: Vec<usize> = (0..self.events.len()).filter(is_own).collect();
        own.sort_by_key(|at| (self.events[*at].time_ms, *at));
        own
    }

    fn arm(event: &Event) -> Option<&'static str> {
        let is_kind = matches!(event.kind, RecordKind::Page | RecordKind::Track);
        let experiments = event.experiments.filter(|_| is_kind)?;
        experiments.split(',').find_map(|pair| pair.strip_prefix("cta:"))
    }

    /// Returns the page, track and screen events of the visit of an event. Empty without a visit.
    fn visit_of(&self, own: &[usize], first: usize) -> Vec<usize> {
        let (mut visit, mut visits, mut last_ms) = (0, BTreeMap::<usize, Vec<usize>>::new(), None);
        let mut of_first = 0;
        for at in own {
            let event = self.events[*at];
            if !matches!(event.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen) {
                continue;
            }
            let gap = last_ms.map(|last_ms| event.time_ms - last_ms);
            let mut number = visit;
            if is_of_visit(event) {
                visit += usize::from(gap.is_none_or(|gap| gap > HALF_HOUR_MS));
                (number, last_ms) = (visit, Some(event.time_ms));
            } else if gap.is_none_or(|gap| gap > 30 * 48 * HALF_HOUR_MS) {
                number = 0;
            }
            if *at == own[first] {
                of_first = number;
            }
            visits.entry(number).or_default().push(*at);
        }
        visits.remove(&of_first).filter(|_| of_first > 0).unwrap_or_default()
    }

    fn passes(&self, own: &[usize], first: usize) -> bool {
        let Filters { page, country, source, .. } = &self.question.filters;
        let event = self.events[own[first]];
        let accepts = |filter: &[String], text: Option<&str>| {
            filter.is_empty() || text.is_some_and(|text| filter.iter().any(|value| value == text))
        };
        accepts(page, event.path)
            && accepts(country, event.country)
            && accepts(source, self.source(own, first))
    }

    /// Returns the source of the visit of an event.
    fn source(&self, own: &[usize], first: usize) -> Option<&'static str> {
        let page = self.visit_of(own, first).into_iter().find(|at| self.events[*at].kind == RecordKind::Page);
        page.map(|at| self.events[at].touch[0].unwrap_or("(direct)"))
    }

    /// Returns the segment of each dimension, such as `country DE`.
    fn segments(&self, own: &[usize], first: usize) -> [String; 3] {
        let exposure = own[first];
        let is_earlier = |at: &usize| {
            let event = self.events[*at];
            *at < exposure
                && event.time_ms < self.events[exposure].time_ms
                && matches!(event.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen)
        };
        let new = if own.iter().any(is_earlier) { "returning" } else { "new" };
        let country = self.events[exposure].country;
        [("country", country), ("source", self.source(own, first)), ("new", Some(new))]
            .map(|(dimension, value)| format!("{dimension} {}", value.unwrap_or("null")))
    }

    /// Returns the number of exposed visitors by arm, and of `both` and `earlier`, and the sums of each metric by arm.
    fn count(&self, metrics: &[(String, bool)]) -> (BTreeMap<&'static str, u64>, BTreeMap<String, Value>) {
        let (mut counts, mut sums) = (BTreeMap::new(), BTreeMap::new());
        let (mut counted, mut before, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        let visitors: std::collections::BTreeSet<String> = self.visitors.iter().flatten().cloned().collect();
        for visitor in visitors {
            let own = self.of_visitor(&visitor);
            let shown: Vec<usize> =
                (0..own.len()).filter(|at| Self::arm(self.events[own[*at]]).is_some()).collect();
            let Some(first) = shown.first().copied().filter(|first| self.passes(&own, *first)) else {
                continue;
            };
            let event = |at: usize| self.events[own[at]];
            let first_ms = event(first).time_ms;
            if first_ms < self.question.range.start {
                let is_in = shown.iter().any(|at| event(*at).time_ms >= self.question.range.start);
                *counts.entry("earlier").or_default() += u64::from(is_in);
                continue;
            }
            let arm = Self::arm(event(first)).expect("an arm");
            if shown.iter().any(|at| Self::arm(event(*at)) != Some(arm)) {
                *counts.entry("both").or_default() += 1;
                continue;
            }
            *counts.entry(arm).or_default() += 1;
            for (number, (goal, is_value)) in metrics.iter().enumerate() {
                counted.push((number, arm, self.sums(&visitor, first_ms, goal, *is_value)));
                segments.push(self.segments(&own, first));
                before.push(self.before(&visitor, own[first], goal, *is_value));
            }
        }
        let cap = self.cap(&counted);
        for (((number, arm, [visitors, converted, value, ignored]), [earlier, active]), segments) in
            counted.into_iter().zip(before).zip(segments)
        {
            let is_value = metrics[number].1;
            let (y, x) = if is_value { (value.min(cap), earlier.min(cap)) } else { (converted, earlier) };
            let added = [
                visitors,
                converted,
                y,
                ignored,
                i64::from(value > cap),
                active,
                x,
                x * x,
                x * y,
                y * active,
            ];
            let of_segments = segments.iter().map(|segment| format!("{segment} {number} {arm}"));
            for key in of_segments.chain([format!("{number} {arm}")]) {
                let sum = sums.entry(key).or_insert_with(|| [0_i64; 10]);
                sum.iter_mut().zip(added).for_each(|(sum, added)| *sum += added);
            }
        }
        (counts, sums.into_iter().map(|(key, sums)| (key, json!(sums))).collect())
    }

    /// Returns the limit of the values of visitors. Values of the holdout do not set it.
    fn cap(&self, counted: &[(usize, &str, [i64; 4])]) -> i64 {
        let thousandths = match self.question.cap {
            Cap::None => return i64::MAX,
            Cap::Units(units) => return units / 10_000,
            Cap::Quantile(thousandths) => usize::from(thousandths),
        };
        let in_arms = counted.iter().filter(|(_, arm, sums)| *arm != "~" && sums[2] > 0);
        let mut values: Vec<i64> = in_arms.map(|(_, _, sums)| sums[2]).collect();
        values.sort_unstable();
        let rank = (thousandths * values.len()).div_ceil(1_000).min(values.len().saturating_sub(1));
        if rank == 0 { i64::MAX } else { values[rank - 1] }
    }

    /// Returns the visitor, whether it converted, its value before the cap, and the ignored amounts.
    fn sums(&self, visitor: &str, first_ms: i64, goal: &str, is_value: bool) -> [i64; 4] {
        let question = self.question;
        let until_ms =
            question.window_ms.map_or(i64::MAX, |window_ms| first_ms + window_ms).min(question.range.end);
        let goals = (0..self.events.len()).filter(|at| {
            let event = self.events[*at];
            (first_ms..until_ms).contains(&event.time_ms)
                && reaches(event, goal)
                && self.visitors[*at].as_deref() == Some(visitor)
        });
        let goals: Vec<&Event> = goals.map(|at| self.events[at]).collect();
        let has = |text: &str| goals.iter().filter(|event| event.payload.contains(text)).count() as i64;
        let (value, ignored) = if is_value { (2 * has(":2}"), has("\"x\"")) } else { (0, 0) };
        [1, i64::from(!goals.is_empty()), value, ignored]
    }

    /// Returns the value of a visitor in the 14 days before its first exposure, and 1 if it had any page, track or screen
    /// event then. Only events before the exposure in the log count.
    fn before(&self, visitor: &str, exposure: usize, goal: &str, is_value: bool) -> [i64; 2] {
        let first_ms = self.events[exposure].time_ms;
        let is_before = |at: &usize| {
            let event = self.events[*at];
            (first_ms - 14 * 24 * HOUR_MS..first_ms).contains(&event.time_ms)
                && matches!(event.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen)
                && self.visitors[*at].as_deref() == Some(visitor)
        };
        let earlier: Vec<&Event> = (0..exposure).filter(is_before).map(|at| self.events[at]).collect();
        let goals = earlier.iter().filter(|event| reaches(event, goal));
        let value = match is_value {
            true => 2 * goals.filter(|event| event.payload.contains(":2}")).count() as i64,
            false => i64::from(goals.count() > 0),
        };
        [value, i64::from(!earlier.is_empty())]
    }
}

/// Returns whether an event reaches a goal.
fn reaches(event: &Event, goal: &str) -> bool {
    match goal.strip_prefix("page:") {
        Some(path) => event.kind == RecordKind::Page && event.path == Some(path),
        None => match event.kind {
            RecordKind::Track => event.event == Some(goal),
            RecordKind::Screen => goal == "event:screen",
            _ => false,
        },
    }
}

/// Returns the sums of an arm in the order of the naive count.
fn sums_of(arm: &Value) -> Value {
    let whole = |sum: &Value| json!(sum.as_f64().expect("a sum") as i64);
    let before = &arm["before"];
    let of_before = ["sum", "sumOfSquares", "sumOfProducts", "sumOfActive"].map(|name| whole(&before[name]));
    let [sum, squares, products, of_active] = of_before;
    json!([
        arm["n"],
        arm["converted"],
        whole(&arm["sum"]),
        arm["ignoredAmounts"],
        arm["capped"],
        before["active"],
        sum,
        squares,
        products,
        of_active,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_experiment_equals_a_naive_count(
        events in proptest::collection::vec(any_event(), 1..100),
        per_file in 1..60_usize,
        query in any_query(),
        memory_bytes in select(vec![6_000, 40_000, 1 << 30]),
    ) {
        let named = Event { site: "acme", bot: true, experiments: Some("cta:b"), ..Event::page(START_MS - HOUR_MS * 99) };
        let events: Vec<Event> = events.into_iter().chain([named]).collect();
        let query = format!("key=cta&from=2026-01-05&to=2026-01-06&goal=Order Placed&value=properties.revenue{query}");
        let question = parse_known(&query, unknown).expect("a question");
        let answer = ask_columns(&columns(&events, per_file), &question, memory_bytes).expect("an answer");
        let metrics: Vec<(String, bool)> = answer["metrics"].as_array().expect("metrics").iter()
            .map(|metric| (metric["goal"].as_str().expect("a goal").to_owned(), !metric["value"].is_null()))
            .collect();
        let (counts, sums) = Naive::new(&events, &question).count(&metrics);
        let count = |key: &str| json!(counts.get(key).copied().unwrap_or_default());
        prop_assert_eq!(&answer["both"], &count("both"), "{}", query);
        prop_assert_eq!(&answer["earlier"], &count("earlier"), "{}", query);
        prop_assert_eq!(&answer["holdout"]["exposed"], &count("~"), "{}", query);
        for arm in answer["arms"].as_array().expect("arms") {
            let key = arm["key"].as_str().expect("a key");
            prop_assert_eq!(&arm["exposed"], &count(key), "{}", query);
            let of_series: u64 = answer["series"]["exposed"][key].as_array().expect("a series").iter().filter_map(Value::as_u64).sum();
            prop_assert_eq!(json!(of_series), count(key));
        }
        for (number, metric) in answer["metrics"].as_array().expect("metrics").iter().enumerate() {
            let mut ignored = 0;
            for arm in metric["arms"].as_array().expect("arms").iter().chain([&json!({"key": "~"})]) {
                let arm = if arm["key"] == "~" { &metric["holdout"] } else { arm };
                let key = arm["key"].as_str().unwrap_or("~");
                let expected = sums.get(&format!("{number} {key}")).cloned().unwrap_or(json!([0_i64; 10].to_vec()));
                prop_assert_eq!(sums_of(arm), expected, "{} {}", key, query);
                ignored += arm["ignoredAmounts"].as_u64().expect("a number");
            }
            prop_assert_eq!(&metric["ignoredAmounts"], &json!(ignored));
        }
        for dimension in answer["segments"].as_array().expect("segments") {
            let name = dimension["segment"].as_str().expect("a name");
            let mut found = BTreeMap::new();
            for segment in dimension["values"].as_array().expect("values") {
                let value = segment["value"].as_str().unwrap_or("null");
                for (number, metric) in segment["metrics"].as_array().expect("metrics").iter().enumerate() {
                    for arm in metric["arms"].as_array().expect("arms").iter().filter(|arm| arm["n"] != 0) {
                        let key = arm["key"].as_str().expect("a key");
                        found.insert(format!("{name} {value} {number} {key}"), sums_of(arm));
                    }
                }
            }
            let prefix = format!("{name} ");
            let expected = sums.iter().filter(|(key, _)| key.starts_with(&prefix) && !key.ends_with('~'));
            prop_assert_eq!(found, expected.map(|(key, sums)| (key.clone(), sums.clone())).collect(), "{}", query);
        }
    }
}
