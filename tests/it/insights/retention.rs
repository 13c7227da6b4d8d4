//! Retention and the length of visits: every number, compared with a naive count over all records.

use std::collections::BTreeSet;
use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use parallax::testing::insights::{
    EngagementQuestion, JourneyQuestion, RETENTION_BUCKETS_MAX, RetentionQuestion, Zone,
};
use parallax::testing::record::RecordKind;
use parallax::testing::site::goals::SiteGoals;

use super::Event;
use super::journeys::{NaiveVisitor, Params, STEPS, accepts, any_events, any_selection, ask, naive_visitors};
use super::oracle::{DAY_MS, HOUR_MS, NOW_MS, START_MS, site};
use super::visitor_rule::is_of_visit;

/// Returns the number of the local day or week of a time. The site is an hour before UTC. 1970-01-01 was a Thursday.
fn bucket_of(time_ms: i64, by: &str) -> i64 {
    let day = (time_ms + HOUR_MS).div_euclid(DAY_MS);
    if by == "day" { day } else { (day + 3).div_euclid(7) }
}

fn bucket_start_ms(bucket: i64, by: &str) -> i64 {
    let day = if by == "day" { bucket } else { bucket * 7 - 3 };
    day * DAY_MS - HOUR_MS
}

/// Returns the cohort of a new visitor, and the buckets in which it returned.
fn naive_returns(
    visitor: &NaiveVisitor<'_>,
    params: &Params,
    steps: [Option<&str>; 2],
    range: &Range<i64>,
    by: &str,
) -> Option<(i64, BTreeSet<i64>)> {
    let is = |step: Option<&str>, event: &Event| step.is_none_or(|step| accepts(step, event));
    let first = visitor.moments.iter().position(|moment| is(steps[0], moment.event))?;
    let moment = visitor.moments[first];
    let counts = range.contains(&moment.event.time_ms) && visitor.passes(moment, params, range.start);
    let later = visitor.moments[first + 1..].iter().filter(|moment| is(steps[1], moment.event));
    let returned = later.map(|moment| bucket_of(moment.event.time_ms, by)).collect();
    counts.then(|| (bucket_of(moment.event.time_ms, by), returned))
}

/// Returns the cohorts and the curve.
fn naive_retention(returns: &[(i64, BTreeSet<i64>)], range: &Range<i64>, by: &str) -> [Value; 2] {
    let buckets = bucket_of(range.start, by)..=bucket_of(range.end - 1, by);
    let returned = |cohort: i64, bucket: i64| {
        returns.iter().filter(|(other, buckets)| *other == cohort && buckets.contains(&bucket)).count()
    };
    let visitors = |cohort: i64| returns.iter().filter(|(other, _)| *other == cohort).count();
    let cohort = |cohort: i64| {
        let returned: Vec<_> = (cohort..=*buckets.end()).map(|bucket| returned(cohort, bucket)).collect();
        json!({ "t": bucket_start_ms(cohort, by) / 1000, "visitors": visitors(cohort), "returned": returned })
    };
    let over_ms = range.end.min(NOW_MS.div_euclid(HOUR_MS) * HOUR_MS);
    let is_over = |bucket: i64| bucket_start_ms(bucket + 1, by) <= over_ms;
    let point = |period: i64| {
        let cohorts = || buckets.clone().filter(|cohort| is_over(cohort + period));
        let visitors: usize = cohorts().map(visitors).sum();
        let returned: usize = cohorts().map(|cohort| returned(cohort, cohort + period)).sum();
        let share = (visitors > 0).then(|| returned as f64 / visitors as f64);
        json!({ "period": period, "visitors": visitors, "returned": returned, "share": share })
    };
    let periods = buckets.clone().filter(|bucket| is_over(*bucket)).count() as i64;
    [buckets.clone().map(cohort).collect(), (0..periods).map(point).collect()]
}

