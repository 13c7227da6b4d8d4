//! Journeys: every number of funnels, compared with a naive count over all records.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use parallax::testing::insights::{
    Answer, AnswerCache, Columns, CountedLog, FunnelQuestion, JourneyQuestion, Limits, LogColumns, Query,
    ScanError, SiteFacts, answer_cached, answer_over,
};
use parallax::testing::record::RecordKind;
use parallax::testing::site::goals::SiteGoals;

use super::oracle::{DAY_MS, MINUTE_MS, NOW_MS, START_MS, any_event, device_of, external_host, site};
use super::visitor_rule::{is_of_visit, visitor_of};
use super::{Event, columns, columns_with_goals};

/// The texts of steps.
pub(super) const STEPS: [&str; 8] =
    ["page:/", "page:/a", "page:/*", "Order Placed", "Order*", "event:Viewed", "screen", "page:/none"];

/// An event of a visitor.
#[derive(Clone, Copy)]
pub(super) struct Moment<'e> {
    pub event: &'e Event,
    /// The number of the visit, or 0 if the event is in no visit.
    pub visit: usize,
}

/// The events of a visitor before the end of the range, by time. Events with equal times are in the order of the log.
pub(super) struct NaiveVisitor<'e> {
    pub moments: Vec<Moment<'e>>,
}

impl<'e> NaiveVisitor<'e> {
    /// Returns the first page event of the visit with this number.
    fn first_page(&self, visit: usize) -> Option<&'e Event> {
        let of_visit = self.moments.iter().filter(|moment| visit > 0 && moment.visit == visit);
        of_visit.map(|moment| moment.event).find(|event| event.kind == RecordKind::Page)
    }

    fn source(&self, visit: usize) -> Option<&'e str> {
        let page = self.first_page(visit)?;
        Some(page.touch[0].or(external_host(page)).unwrap_or("(direct)"))
    }

    fn campaign(&self, visit: usize) -> Option<&'e str> {
        self.first_page(visit).and_then(|page| page.touch[1])
    }

    pub(super) fn value(&self, moment: Moment<'e>, by: &str) -> Option<&'e str> {
        match by {
            "source" => self.source(moment.visit),
            "campaign" => self.campaign(moment.visit),
            "device" => device_of(moment.event),
            "country" => moment.event.country,
            "variant:hero" => {
                let hero = |shown: &'e str| shown.split(',').find_map(|pair| pair.strip_prefix("hero:"));
                moment.event.variants.map(|shown| hero(shown).unwrap_or("default"))
            }
            _ => None,
        }
    }

    /// Returns the arm of `cta` and the index of the first exposure, if the first exposure is in the range and no later one names
    /// another arm.
    fn exposure(&self, from_ms: i64) -> Option<(&'e str, usize)> {
        let arm = |moment: &Moment<'e>| {
            let is_kind = matches!(moment.event.kind, RecordKind::Page | RecordKind::Track);
            let experiments = moment.event.experiments.filter(|_| is_kind)?;
            experiments.split(',').find_map(|pair| pair.strip_prefix("cta:"))
        };
        let first = self.moments.iter().position(|moment| arm(moment).is_some())?;
        let arms: BTreeSet<&str> = self.moments.iter().filter_map(arm).collect();
        let is_in_range = self.moments[first].event.time_ms >= from_ms;
        (arms.len() == 1 && is_in_range).then(|| (arms.into_iter().next().unwrap_or_default(), first))
    }

    /// Returns the events of the range since the event at an index: one list, or one for each visit.
    fn units(&self, from_index: usize, from_ms: i64, per: &str) -> Vec<Vec<Moment<'e>>> {
        let mut units: BTreeMap<usize, Vec<Moment<'e>>> = BTreeMap::new();
        let since = self.moments.iter().skip(from_index).filter(|moment| moment.event.time_ms >= from_ms);
        for moment in since.filter(|moment| per == "visitor" || moment.visit > 0) {
            units.entry(if per == "visit" { moment.visit } else { 0 }).or_default().push(*moment);
        }
        units.into_values().collect()
    }

    /// Returns the source or the campaign of a visit.
    pub(super) fn value_of_visit(&self, visit: usize, by: &str) -> Option<&'e str> {
        if by == "source" { self.source(visit) } else { self.campaign(visit) }
    }

    /// Returns whether the filters of these parameters select a journey by this event.
    pub(super) fn passes(&self, moment: Moment<'e>, params: &Params, from_ms: i64) -> bool {
        self.passes_in(moment, moment.visit, false, params, from_ms)
    }

    /// Returns whether the filters of these parameters select an event that belongs to this visit. With `is_credited`, a visit
    /// without a page is direct.
    pub(super) fn passes_in(
        &self,
        moment: Moment<'e>,
        visit: usize,
        is_credited: bool,
        params: &Params,
        from_ms: i64,
    ) -> bool {
        let accepts = |name: &str, value: Option<&str>| {
            let mut wanted = params.iter().filter(|(other, _)| *other == name).peekable();
            wanted.peek().is_none() || wanted.any(|(_, text)| Some(text.as_str()) == value)
        };
        let in_range = || {
            let events = self.moments.iter().map(|moment| moment.event);
            events.filter(move |event| event.time_ms >= from_ms)
        };
        let wants = |name: &'static str| params.iter().any(|(other, _)| *other == name);
        let shows = |event: &Event| {
            let shown = event.variants.unwrap_or_default().split(',');
            event.kind == RecordKind::Page
                && shown.into_iter().any(|pair| !pair.is_empty() && accepts("variant", Some(pair)))
        };
        accepts("page", moment.event.path)
            && accepts("source", self.source(visit).or(is_credited.then_some("(direct)")))
            && accepts("campaign", self.campaign(visit))
            && accepts("country", moment.event.country)
            && accepts("device", device_of(moment.event))
            && (!wants("event")
                || in_range().any(|event| is_action(event) && accepts("event", name_of(event))))
            && (!wants("variant") || in_range().any(shows))
    }
}

