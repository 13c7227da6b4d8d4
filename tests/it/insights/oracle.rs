//! Every number, compared with a naive count over all records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use parallax::testing::insights::{
    Columns, CountedLog, Limits, Query, Question, SiteFacts, Subject, Zone, answer_over,
};
use parallax::testing::record::{Device, RecordKind};

use super::visitor_rule::{is_of_visit, visitor_of};
use super::{Event, columns};

pub(super) const MINUTE_MS: i64 = 60_000;
pub(super) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(super) const DAY_MS: i64 = 24 * HOUR_MS;
/// 2026-01-05 00:00 in UTC, a Monday.
pub(super) const START_MS: i64 = 1_767_571_200_000;
pub(super) const NOW_MS: i64 = START_MS + 10 * DAY_MS + 125 * MINUTE_MS;
const GROUPS: [&str; 15] = [
    "page", "entry", "exit", "referrer", "source", "medium", "campaign", "term", "content", "country",
    "language", "device", "os", "browser", "event",
];

/// Returns the texts of a record's columns, as a column file has them.
pub(super) fn texts_of(event: &Event) -> [Option<String>; 13] {
    let [medium, term, content] = event.details;
    let [source, campaign, referrer] = event.touch;
    let host = referrer.and_then(|referrer| referrer.split('/').nth(2));
    let host = host.map(|host| host.trim_end_matches('.').to_ascii_lowercase());
    let name = if event.kind == RecordKind::Screen { Some("screen") } else { event.event };
    let texts = [
        Some(event.site),
        name,
        event.path,
        event.variants,
        event.experiments,
        host.as_deref(),
        source,
        medium,
        campaign,
        term,
        content,
        event.country,
        None,
    ];
    texts.map(|text| text.map(str::to_owned))
}

/// Generates events of few visitors, so that visits, bots, sites and filters meet.
pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let kinds = [
        RecordKind::Page,
        RecordKind::Page,
        RecordKind::Page,
        RecordKind::Track,
        RecordKind::Screen,
        RecordKind::Identify,
        RecordKind::Group,
        RecordKind::Void,
        RecordKind::Tombstone,
    ];
    let anon = select(vec![Some("1"), Some("2"), Some("3"), None]);
    let user = select(vec![None, None, Some("1"), Some("2")]);
    let ids = (anon, user, select(vec!["acme", "acme", "acme", "other"]), proptest::bool::weighted(0.1));
    let texts = (
        select(vec![None, Some("Order Placed"), Some("Viewed"), Some("Experiment Viewed")]),
        select(vec![None, Some("/"), Some("/a"), Some("/b")]),
        select(vec![None, Some(""), Some("hero:x"), Some("hero:default"), Some("cta:b,hero:default")]),
        select(vec![None, None, Some("news"), Some("ads")]),
        select(vec![None, None, Some("spring")]),
        select(vec![[None; 3], [Some("email"), None, Some("b")], [None, Some("tents"), Some("a")]]),
        select(vec![
            None,
            Some("https://www.acme.example/x"),
            Some("https://a.cdn.example/"),
            Some("https://b.example/"),
            Some("https://www.PAY.example/"),
            Some("https://a.pay.example./c"),
            Some("https://id.example/"),
            Some("https://checkout.stripe.com/c"),
        ]),
        select(vec![None, Some("DE"), Some("NO")]),
        select(vec![Device::Unknown, Device::Mobile, Device::Desktop]),
    );
    // Steps of 10 minutes, so that gaps of exactly 30 minutes and equal times are frequent.
    (select(kinds.to_vec()), 0..1700_i64, ids, texts).prop_map(|(kind, step, ids, texts)| {
        let (anon_id, user_id, site, bot) = ids;
        let (event, path, variants, source, campaign, details, referrer, country, device) = texts;
        let touch = [source, campaign, referrer];
        let time_ms = START_MS + step * 10 * MINUTE_MS;
        let ids = Event { site, anon_id, user_id, bot, ..Event::page(time_ms) };
        Event { kind, event, path, variants, touch, details, country, device, ..ids }
    })
}