/// Returns the sums of the visits that began in the range and in a bucket: visits, bounces, views and their durations.
fn naive_engagement(visitors: &[NaiveVisitor<'_>], params: &Params, range: &Range<i64>) -> [i64; 4] {
    let mut sums = [0; 4];
    for visitor in visitors {
        let last = visitor.moments.last().map_or(0, |moment| moment.visit);
        for visit in 1..=last {
            let moments = || visitor.moments.iter().filter(|moment| moment.visit == visit);
            let events: Vec<&Event> =
                moments().map(|moment| moment.event).filter(|event| is_of_visit(event)).collect();
            let is_counted = range.contains(&events[0].time_ms)
                && moments().any(|moment| visitor.passes(*moment, params, range.start));
            if is_counted {
                let views = events.iter().filter(|event| event.kind == RecordKind::Page).count() as i64;
                let duration_ms = events[events.len() - 1].time_ms - events[0].time_ms;
                let bounces = i64::from(views == 1 && events.len() == 1);
                let of_visit = [1, bounces, views, duration_ms];
                sums.iter_mut().zip(of_visit).for_each(|(sum, number)| *sum += number);
            }
        }
    }
    sums
}

fn pairs(params: &Params) -> Vec<(&'static str, &str)> {
    params.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_number_of_retention_equals_a_naive_count(
        events in any_events(),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        begin in proptest::option::of(select(STEPS.to_vec())),
        returning in proptest::option::of(select(STEPS.to_vec())),
        by in select(vec!["day", "week"]),
        page in select(vec![None, None, Some("/")]),
        selection in any_selection(),
        memory_bytes in select(vec![2_000, 1 << 30, 1 << 30]),
    ) {
        let mut params = selection;
        params.push(("by", by.to_owned()));
        params.extend(begin.map(|step| ("begin", step.to_owned())));
        params.extend(returning.map(|step| ("return", step.to_owned())));
        params.extend(page.map(|page| ("page", page.to_owned())));
        let question = RetentionQuestion::parse(&pairs(&params), &site().zone, NOW_MS, &SiteGoals::default()).expect("valid parameters");
        let (range, bots) = (question.selection.range.clone(), question.selection.bots);
        let answer = ask(JourneyQuestion::Retention(question), &events, &lengths, memory_bytes);
        let visitors = naive_visitors(&events, range.end, bots);
        let returns = visitors.iter().filter_map(|visitor| {
            naive_returns(visitor, &params, [begin, returning], &range, by)
        });
        let [cohorts, curve] = naive_retention(&returns.collect::<Vec<_>>(), &range, by);
        prop_assert_eq!(&answer["cohorts"], &cohorts);
        prop_assert_eq!(&answer["curve"], &curve);
    }

    #[test]
    fn every_number_of_visits_equals_a_naive_count(
        events in any_events(),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        by in select(vec!["hour", "day", "week"]),
        page in select(vec![None, None, Some("/")]),
        selection in any_selection(),
        memory_bytes in select(vec![2_000, 1 << 30, 1 << 30]),
    ) {
        let mut params = selection;
        params.push(("by", by.to_owned()));
        params.extend(page.map(|page| ("page", page.to_owned())));
        let question = EngagementQuestion::parse(&pairs(&params), &site().zone, NOW_MS).expect("valid parameters");
        let (range, bots) = (question.selection.range.clone(), question.selection.bots);
        let buckets = question.buckets(&site().zone);
        let answer = ask(JourneyQuestion::Engagement(question), &events, &lengths, memory_bytes);
        let visitors = naive_visitors(&events, range.end, bots);
        let names = ["visits", "bounces", "views", "durationMs"];
        let totals = naive_engagement(&visitors, &params, &range);
        prop_assert_eq!(names.map(|name| answer["totals"][name].as_i64().expect("a number")), totals);
        let rate = |part: usize| (totals[0] > 0).then(|| totals[part] as f64 / totals[0] as f64);
        let rates = ["bounceRate", "viewsPerVisit", "meanDurationMs"].map(|name| answer["totals"][name].as_f64());
        prop_assert_eq!(rates, [rate(1), rate(2), rate(3)]);
        for (number, start_ms) in buckets.iter().enumerate() {
            let end_ms = buckets.get(number + 1).copied().unwrap_or(range.end);
            let of_bucket = (*start_ms).max(range.start)..end_ms;
            let expected = naive_engagement(&visitors, &params, &of_bucket);
            let has_visitor_filter = params.iter().any(|(name, _)| ["event", "variant"].contains(name));
            // The filters of visitors test the whole range, so the naive count of a bucket alone differs.
            if !has_visitor_filter {
                let found = names.map(|name| answer["series"][name][number].as_i64().expect("a number"));
                prop_assert_eq!(found, expected, "bucket {}", number);
            }
        }
    }
}

#[test]
fn retention_has_at_most_366_days() {
    let parse = |days: i64| {
        let zone = Zone::utc();
        let today = zone.day_of(NOW_MS);
        let from = zone.local_time(zone.midnight(today - days) / 1000);
        let to = zone.local_time(zone.midnight(today) / 1000);
        let params = [("from", from.as_str()), ("to", &to), ("by", "day")];
        let question = RetentionQuestion::parse(&params, &zone, NOW_MS, &SiteGoals::default());
        question.map(|question| question.buckets.len()).map_err(|error| error.param)
    };
    let max = RETENTION_BUCKETS_MAX;
    assert_eq!(parse(max as i64 - 1), Ok(max - 1));
    assert_eq!(parse(max as i64), Ok(max));
    assert_eq!(parse(max as i64 + 1), Err("by".to_owned()));
}

#[test]
fn retention_has_at_most_366_whole_weeks() {
    let weeks = |count: usize| {
        let time = |time_ms: i64| Zone::utc().local_time(time_ms / 1000);
        // Both are Mondays.
        let (from, to) = (time(START_MS - 7 * count as i64 * DAY_MS), time(START_MS));
        let params = [("from", from.as_str()), ("to", &to), ("by", "week")];
        let question = RetentionQuestion::parse(&params, &Zone::utc(), NOW_MS, &SiteGoals::default());
        question.map(|question| question.buckets.len()).map_err(|error| error.param)
    };
    assert_eq!(weeks(RETENTION_BUCKETS_MAX - 1), Ok(RETENTION_BUCKETS_MAX - 1));
    assert_eq!(weeks(RETENTION_BUCKETS_MAX), Ok(RETENTION_BUCKETS_MAX));
    assert_eq!(weeks(RETENTION_BUCKETS_MAX + 1), Err("by".to_owned()));
}