pub(super) type Params = Vec<(&'static str, String)>;

fn is_action(event: &Event) -> bool {
    matches!(event.kind, RecordKind::Track | RecordKind::Screen)
}

pub(super) fn name_of(event: &Event) -> Option<&'static str> {
    if event.kind == RecordKind::Screen { Some("screen") } else { event.event }
}

/// Returns whether a step accepts an event.
pub(super) fn accepts(step: &str, event: &Event) -> bool {
    let (text, pattern) = match step.strip_prefix("page:") {
        Some(path) => (event.path.filter(|_| event.kind == RecordKind::Page), path),
        None => (name_of(event).filter(|_| is_action(event)), step.strip_prefix("event:").unwrap_or(step)),
    };
    text.is_some_and(|text| match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == pattern,
    })
}

/// Returns the visitors of the events before `end_ms`.
pub(super) fn naive_visitors(events: &[Event], end_ms: i64, bots: bool) -> Vec<NaiveVisitor<'_>> {
    let mut by_visitor: BTreeMap<String, Vec<&Event>> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        let is_kind = event.kind == RecordKind::Page || is_action(event);
        let is_read = is_kind && event.site == "acme" && (bots || !event.bot) && event.time_ms < end_ms;
        if let Some(visitor) = visitor_of(events, index).filter(|_| is_read) {
            by_visitor.entry(visitor).or_default().push(event);
        }
    }
    by_visitor.into_values().map(naive_visitor).collect()
}

fn naive_visitor(mut events: Vec<&Event>) -> NaiveVisitor<'_> {
    events.sort_by_key(|event| event.time_ms);
    let (mut number, mut last_ms) = (0, None);
    let mut moments = Vec::new();
    for event in events {
        let gap = last_ms.map(|last_ms| event.time_ms - last_ms);
        let mut visit = number;
        if is_of_visit(event) {
            number += usize::from(gap.is_none_or(|gap| gap > 30 * MINUTE_MS));
            (visit, last_ms) = (number, Some(event.time_ms));
        } else if gap.is_none_or(|gap| gap > 30 * DAY_MS) {
            visit = 0;
        }
        moments.push(Moment { event, visit });
    }
    NaiveVisitor { moments }
}

/// Generates events of few visitors. In two of three cases they are within hours or a day, so that visits have many events.
pub(super) fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let experiments =
        select(vec![None, None, None, None, Some("cta:b"), Some("x:a,cta:b"), Some("cta:~"), Some("x:b")]);
    let event = (any_event(), experiments).prop_map(|(event, experiments)| Event { experiments, ..event });
    let events = proptest::collection::vec(event, 0..120);
    (events, select(vec![None, Some(40), Some(150)])).prop_map(|(mut events, steps)| {
        for event in &mut events {
            if let Some(steps) = steps {
                let step = (event.time_ms - START_MS) / (10 * MINUTE_MS) % steps;
                event.time_ms = START_MS + (5 * 24 * 60 + step * 10) * MINUTE_MS;
            }
        }
        events
    })
}

/// Generates filters and a range.
pub(super) fn any_selection() -> impl Strategy<Value = Params> {
    let filters = [
        ("source", "news"),
        ("source", "(direct)"),
        ("campaign", "spring"),
        ("country", "DE"),
        ("country", "NO"),
        ("device", "mobile"),
        ("event", "Order Placed"),
        ("variant", "hero:x"),
        ("bots", "include"),
    ];
    let filters = proptest::collection::btree_set(select(filters.to_vec()), 0..3);
    (filters, 0..12_i64, 1..12_i64, 0..24_i64).prop_map(|(filters, day, days, hour)| {
        let time = |day: i64, hour: i64| format!("2026-01-{:02}T{hour:02}:00", 3 + day);
        let range = [("from", time(day, hour)), ("to", time(day + days, 0))];
        filters.into_iter().map(|(name, value)| (name, value.to_owned())).chain(range).collect()
    })
}