/// Generates the parameters of a question.
pub(super) fn any_params() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let filters = [
        ("page", "/"),
        ("page", "/a"),
        ("source", "news"),
        ("source", "(direct)"),
        ("source", "b.example"),
        ("campaign", "spring"),
        ("country", "DE"),
        ("country", "NO"),
        ("device", "mobile"),
        ("event", "Order Placed"),
        ("event", "screen"),
        ("variant", "hero:x"),
        ("variant", "cta:b"),
        ("bots", "include"),
    ];
    let filters = proptest::collection::btree_set(select(filters.to_vec()), 0..3);
    let by = select(vec!["hour", "day", "week", "month"]);
    let range = (0..12_i64, 1..12_i64, 0..24_i64);
    let contains = select(vec!["", "/", "A", "SPR", "none"]);
    (filters, by, range, select(GROUPS.to_vec()), 1..6_usize, contains).prop_map(
        |(filters, by, (day, days, hour), of, limit, contains)| {
            let time = |day: i64, hour: i64| format!("2026-01-{:02}T{hour:02}:00", 3 + day);
            let range = [("from", time(day, hour)), ("to", time(day + days, 0))];
            let own = [
                ("by", by.to_owned()),
                ("of", of.to_owned()),
                ("limit", limit.to_string()),
                ("contains", contains.to_owned()),
            ];
            let filters = filters.into_iter().map(|(name, value)| (name, value.to_owned()));
            filters.chain(range).chain(own).collect()
        },
    )
}

pub(super) fn site() -> SiteFacts {
    SiteFacts {
        site: "acme".to_owned(),
        zone: Zone { name: "Europe/Oslo".to_owned(), offsets: vec![(0, 3600)] },
        own_hosts: vec!["acme.example".to_owned(), "*.cdn.example".to_owned()],
        ignored_referrers: vec!["*.pay.example".to_owned(), "id.example".to_owned()],
        ignores_providers: true,
        version: Some(1),
        ..SiteFacts::unpublished("acme")
    }
}

/// The facts of a visit that a page event of it decides.
#[derive(Clone)]
struct NaiveVisit {
    began_ms: i64,
    /// Entry, exit, source, campaign, medium, term and content. `None` without a page event.
    page: Option<[Option<String>; 7]>,
}

/// Views, events, visitors and visits by value. An absent value is the last one.
type NaiveGroups = BTreeMap<(bool, Option<String>), [usize; 4]>;

/// A counted event: its index, its visitor and the number of its visit.
type Counted = (usize, String, usize);

/// A naive count over all events.
struct Naive<'e> {
    events: &'e [Event],
    question: &'e Question,
    visits: HashMap<(String, usize), NaiveVisit>,
    counted: Vec<Counted>,
    range: Range<i64>,
}

