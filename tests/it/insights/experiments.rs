//! Experiments: exposed visitors, and the sums of their metrics.

use parallax::testing::insights::{
    ColumnBuilder, Columns, CountedLog, ExperimentQuestion, KnownExperiment, Limits, METRICS_MAX, Query,
    ScanError, SiteFacts, Zone, answer_over,
};
use parallax::testing::record::RecordKind;
use serde_json::{Value, json};

pub(super) use super::oracle::{HOUR_MS, START_MS};
use super::{Event, KEY};

/// Returns an experiment that only events name.
pub(super) fn unknown(key: &str) -> KnownExperiment {
    KnownExperiment { key: key.to_owned(), ..KnownExperiment::default() }
}

fn parse(query: &str) -> Result<ExperimentQuestion, (String, &'static str)> {
    parse_known(query, unknown)
}

pub(super) fn parse_known(
    query: &str,
    find: impl FnOnce(&str) -> KnownExperiment,
) -> Result<ExperimentQuestion, (String, &'static str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').expect("a value"));
    ExperimentQuestion::parse(pairs, &Zone::utc(), START_MS + 20 * 24 * HOUR_MS, find)
        .map_err(|error| (error.param, error.kind.code))
}

pub(super) fn site() -> SiteFacts {
    SiteFacts::unpublished("acme")
}

/// Returns the columns of events, in files of at most this many.
pub(super) fn columns(events: &[Event], per_file: usize) -> Vec<Columns> {
    let file = |events: &[Event]| {
        let mut builder = ColumnBuilder::new(1, KEY);
        events.iter().for_each(|event| event.with_record(|record| builder.add(record)));
        Columns::from_bytes(builder.to_bytes(9)).expect("an intact file")
    };
    events.chunks(per_file.max(1)).map(file).collect()
}

/// Asks over columns.
pub(super) fn ask_columns(
    files: &[Columns],
    question: &ExperimentQuestion,
    memory_bytes: u64,
) -> Result<Value, ScanError> {
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes, is_over: &|| false };
    let query = Query::Experiment(Box::new(question.clone()));
    let answer =
        answer_over(&files, CountedLog::alone(9), &query, &site(), START_MS + 20 * 24 * HOUR_MS, &limits);
    answer.map(|answer| answer.document)
}

/// Returns the answer over the events, in two files that are counted in several passes.
fn ask(events: &[Event], query: &str) -> Value {
    let question = parse(&format!("key=cta&from=2026-01-05&to=2026-01-20&{query}")).expect("a question");
    ask_columns(&columns(events, events.len().div_ceil(2)), &question, 1_000).expect("an answer")
}

pub(super) fn exposure(visitor: &'static str, hours: i64, experiments: &'static str) -> Event {
    let page = Event::page(START_MS + hours * HOUR_MS);
    Event { anon_id: Some(visitor), experiments: Some(experiments), ..page }
}