/// Answers a question about the events, in one file.
pub(super) fn answer(
    question: &JourneyQuestion,
    events: &[Event],
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let files = columns(events, &[]);
    let files: Vec<&Columns> = files.iter().collect();
    let query = Query::Journey(question.clone());
    answer_over(&files, CountedLog::alone(9), &query, &site(), NOW_MS, limits)
}

/// Answers a question about the events, in files of these lengths. Checks that a server that has kept the counts over the sealed
/// segments gives the same answer.
pub(super) fn ask(
    question: JourneyQuestion,
    events: &[Event],
    lengths: &[usize],
    memory_bytes: u64,
) -> Value {
    ask_site(&site(), question, events, lengths, memory_bytes)
}

/// Does the same as [`ask`] for a site with goals.
pub(super) fn ask_site(
    site: &SiteFacts,
    question: JourneyQuestion,
    events: &[Event],
    lengths: &[usize],
    memory_bytes: u64,
) -> Value {
    let files = columns_with_goals(&site.goals, events, lengths);
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes, is_over: &|| false };
    let query = Query::Journey(question);
    let log = CountedLog::alone(9);
    let without_time = |mut answer: Value| {
        answer["took"] = Value::Null;
        answer
    };
    let answer = answer_over(&files, log, &query, site, NOW_MS, &limits).expect("an answer").document;
    let answer = without_time(answer);
    let mut cache = AnswerCache::default();
    let (tail, sealed) = files.split_last().expect("a file");
    for tail in [None, Some(*tail), Some(*tail)] {
        let files = LogColumns { sealed, tail };
        let kept = answer_cached(files, &mut cache, log, &query, site, NOW_MS, &limits);
        // The first answer only fills the cache. It is an error if the sealed segments do not name the experiment of the question.
        if tail.is_some() {
            let kept = without_time(kept.expect("an answer").document);
            assert!(kept == answer, "kept counts differ");
        }
    }
    answer
}