impl<'e> Naive<'e> {
    fn new(events: &'e [Event], question: &'e Question, range: Range<i64>) -> Self {
        let mut naive = Self { events, question, visits: HashMap::new(), counted: Vec::new(), range };
        let mut by_visitor: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            let is_kind = matches!(event.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen);
            let visitor = visitor_of(events, index);
            let is_read = is_kind && event.site == "acme" && (question.bots || !event.bot);
            if let Some(visitor) = visitor.filter(|_| is_read && event.time_ms < naive.range.end) {
                by_visitor.entry(visitor).or_default().push(index);
            }
        }
        for (visitor, mut indices) in by_visitor {
            indices.sort_by_key(|index| (events[*index].time_ms, *index));
            naive.add_visitor(&visitor, &indices);
        }
        naive
    }

    fn add_visitor(&mut self, visitor: &str, indices: &[usize]) {
        let (mut number, mut last_ms) = (0, None);
        let mut numbered = Vec::new();
        for index in indices {
            let event = &self.events[*index];
            let gap = last_ms.map(|last_ms| event.time_ms - last_ms);
            let mut of_event = number;
            if is_of_visit(event) {
                number += usize::from(gap.is_none_or(|gap| gap > 30 * MINUTE_MS));
                (of_event, last_ms) = (number, Some(event.time_ms));
            } else if gap.is_none_or(|gap| gap > 30 * DAY_MS) {
                of_event = 0;
            }
            numbered.push((*index, visitor.to_owned(), of_event));
        }
        self.visits.insert((visitor.to_owned(), 0), NaiveVisit { began_ms: i64::MIN, page: None });
        for number in 1..=number {
            let of_visit: Vec<&Event> = numbered
                .iter()
                .filter(|(_, _, other)| *other == number)
                .map(|(index, ..)| &self.events[*index])
                .collect();
            self.visits.insert((visitor.to_owned(), number), naive_visit(&of_visit));
        }
        let filters = &self.question.filters;
        let in_range = || {
            numbered
                .iter()
                .map(|(index, ..)| &self.events[*index])
                .filter(|event| self.range.contains(&event.time_ms))
        };
        let has_event = filters.event.is_empty()
            || in_range().any(|event| is_action(event) && filters.event.contains(&name_of(event)));
        let shows = |event: &Event| {
            event.variants.is_some_and(|shown| {
                shown.split(',').any(|pair| filters.variant.iter().any(|wanted| wanted == pair))
            })
        };
        let has_variant = filters.variant.is_empty()
            || in_range().any(|event| event.kind == RecordKind::Page && shows(event));
        if has_event && has_variant {
            let counted = numbered.into_iter().filter(|counted| self.counts(counted)).collect::<Vec<_>>();
            self.counted.extend(counted);
        }
    }

    fn counts(&self, (index, visitor, number): &Counted) -> bool {
        let (event, filters) = (&self.events[*index], &self.question.filters);
        let accepts = |filter: &[String], text: Option<&str>| {
            filter.is_empty() || text.is_some_and(|text| filter.iter().any(|value| value == text))
        };
        let page = &self.visits[&(visitor.clone(), *number)].page;
        let of_visit = |at: usize| page.as_ref().and_then(|page| page[at].as_deref());
        self.range.contains(&event.time_ms)
            && accepts(&filters.page, event.path)
            && accepts(&filters.country, event.country)
            && accepts(&filters.device, device_of(event))
            && accepts(&filters.source, of_visit(2))
            && accepts(&filters.campaign, of_visit(3))
    }

    fn began_ms(&self, counted: &Counted) -> i64 {
        self.visits[&(counted.1.clone(), counted.2)].began_ms
    }

    /// Counts visitors, visits, views, events and personalized visitors of the events that `is_in` accepts. Visits
    /// count if `has_begun` accepts their begin.
    fn totals(&self, is_in: impl Fn(i64) -> bool, has_begun: impl Fn(i64) -> bool) -> [usize; 5] {
        let mut sets: [BTreeSet<(String, usize)>; 3] = Default::default();
        let (mut views, mut actions) = (0, 0);
        for counted in &self.counted {
            let event = &self.events[counted.0];
            let began_ms = self.began_ms(counted);
            if began_ms >= self.range.start && has_begun(began_ms) {
                sets[1].insert((counted.1.clone(), counted.2));
            }
            if !is_in(event.time_ms) {
                continue;
            }
            if event.kind == RecordKind::Page {
                views += 1;
                sets[0].insert((counted.1.clone(), 0));
                let mut shown = event.variants.unwrap_or_default().split(',').filter(|pair| !pair.is_empty());
                if shown.any(|pair| !pair.ends_with(":default")) {
                    sets[2].insert((counted.1.clone(), 0));
                }
            }
            actions += usize::from(is_action(event));
        }
        [sets[0].len(), sets[1].len(), views, actions, sets[2].len()]
    }

    fn value(&self, counted: &Counted, of: &str) -> Option<String> {
        let event = &self.events[counted.0];
        let page = &self.visits[&(counted.1.clone(), counted.2)].page;
        let of_visit = |at: usize| page.as_ref().and_then(|page| page[at].clone());
        match of {
            "page" => event.path.map(str::to_owned),
            "entry" => of_visit(0),
            "exit" => of_visit(1),
            "source" => of_visit(2),
            "campaign" => of_visit(3),
            "medium" => of_visit(4),
            "term" => of_visit(5),
            "content" => of_visit(6),
            "referrer" => external_host(event).map(str::to_owned),
            "country" => event.country.map(str::to_owned),
            "device" => device_of(event).map(str::to_owned),
            "event" => Some(name_of(event)).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// Returns views, events, visitors and visits by value, and in all.
    fn groups(&self, of: &str) -> (NaiveGroups, [usize; 4]) {
        let mut groups: BTreeMap<_, Vec<&Counted>> = BTreeMap::new();
        let all: Vec<&Counted> = self
            .counted
            .iter()
            .filter(|counted| of != "event" || is_action(&self.events[counted.0]))
            .collect();
        for counted in &all {
            let value = self.value(counted, of);
            groups.entry((value.is_none(), value)).or_default().push(counted);
        }
        let numbers =
            groups.into_iter().map(|(value, counted)| (value, self.numbers(&counted, of))).collect();
        (numbers, self.numbers(&all, of))
    }

    fn numbers(&self, counted: &[&Counted], of: &str) -> [usize; 4] {
        let event = |counted: &&&Counted| &self.events[counted.0];
        let is_page = |counted: &&&Counted| event(counted).kind == RecordKind::Page;
        let visitors =
            counted.iter().filter(|counted| of == "event" || is_page(counted)).map(|counted| &counted.1);
        let begun = counted.iter().filter(|counted| self.began_ms(counted) >= self.range.start);
        [
            counted.iter().filter(is_page).count(),
            counted.iter().filter(|counted| is_action(event(counted))).count(),
            visitors.collect::<BTreeSet<_>>().len(),
            begun.map(|counted| (&counted.1, counted.2)).collect::<BTreeSet<_>>().len(),
        ]
    }
}

fn naive_visit(events: &[&Event]) -> NaiveVisit {
    let mut pages = events.iter().filter(|event| event.kind == RecordKind::Page);
    let path = |event: &Event| event.path.map(str::to_owned);
    let page = pages.next().map(|first| {
        let source = first.touch[0].or(external_host(first)).unwrap_or("(direct)");
        let last = pages.next_back().unwrap_or(first);
        let [medium, term, content] = first.details.map(|text| text.map(str::to_owned));
        let (source, campaign) = (Some(source.to_owned()), first.touch[1].map(str::to_owned));
        [path(first), path(last), source, campaign, medium, term, content]
    });
    NaiveVisit { began_ms: events[0].time_ms, page }
}

pub(super) fn external_host(event: &Event) -> Option<&'static str> {
    event.touch[2].and_then(|referrer| referrer.split('/').nth(2)).filter(|host| *host == "b.example")
}