pub(super) fn order(
    anon_id: Option<&'static str>,
    user_id: Option<&'static str>,
    hours: i64,
    revenue: &str,
) -> Event {
    let payload = format!(r#"{{"properties":{{"revenue":{revenue}}}}}"#);
    let event = Some("Order Placed");
    Event {
        kind: RecordKind::Track,
        event,
        anon_id,
        user_id,
        payload,
        ..Event::page(START_MS + hours * HOUR_MS)
    }
}

#[test]
fn a_visitor_counts_in_its_arm_from_its_first_exposure_on() {
    let identify = Event { kind: RecordKind::Identify, ..exposure("a", 2, "") };
    let events = [
        exposure("a", 1, "other:x,cta:default"),
        order(Some("a"), None, 0, "100"),
        order(Some("a"), None, 1, "7.25"),
        Event { user_id: Some("u"), experiments: None, ..identify },
        // The server sends this order without the anonymous ID.
        order(None, Some("u"), 3, "\"2.75\""),
        order(Some("a"), None, 4, "\"free\""),
        order(Some("a"), None, 26, "1000"),
        exposure("b", 1, "cta:b"),
        exposure("b", 5, "cta:b"),
        // Two arms, an arm and the holdout, an exposure before the range, the holdout, no exposure.
        exposure("both", 1, "cta:b"),
        exposure("both", 2, "cta:default"),
        exposure("held", 1, "cta:b"),
        exposure("held", 2, "cta:~"),
        exposure("early", -1, "cta:b"),
        exposure("early", 1, "cta:b"),
        exposure("out", 1, "cta:~"),
        exposure("none", 1, "cta-2:b"),
        order(Some("none"), None, 2, "5"),
    ];
    let answer = ask(&events, "goal=Order+Placed".replace('+', " ").as_str());
    assert_eq!(
        answer["arms"],
        json!([{"key": "b", "weight": null, "exposed": 1}, {"key": "default", "weight": null, "exposed": 1}])
    );
    assert_eq!(
        [&answer["both"], &answer["earlier"], &answer["holdout"]["exposed"]],
        [&json!(2), &json!(1), &json!(1)]
    );
    let answer = ask(&events, "goal=Order Placed&value=properties.revenue&window=24h");
    let sums = |metric: usize, arm: usize| {
        let sums = &answer["metrics"][metric]["arms"][arm];
        json!([sums["n"], sums["converted"], sums["sum"], sums["sumOfSquares"], sums["ignoredAmounts"]])
    };
    assert_eq!(sums(0, 1), json!([1, 1, 1.0, 1.0, 0]));
    assert_eq!(sums(1, 1), json!([1, 1, 10.0, 100.0, 1]));
    assert_eq!(sums(1, 0), json!([1, 0, 0.0, 0.0, 0]));
    let capped = ask(&events, "goal=Order Placed&value=properties.revenue&cap=12.5");
    let sums = &capped["metrics"][1]["arms"][1];
    assert_eq!([&sums["sum"], &sums["capped"]], [&json!(12.5), &json!(1)]);
}

#[test]
fn a_tie_counts_until_the_anonymous_id_is_tied_to_another_user() {
    let tie = |user_id, hours| Event {
        kind: RecordKind::Identify,
        user_id: Some(user_id),
        experiments: None,
        ..exposure("a", hours, "")
    };
    let events = [
        exposure("a", 0, "cta:b"),
        order(None, Some("u"), 1, "1"),
        tie("u", 2),
        order(None, Some("u"), 3, "20"),
        tie("w", 4),
        order(None, Some("u"), 5, "300"),
        order(None, Some("w"), 6, "4000"),
    ];
    let answer = ask(&events, "goal=Order Placed&value=properties.revenue");
    assert_eq!(answer["metrics"][1]["arms"][0]["sum"], json!(4020.0));
}

#[test]
fn goals_are_events_or_pages() {
    let events = [
        exposure("a", 0, "cta:b"),
        Event { path: Some("/thanks"), anon_id: Some("a"), ..Event::page(START_MS + 1) },
    ];
    let converted =
        |goal: &str| ask(&events, &format!("goal={goal}"))["metrics"][0]["arms"][0]["converted"].clone();
    assert_eq!(converted("page:/thanks"), json!(1));
    assert_eq!(converted("/thanks"), json!(0));
    assert_eq!(converted("event:page:/thanks"), json!(0));
    let guardrail = &ask(&events, "guardrail=page:/thanks:0.02:lower")["metrics"][0];
    let members = ["role", "goal", "margin", "lowerIsBetter", "kind"].map(|name| &guardrail[name]);
    assert_eq!(
        members,
        [&json!("guardrail"), &json!("page:/thanks"), &json!(0.02), &json!(true), &json!("proportion")]
    );
}

#[test]
fn wrong_parameters_are_refused() {
    for (query, param, code) in [
        ("goal=x", "key", "invalid_param"),
        ("key=a:b", "key", "invalid_param"),
        ("key=a&key=b", "key", "repeated_param"),
        ("key=a&window=0d", "window", "invalid_param"),
        ("key=a&window=14", "window", "invalid_param"),
        ("key=a&window=1w", "window", "invalid_param"),
        ("key=a&goal=page:thanks", "goal", "invalid_param"),
        ("key=a&goal=event:", "goal", "invalid_param"),
        ("key=a&more=page:x", "more", "invalid_param"),
        ("key=a&event=Order Placed", "event", "invalid_param"),
        ("key=a&variant=hero:x", "variant", "invalid_param"),
        ("key=a&device=phone", "device", "invalid_param"),
        ("key=a&by=minute", "by", "invalid_param"),
        ("key=a&by=hour&from=2020-01-01", "by", "invalid_param"),
        ("key=a&by=hour&by=day", "by", "repeated_param"),
        ("key=a&by=segment:browser", "by", "invalid_param"),
        ("key=a&by=segment:", "by", "invalid_param"),
        ("key=a&from=2026-01-01&from=2026-01-02", "from", "repeated_param"),
        ("key=a&lift=0", "lift", "invalid_param"),
        ("key=a&lift=0.1&power=1", "power", "invalid_param"),
        ("key=a&cap=-1", "cap", "invalid_param"),
        ("key=a&cap=0", "cap", "invalid_param"),
        ("key=a&cap=0.00004", "cap", "invalid_param"),
        ("key=a&cap=100000000000", "cap", "invalid_param"),
        ("key=a&cap=p49.9", "cap", "invalid_param"),
        ("key=a&cap=p100", "cap", "invalid_param"),
        ("key=a&cap=p99.99", "cap", "invalid_param"),
        ("key=a&cap=p9", "cap", "invalid_param"),
        ("key=a&cap=None", "cap", "invalid_param"),
        ("key=a&value=properties.revenue", "value", "invalid_param"),
        ("key=a&goal=x&value=price", "value", "invalid_param"),
        ("key=a&goal=page:/x&value=properties.revenue", "value", "invalid_param"),
        ("key=a&guardrail=Refund", "guardrail", "invalid_param"),
        ("key=a&guardrail=Refund:0", "guardrail", "invalid_param"),
        ("key=a&guardrail=Refund:1.01", "guardrail", "invalid_param"),
        ("key=a&guardrail=page:x:0.1", "guardrail", "invalid_param"),
        ("key=a&guardrail=Refund:-1:lower", "guardrail", "invalid_param"),
        ("key=a&from=2026-01-05&to=2026-01-05", "from", "invalid_param"),
    ] {
        assert_eq!(parse(query).err(), Some((param.to_owned(), code)), "{query}");
    }
}

#[test]
fn a_question_has_at_most_32_metrics() {
    let query = |count: usize| format!("key=a{}", "&more=x".repeat(count));
    assert!(parse(&query(METRICS_MAX - 1)).is_ok());
    assert!(parse(&query(METRICS_MAX)).is_ok());
    assert_eq!(parse(&query(METRICS_MAX + 1)).err(), Some(("more".to_owned(), "invalid_param")));
}

/// Names of visitors, which live as long as the tests.
pub(super) fn visitors(arm: &str, count: usize) -> Vec<&'static str> {
    (0..count).map(|number| &*format!("{arm}{number}").leak()).collect()
}

