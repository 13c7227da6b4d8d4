//! The list of visitors: every row, compared with a naive list over all records, and its parameters.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use parallax::testing::insights::{
    Attribution, Columns, CountedLog, Limits, LogColumns, SiteFacts, VISITORS_LIMIT_MAX, VisitorsQuestion,
    list_visitors,
};
use parallax::testing::record::RecordKind;
use parallax::testing::site::goals::SiteGoals;

use super::journeys::{Moment, NaiveVisitor, Params, any_events, any_selection, naive_visitors};
use super::oracle::{HOUR_MS, MINUTE_MS, NOW_MS, START_MS, site as oslo};
use super::{Event, columns_with_goals};

/// Returns a site with the goals `order` and `home`.
fn site(attribution: Attribution) -> SiteFacts {
    let goal = |key: &str, target: Value| json!({ "key": key, "name": key, "target": target, "tests": {}, "value": null, "currency": null });
    let list =
        json!([goal("order", json!({ "event": "Order Placed" })), goal("home", json!({ "page": "/" }))]);
    let goals = SiteGoals::parse("acme", &list.to_string(), [].into_iter()).expect("goals");
    SiteFacts { goals, attribution, ..oslo() }
}

fn last(window_ms: i64) -> SiteFacts {
    site(Attribution { window_ms, is_first: false })
}

fn question(site: &SiteFacts, params: &Params) -> Result<VisitorsQuestion, String> {
    let pairs = params.iter().map(|(name, value)| (*name, value.as_str()));
    VisitorsQuestion::parse(pairs, &site.zone, NOW_MS, &site.goals).map_err(|error| error.to_string())
}

/// Answers over columns in files of these lengths.
fn list(site: &SiteFacts, params: &Params, events: &[Event], lengths: &[usize], memory_bytes: u64) -> Value {
    let question = question(site, params).expect("a question");
    let files = columns_with_goals(&site.goals, events, lengths);
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes, is_over: &|| false };
    let columns = LogColumns { sealed: &files, tail: None };
    let log = CountedLog::alone(events.len() as u64);
    list_visitors(columns, log, None, &question, site, &limits).expect("an answer").without_records().document
}

/// Returns the text of a time in January 2026.
fn text(time_ms: i64) -> String {
    let minutes = (time_ms - START_MS) / MINUTE_MS;
    let (day, hour, minute) = (5 + minutes / (24 * 60), minutes / 60 % 24, minutes % 60);
    format!("2026-01-{day:02}T{hour:02}:{minute:02}:00.000Z")
}

/// A row of the naive list, and the time and the index of the event by which it is sorted.
type NaiveRow = ((i64, usize), Value);

/// Returns the selected events of a visitor, each with the visit to which it belongs. With a goal, this is the visit to which the
/// event is credited.
fn selected<'e>(
    visitor: &NaiveVisitor<'e>,
    site: &SiteFacts,
    params: &Params,
    from_ms: i64,
) -> Vec<(Moment<'e>, usize)> {
    let has_goal = params.iter().any(|(name, _)| *name == "goal");
    let of_range = visitor.moments.iter().filter(|moment| moment.event.time_ms >= from_ms);
    let credited = of_range.map(|moment| {
        let visit = if has_goal { credit(visitor, site, *moment) } else { moment.visit };
        (*moment, visit)
    });
    credited.filter(|(moment, visit)| visitor.passes_in(*moment, *visit, has_goal, params, from_ms)).collect()
}