/// Returns the chain with the most steps, and among these the one whose first event is the latest. Tries every first event.
fn naive_chain(moments: &[Moment<'_>], steps: &[String], window_ms: i64) -> Vec<usize> {
    let mut best = Vec::new();
    for first in 0..moments.len() {
        let mut chain = Vec::new();
        for step in steps {
            let from = chain.last().map_or(first, |last| last + 1);
            let in_window =
                |at: &usize| moments[*at].event.time_ms - moments[first].event.time_ms <= window_ms;
            let next = (from..moments.len()).find(|at| accepts(step, moments[*at].event)).filter(in_window);
            let Some(next) = next.filter(|next| !chain.is_empty() || *next == first) else { break };
            chain.push(next);
        }
        if chain.len() >= best.len() {
            best = chain;
        }
    }
    best
}

/// The numbers of a funnel.
#[derive(Debug, Default, PartialEq)]
struct Naive {
    reached: Vec<u64>,
    times_ms: Vec<Vec<i64>>,
    /// For each step, the number of journeys by their next page. The page of a journey without one is `exit`.
    next: Vec<BTreeMap<String, u64>>,
}

impl Naive {
    fn new(step_count: usize) -> Self {
        Self {
            reached: vec![0; step_count],
            times_ms: vec![Vec::new(); step_count],
            next: vec![BTreeMap::new(); step_count],
        }
    }

    fn add(&mut self, moments: &[Moment<'_>], chain: &[usize]) {
        for (step, at) in chain.iter().enumerate() {
            self.reached[step] += 1;
            if step > 0 {
                let before_ms = moments[chain[step - 1]].event.time_ms;
                self.times_ms[step].push(moments[*at].event.time_ms - before_ms);
            }
        }
        let last = chain[chain.len() - 1];
        let pages = moments[last + 1..].iter().map(|moment| moment.event);
        let next = pages.into_iter().find(|event| event.kind == RecordKind::Page);
        let next = next.map_or("exit", |event| event.path.unwrap_or("none")).to_owned();
        *self.next[chain.len() - 1].entry(next).or_default() += 1;
    }

    fn medians_ms(&self) -> Vec<Option<f64>> {
        let median = |times_ms: &Vec<i64>| {
            let mut sorted = times_ms.clone();
            sorted.sort_unstable();
            let last = sorted.len().checked_sub(1)?;
            Some((sorted[last / 2] + sorted[last.div_ceil(2)]) as f64 / 2.0)
        };
        self.times_ms.iter().map(median).collect()
    }
}

/// Returns the numbers of the steps in an answer.
fn steps_of(steps: &Value) -> (Vec<u64>, Vec<Option<f64>>) {
    let steps = steps.as_array().expect("steps").iter();
    let numbers = steps.map(|step| (step["reached"].as_u64().expect("a number"), step["medianMs"].as_f64()));
    numbers.unzip()
}

/// Returns the next pages after each step in an answer.
fn next_of(steps: &Value) -> Vec<BTreeMap<String, u64>> {
    let pages = |step: &Value| {
        let next = step["left"]["next"].as_array().into_iter().flatten();
        let next = next.map(|row| {
            let page = row["value"].as_str().unwrap_or("none").to_owned();
            (page, row["count"].as_u64().expect("a number"))
        });
        let exits = step["left"]["exits"].as_u64().filter(|exits| *exits > 0);
        next.chain(exits.map(|exits| ("exit".to_owned(), exits))).collect()
    };
    steps.as_array().expect("steps").iter().map(pages).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_number_of_a_funnel_equals_a_naive_count(
        mut events in any_events(),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        steps in proptest::collection::vec(select(STEPS.to_vec()), 2..5),
        per in select(vec!["visitor", "visit"]),
        by in select(vec!["source", "campaign", "device", "country", "experiment:cta", "experiment:cta", "variant:hero"]),
        window in select(vec![None, Some("1h"), Some("2d")]),
        page in select(vec![None, Some("/")]),
        selection in any_selection(),
        memory_bytes in select(vec![2_000, 1 << 30, 1 << 30]),
    ) {
        // An experiment that no event names is refused. This exposure is before the range.
        let exposure = Event { anon_id: Some("9"), experiments: Some("cta:b"), ..Event::page(START_MS - 10 * DAY_MS) };
        events.extend((by == "experiment:cta").then_some(exposure));
        let mut steps = steps;
        if by == "variant:hero" {
            steps[0] = "page:/";
        }
        let mut params = selection;
        params.extend([("per", per.to_owned()), ("by", by.to_owned()), ("limit", "100".to_owned())]);
        params.extend(steps.iter().map(|step| ("step", (*step).to_owned())));
        params.extend(window.map(|window| ("window", window.to_owned())));
        params.extend(page.map(|page| ("page", page.to_owned())));
        let pairs: Vec<_> = params.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let question = FunnelQuestion::parse(&pairs, &site().zone, NOW_MS, &SiteGoals::default()).expect("valid parameters");
        let (range, bots) = (question.selection.range.clone(), question.selection.bots);
        let window_ms = question.window_ms.unwrap_or(i64::MAX);
        let answer = ask(JourneyQuestion::Funnel(question), &events, &lengths, memory_bytes);

        let steps: Vec<String> = steps.into_iter().map(str::to_owned).collect();
        let mut total = Naive::new(steps.len());
        let mut groups: BTreeMap<Option<&str>, Naive> = BTreeMap::new();
        for visitor in naive_visitors(&events, range.end, bots) {
            let by_experiment = by == "experiment:cta";
            let chains_since = |index: usize| {
                let chains = visitor.units(index, range.start, per).into_iter().map(|moments| {
                    let chain = naive_chain(&moments, &steps, window_ms);
                    (moments, chain)
                });
                let passes = |moments: &[Moment<'_>], first: &usize| visitor.passes(moments[*first], &params, range.start);
                let chains = chains.filter(|(moments, chain)| chain.first().is_some_and(|first| passes(moments, first)));
                chains.collect::<Vec<_>>()
            };
            for (moments, chain) in chains_since(0) {
                total.add(&moments, &chain);
                if !by_experiment {
                    let group = groups.entry(visitor.value(moments[chain[0]], by));
                    group.or_insert_with(|| Naive::new(steps.len())).add(&moments, &chain);
                }
            }
            let exposure = visitor.exposure(range.start).filter(|_| by_experiment);
            for (moments, chain) in exposure.map_or_else(Vec::new, |(_, index)| chains_since(index)) {
                let group = groups.entry(exposure.map(|(arm, _)| arm));
                group.or_insert_with(|| Naive::new(steps.len())).add(&moments, &chain);
            }
        }
        prop_assert_eq!(steps_of(&answer["steps"]), (total.reached.clone(), total.medians_ms()));
        // Those that completed the funnel have not left it.
        let last = total.next.len() - 1;
        total.next[last].clear();
        prop_assert_eq!(next_of(&answer["steps"]), total.next);
        let rows = answer["rows"].as_array().expect("rows").iter();
        let found: BTreeMap<_, _> = rows.map(|row| (row["value"].as_str(), steps_of(&row["steps"]))).collect();
        let expected: BTreeMap<_, _> =
            groups.iter().map(|(value, naive)| (*value, (naive.reached.clone(), naive.medians_ms()))).collect();
        prop_assert_eq!(found, expected);
    }
}