/// Returns 400 visitors of each of two arms, of which 40 and 120 place an order.
pub(super) fn told_apart() -> Vec<Event> {
    let mut events = Vec::new();
    for (arm, experiments, buyers) in [("a", "cta:default", 40), ("b", "cta:b", 120)] {
        for (number, visitor) in visitors(arm, 400).into_iter().enumerate() {
            events.push(exposure(visitor, 1, experiments));
            if number < buyers {
                events.push(order(Some(visitor), None, 2, "10"));
            }
        }
    }
    events
}

#[test]
fn the_arms_are_compared_with_the_baseline() {
    let metrics =
        "goal=Order Placed&value=properties.revenue&more=Order Placed&guardrail=Order Placed:0.1&cap=none";
    let mut events = told_apart();
    events.push(order(Some("a0"), None, 2, "1000"));
    let answer = ask(&events, metrics);
    assert_eq!(answer["alarms"], json!([]));
    let [goal, value, more, guardrail] = std::array::from_fn(|at| &answer["metrics"][at]);
    assert_eq!(goal["arms"][1]["mean"], json!(0.1));
    let against = &goal["against"][0];
    assert_eq!((&against["key"], &against["verdict"]), (&json!("b"), &json!("better")));
    let number = |member: &str| against[member].as_f64().expect("a number");
    assert!((number("estimate") - 2.0).abs() < 1e-9, "{against}");
    assert!(0.0 < number("low") && number("low") < 2.0 && 2.0 < number("high"), "{against}");
    assert_eq!(against["p"], against["pAdjusted"]);
    // One of the 40 amounts is much larger than the others. The other secondary metric is adjusted alone.
    let early = json!([{"arm": "default", "reason": "spread"}]);
    assert_eq!((&value["against"][0]["verdict"], &value["tooEarly"]), (&json!("too_early"), &early));
    let arm = &more["against"][0];
    assert!(arm["p"].is_f64() && arm["pAdjusted"].as_f64() >= arm["p"].as_f64(), "{arm}");
    assert_eq!(arm["verdict"], "better");
    assert_eq!(guardrail["against"][0]["verdict"], "no_worse");
    let turned = ask(&told_apart(), &format!("{metrics}&baseline=b&method=fixed&alpha=0.01"));
    assert_eq!(turned["metrics"][0]["against"][0]["verdict"], "worse");
    assert_eq!(turned["metrics"][3]["against"][0]["verdict"], "harmed");
    let unseen = ask(&told_apart(), &format!("{metrics}&baseline=c"));
    assert_eq!(unseen["metrics"][0]["against"], json!([]));
}