/// Returns the visit to which an event is credited.
fn credit(visitor: &NaiveVisitor<'_>, site: &SiteFacts, moment: Moment<'_>) -> usize {
    let Attribution { window_ms, is_first } = site.attribution;
    let has_source =
        |visit: usize| visitor.value_of_visit(visit, "source").is_some_and(|name| name != "(direct)");
    if !is_first && has_source(moment.visit) {
        return moment.visit;
    }
    let is_it = |other: &Moment<'_>| std::ptr::eq(other.event, moment.event);
    let index = visitor.moments.iter().position(is_it).expect("an event of the visitor");
    let mut earlier: Vec<usize> = visitor.moments[..index].iter().map(|other| other.visit).collect();
    earlier.dedup();
    let began_ms = |visit: usize| {
        let first = visitor.moments.iter().find(|other| other.visit == visit).expect("a visit");
        first.event.time_ms
    };
    earlier.retain(|visit| {
        *visit > 0
            && *visit != moment.visit
            && has_source(*visit)
            && began_ms(*visit) >= moment.event.time_ms - window_ms
    });
    let found = if is_first { earlier.iter().min() } else { earlier.iter().max() };
    found.copied().unwrap_or(moment.visit)
}

fn naive_list(site: &SiteFacts, params: &Params, events: &[Event]) -> Vec<NaiveRow> {
    let range = question(site, params).expect("a question").selection.range;
    let bots = params.iter().any(|(name, _)| *name == "bots");
    let goal = params.iter().find(|(name, _)| *name == "goal").map(|(_, key)| key.as_str());
    let reaches = |event: &Event| match goal {
        None => true,
        Some("home") => event.kind == RecordKind::Page && event.path == Some("/"),
        Some(_) => event.kind == RecordKind::Track && event.event == Some("Order Placed"),
    };
    let mut rows = Vec::new();
    for visitor in naive_visitors(events, range.end, bots) {
        let selected = selected(&visitor, site, params, range.start);
        let reached: Vec<_> = selected.iter().filter(|(moment, _)| reaches(moment.event)).collect();
        let Some((latest, visit)) = reached.last().copied() else { continue };
        let (first, last) = (selected[0].0.event, selected[selected.len() - 1].0.event);
        let views = selected.iter().filter(|(moment, _)| moment.event.kind == RecordKind::Page).count();
        let own = |by: &str| {
            let so_far = visitor.moments.iter();
            let is_it = |other: &&Moment<'_>| std::ptr::eq(other.event, latest.event);
            let index = so_far.clone().position(|other| is_it(&other)).expect("an event of the visitor");
            let before = so_far.take(index).rev().filter(|other| {
                other.visit == latest.visit && latest.visit > 0 && other.event.kind == RecordKind::Page
            });
            let mut values = [latest].into_iter().chain(before);
            values.find_map(|moment| visitor.value(*moment, by).map(str::to_owned))
        };
        let source = visitor.value_of_visit(*visit, "source").or(goal.map(|_| "(direct)"));
        let mut row = json!({
            "firstActivity": text(first.time_ms), "lastActivity": text(last.time_ms),
            "views": views, "events": selected.len() - views, "source": source,
            "country": own("country"), "device": own("device"),
        });
        if goal.is_some() {
            row["lastConversion"] = json!(text(latest.event.time_ms));
            row["conversions"] = json!(reached.len());
        }
        let index = events.iter().position(|event| std::ptr::eq(event, latest.event)).expect("an event");
        rows.push(((latest.event.time_ms, index), row));
    }
    rows.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    rows
}

/// Returns the members of a row that the naive list has.
fn compared(row: &Value) -> Value {
    let mut row = row.clone();
    let members = row.as_object_mut().expect("a row");
    for name in ["seq", "anonId", "userId", "channel", "amount", "currency"] {
        members.shift_remove(name);
    }
    row
}