pub(super) fn device_of(event: &Event) -> Option<&'static str> {
    match event.device {
        Device::Mobile => Some("mobile"),
        Device::Desktop => Some("desktop"),
        _ => None,
    }
}

fn is_action(event: &Event) -> bool {
    matches!(event.kind, RecordKind::Track | RecordKind::Screen)
}

fn name_of(event: &Event) -> String {
    if event.kind == RecordKind::Screen {
        "screen".to_owned()
    } else {
        event.event.unwrap_or_default().to_owned()
    }
}

fn totals_json([visitors, visits, views, events, personalized]: [usize; 5]) -> Value {
    json!({"visitors": visitors, "visits": visits, "views": views, "events": events, "personalized": personalized})
}

/// Returns the expected members of an overview.
fn naive_overview(events: &[Event], question: &Question) -> Value {
    let zone = site().zone;
    let all = |range: &Range<i64>| Naive::new(events, question, range.clone()).totals(|_| true, |_| true);
    let naive = Naive::new(events, question, question.range.clone());
    let buckets = zone.buckets(&question.range, question.by).expect("few buckets");
    let ends = buckets.iter().skip(1).copied().chain([i64::MAX]);
    let series: Vec<[usize; 5]> = buckets
        .iter()
        .zip(ends)
        .map(|(start, end)| {
            let is_in = |time_ms: i64| (*start..end).contains(&time_ms);
            naive.totals(is_in, is_in)
        })
        .collect();
    let column = |at: usize| series.iter().map(|totals| totals[at]).collect::<Vec<_>>();
    json!({
        "totals": totals_json(all(&question.range)),
        "series": {
            "t": buckets.iter().map(|start| start / 1000).collect::<Vec<_>>(),
            "visitors": column(0), "visits": column(1), "views": column(2), "events": column(3),
        },
    })
}