#[test]
fn few_visitors_are_too_early_and_many_in_two_arms_are_an_alarm() {
    let mut events: Vec<Event> =
        visitors("a", 5).into_iter().map(|visitor| exposure(visitor, 1, "cta:default")).collect();
    events.extend(visitors("b", 5).into_iter().map(|visitor| exposure(visitor, 1, "cta:b")));
    for visitor in visitors("both", 10) {
        events.extend([exposure(visitor, 1, "cta:b"), exposure(visitor, 2, "cta:default")]);
    }
    let answer = ask(&events, "goal=Order Placed");
    assert_eq!(answer["alarms"], json!(["both_arms"]));
    let goal = &answer["metrics"][0];
    let reasons = json!([{ "arm": "b", "reason": "visitors" }, { "arm": "default", "reason": "visitors" }]);
    assert_eq!(goal["tooEarly"], reasons);
    let against = &goal["against"][0];
    let members = ["low", "high", "p", "pAdjusted"].map(|member| &against[member]);
    assert_eq!(members, [&Value::Null; 4]);
    assert_eq!(against["verdict"], "too_early");
}

#[test]
fn the_currency_of_a_question_has_16_characters_at_most() {
    let with_chars = |count: usize| parse(&format!("key=cta&currency={}", "é".repeat(count))).map(drop);
    let too_long = Err(("currency".to_owned(), "invalid_param"));
    assert_eq!([15, 16, 17].map(with_chars), [Ok(()), Ok(()), too_long]);
}

#[test]
fn the_parameters_of_a_comparison_are_checked_at_their_limits() {
    for accepted in [
        "alpha=0.001",
        "alpha=0.999",
        "cap=none",
        "cap=p50",
        "cap=p50.1",
        "cap=p99.9",
        "cap=0.0001",
        "cap=99999999999",
        "planned=2",
        "planned=9007199254740992",
        "method=anytime",
        "method=fixed",
    ] {
        assert!(parse(&format!("key=cta&{accepted}")).is_ok(), "{accepted}");
    }
    for refused in [
        "alpha=0",
        "alpha=1",
        "alpha=NaN",
        "planned=1",
        "planned=9007199254740993",
        "method=bayes",
        "baseline=a b",
        "baseline=~",
    ] {
        let (name, _) = refused.split_once('=').expect("a value");
        let refusal = parse(&format!("key=cta&{refused}"));
        assert_eq!(refusal.expect_err(refused), (name.to_owned(), "invalid_param"));
    }
}