fn any_site() -> impl Strategy<Value = SiteFacts> {
    let windows = [0, 20 * MINUTE_MS, 3 * HOUR_MS, 48 * HOUR_MS, 2_000 * HOUR_MS];
    (select(windows.to_vec()), any::<bool>())
        .prop_map(|(window_ms, is_first)| site(Attribution { window_ms, is_first }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::harness::times(192, 4_000) as u32))]

    #[test]
    fn every_page_has_the_rows_of_the_naive_list(
        events in any_events(),
        site in any_site(),
        selection in any_selection(),
        goal in select(vec![None, Some("order"), Some("home")]),
        limit in select(vec![1_usize, 2, 3, 100]),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        memory_bytes in select(vec![1_u64, 5_000, 1 << 20]),
    ) {
        // Records without a row shift the cursors, which the tests of a server cover.
        let has_row = |event: &Event| !matches!(event.kind, RecordKind::Void | RecordKind::Tombstone);
        let events: Vec<Event> = events.into_iter().filter(has_row).collect();
        let goal = goal.map(|goal| ("goal", goal.to_owned()));
        let params: Params = selection.into_iter().chain(goal).collect();
        let expected = naive_list(&site, &params, &events);
        let mut after = None;
        let mut rows = Vec::new();
        loop {
            let page = [("limit", limit.to_string())].into_iter().chain(after.map(|after| ("after", after)));
            let params: Params = params.iter().cloned().chain(page).collect();
            // Later events change no further page.
            let later = rows.len() * 7 % 5;
            let mut known = events.clone();
            if !rows.is_empty() {
                known.extend(events.iter().take(later).cloned());
            }
            let answer = list(&site, &params, &known, &lengths, memory_bytes);
            prop_assert_eq!(&answer["total"], &json!(expected.len()));
            let page = answer["rows"].as_array().expect("rows");
            prop_assert!(page.len() <= limit);
            rows.extend(page.iter().map(compared));
            after = answer["next"].as_str().map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<Value> = expected.into_iter().map(|(_, row)| row).collect();
        prop_assert_eq!(rows, expected);
    }
}

#[test]
fn visitors_with_equal_times_have_the_order_of_the_log() {
    let ids = ["a", "b", "c"];
    let events: Vec<Event> =
        ids.iter().map(|id| Event { anon_id: Some(id), path: Some("/"), ..Event::page(START_MS) }).collect();
    let site = last(HOUR_MS);
    let params: Params = vec![("from", "2026-01-05".to_owned()), ("limit", "1".to_owned())];
    let first = list(&site, &params, &events, &[1, 1], 1 << 20);
    assert_eq!((&first["total"], &first["sortedBy"]), (&json!(3), &json!("lastActivity")));
    // The row number of the third event.
    assert_eq!(first["next"], json!(format!("{START_MS}.3.3")));
    let second: Params =
        [params, vec![("after", first["next"].as_str().expect("a cursor").to_owned())]].concat();
    assert_eq!(list(&site, &second, &events, &[], 1 << 20)["next"], json!(format!("{START_MS}.2.3")));
}

#[test]
fn the_limit_of_a_page_is_1_to_100() {
    let site = last(HOUR_MS);
    let limit = |limit: usize| {
        let params = vec![("limit", limit.to_string())];
        question(&site, &params).map(|question| question.limit)
    };
    assert_eq!(question(&site, &Params::new()).map(|question| question.limit), Ok(20));
    for accepted in [1, VISITORS_LIMIT_MAX - 1, VISITORS_LIMIT_MAX] {
        assert_eq!(limit(accepted), Ok(accepted));
    }
    for refused in [0, VISITORS_LIMIT_MAX + 1] {
        assert_eq!(limit(refused), Err(format!("limit: expected a number from 1 to 100, got \"{refused}\"")));
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let site = last(HOUR_MS);
    let refusal = |params: &[(&'static str, &str)]| {
        let params = params.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        question(&site, &params).expect_err("a refusal")
    };
    for cursor in ["1", "1.2", "1.2.3.4", "1.-2.3", "a.2.3", "1.2.", "1.2.99999999999999999999"] {
        let expected = format!("after: expected the 'next' of a page of this list, got {cursor:?}");
        assert_eq!(refusal(&[("after", cursor)]), expected);
    }
    let repeated = |name: &str| format!("{name}: The parameter is given twice; give it once.");
    assert_eq!(refusal(&[("goal", "order"), ("goal", "home")]), repeated("goal"));
    assert_eq!(refusal(&[("limit", "1"), ("limit", "1")]), repeated("limit"));
    assert_eq!(refusal(&[("after", "1.2.3"), ("after", "1.2.3")]), repeated("after"));
    assert_eq!(
        refusal(&[("goal", "nope")]),
        "goal: expected the key of a goal in site.json, such as order, home, got \"nope\""
    );
}