/// Returns the expected members of a list.
fn naive_top(events: &[Event], question: &Question, of: &str) -> Value {
    let (groups, total) = Naive::new(events, question, question.range.clone()).groups(of);
    let rank = match of {
        "event" => 1,
        "entry" | "exit" | "source" | "medium" | "campaign" | "term" | "content" => 3,
        _ => 0,
    };
    let mut groups: Vec<_> = groups.into_iter().collect();
    if let Some(part) = &question.contains {
        groups.retain(|((_, value), _)| {
            value.as_ref().is_some_and(|value| value.to_lowercase().contains(part))
        });
    }
    groups.sort_by(|(a, a_numbers), (b, b_numbers)| {
        b_numbers[rank].cmp(&a_numbers[rank]).then_with(|| a.cmp(b))
    });
    let row = |((_, value), numbers): &((bool, Option<String>), [usize; 4])| json!({"value": value, "views": numbers[0], "events": numbers[1], "visitors": numbers[2], "visits": numbers[3]});
    let rows: Vec<Value> = groups.iter().take(question.limit).map(row).collect();
    let [views, actions, visitors, visits] = total;
    json!({
        "rows": rows, "more": groups.len().saturating_sub(question.limit),
        "total": {"views": views, "events": actions, "visitors": visitors, "visits": visits},
    })
}

/// Compares an overview, or a list of values, with the naive count.
pub(super) fn check(
    events: &[Event],
    (question, answer): (Question, Value),
    of: Option<&str>,
) -> Result<(), TestCaseError> {
    let Some(of) = of else {
        let expected = naive_overview(events, &question);
        prop_assert_eq!(&answer["totals"], &expected["totals"]);
        prop_assert_eq!(&answer["series"], &expected["series"]);
        return Ok(());
    };
    let expected = naive_top(events, &question, of);
    for member in ["rows", "total", "more"] {
        prop_assert_eq!(&answer[member], &expected[member], "{} of {}", member, of);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_number_equals_a_naive_count(
        events in proptest::collection::vec(any_event(), 0..120),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        params in any_params(),
        memory_bytes in select(vec![2_000, 6_000, 1 << 30]),
    ) {
        let (site, files) = (site(), columns(&events, &lengths));
        let files: Vec<&Columns> = files.iter().collect();
        let limits = Limits { memory_bytes, is_over: &|| false };
        let pairs = || params.iter().map(|(name, value)| (*name, value.as_str()));
        let ask = |subject: Subject| {
            let question = Question::parse(subject, pairs(), &site.zone, NOW_MS).expect("valid parameters");
            let answer = answer_over(&files, CountedLog::alone(9), &Query::Views(question.clone()), &site, NOW_MS, &limits).expect("an answer");
            (question, answer.document)
        };
        let (_, of) = params.iter().find(|(name, _)| *name == "of").expect("a group");
        check(&events, ask(Subject::Overview), None)?;
        check(&events, ask(Subject::Top), Some(of))?;
    }
}
