//! Invented visitors with their facts, times and events. All choices follow from a seed.

use serde_json::{Value as Json, json};

const ORIGIN: &str = "https://www.fjell.example";

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

/// Visits of one visitor at most.
const VISITS_MAX: u32 = 8;
/// Pages of one visit at most.
const PAGES_MAX: u32 = 8;

/// Share of the visits that begin in the last half hour, so that the live view of a new server shows somebody.
const LIVE_SHARE: f64 = 0.003;
const LIVE_MS: i64 = 25 * MINUTE_MS;

/// A source of choices (SplitMix64). The same seed gives the same choices on every machine.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to and without 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn is(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.share() * bound as f64) as usize
    }

    /// Chooses one of the values by their weights.
    fn weighted<T: Copy>(&mut self, values: &[(u32, T)]) -> T {
        let total: u32 = values.iter().map(|(weight, _)| weight).sum();
        let mut at = (self.share() * f64::from(total)) as u32;
        for (weight, value) in values {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *value,
            }
        }
        values[0].1
    }

    /// Returns how often something happens again if it does with this probability each time.
    fn repeats(&mut self, probability: f64, count_max: u32) -> u32 {
        (0..count_max).take_while(|_| self.is(probability)).count() as u32
    }
}

/// The facts about a visitor that do not change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Person {
    pub country: &'static str,
    pub locale: &'static str,
    pub user_agent: &'static str,
}

const PLACES: &[(u32, (&str, &str))] = &[
    (52, ("NO", "nb-NO")),
    (13, ("SE", "sv-SE")),
    (9, ("DK", "da-DK")),
    (12, ("DE", "de-DE")),
    (5, ("GB", "en-GB")),
    (4, ("FI", "fi-FI")),
    (3, ("NL", "nl-NL")),
    (2, ("US", "en-US")),
];

const AGENTS: &[(u32, &str)] = &[
    (
        30,
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    ),
    (
        26,
        "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
    ),
    (
        20,
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    ),
    (9, "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:142.0) Gecko/20100101 Firefox/142.0"),
    (
        9,
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
    ),
    (
        6,
        "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    ),
];

/// The way to the site: the query of the first URL, and the referrer.
#[derive(Debug, Clone, Copy)]
struct Way {
    query: &'static str,
    referrer: &'static str,
}

const WAYS: &[(u32, Way)] = &[
    (34, Way { query: "", referrer: "" }),
    (30, Way { query: "", referrer: "https://www.google.com/" }),
    (12, Way { query: "?utm_source=sunday-letter&utm_medium=email&utm_campaign=three-nights", referrer: "" }),
    (
        9,
        Way {
            query: "?utm_source=instagram&utm_medium=social&utm_campaign=first-frost",
            referrer: "https://www.instagram.com/",
        },
    ),
    (6, Way { query: "", referrer: "https://duckduckgo.com/" }),
    (5, Way { query: "", referrer: "https://www.fjellforum.no/" }),
    (4, Way { query: "?utm_source=poster&utm_medium=print&utm_campaign=first-frost", referrer: "" }),
];

/// Visits by the hour of the day, from midnight in UTC: few at night, most in the evening.
const HOURS: &[(u32, i64)] = &[
    (1, 0),
    (1, 2),
    (2, 4),
    (4, 6),
    (6, 8),
    (7, 10),
    (8, 12),
    (7, 14),
    (8, 16),
    (11, 18),
    (10, 20),
    (4, 22),
];

/// The variants that the first page of a visit shows, as the server names them.
pub(super) struct Treatment {
    pub variants: String,
    pub experiments: String,
}

impl Treatment {
    /// Returns whether an experiment shows another arm than the default. Such visitors buy more often, so that the
    /// default number of visitors decides the result.
    fn is_treated(&self) -> bool {
        let arms = self.experiments.split(',').filter_map(|pair| pair.split_once(':'));
        arms.into_iter().any(|(_, arm)| arm != "default" && arm != "~")
    }
}

/// One visit that is planned.
pub(super) struct Visit {
    pub anon_id: String,
    pub person: Person,
    /// The number of this visit among those of its visitor, from 0.
    pub number: u32,
    pub begins_ms: i64,
    way: Way,
    /// The seed of the choices within the visit.
    seed: u64,
}

/// Plans the visits of all visitors. They begin within the last `days` days before `now_ms`.
pub(super) fn plan_visits(mut chance: Chance, visitor_count: u32, days: u32, now_ms: i64) -> Vec<Visit> {
    (0..visitor_count).flat_map(|_| plan_visitor(Chance::new(chance.next()), days, now_ms)).collect()
}

/// Plans the visits of one visitor. Only the times depend on `now_ms`, so that a second run sends the same message IDs.
fn plan_visitor(mut chance: Chance, days: u32, now_ms: i64) -> Vec<Visit> {
    let anon_id = format!("demo-{:016x}", chance.next());
    let (country, locale) = chance.weighted(PLACES);
    let person = Person { country, locale, user_agent: chance.weighted(AGENTS) };
    let visits = 0..=chance.repeats(0.42, VISITS_MAX - 1);
    let ways: Vec<(Way, u64)> = visits.map(|_| (chance.weighted(WAYS), chance.next())).collect();
    let mut times: Vec<i64> = ways.iter().map(|_| time_of_visit(&mut chance, days, now_ms)).collect();
    times.sort_unstable();
    let visit = |(number, (begins_ms, (way, seed)))| Visit {
        anon_id: anon_id.clone(),
        person,
        number,
        begins_ms,
        way,
        seed,
    };
    (0..).zip(times.into_iter().zip(ways)).map(visit).collect()
}

/// Chooses a time. There are more visits on later days and at weekends.
fn time_of_visit(chance: &mut Chance, days: u32, now_ms: i64) -> i64 {
    if chance.is(LIVE_SHARE) {
        return now_ms - chance.below(LIVE_MS as usize) as i64;
    }
    loop {
        // The larger of two choices is a rising line.
        let day = [chance.share(), chance.share() * 0.8].into_iter().fold(0.0, f64::max);
        let age_days = ((1.0 - day) * f64::from(days)) as i64;
        let midnight_ms = (now_ms / DAY_MS - age_days) * DAY_MS;
        let time_ms =
            midnight_ms + chance.weighted(HOURS) * HOUR_MS + chance.below(2 * HOUR_MS as usize) as i64;
        // 1970-01-01 was a Thursday.
        let is_weekend = matches!((time_ms / DAY_MS).rem_euclid(7), 2 | 3);
        let is_within = (now_ms - i64::from(days) * DAY_MS..now_ms).contains(&time_ms);
        if is_within && (is_weekend || chance.is(0.75)) {
            return time_ms;
        }
    }
}

impl Visit {
    /// Returns the path of the first page. More than half of the visits begin at the first path of the site.
    pub(super) fn landing<'a>(&self, paths: &'a [String]) -> &'a str {
        let chance = &mut Chance::new(!self.seed);
        if chance.is(0.55) { &paths[0] } else { popular(chance, paths) }
    }

    /// Returns the URL of the first page, with its campaign.
    pub(super) fn landing_url(&self, landing_path: &str) -> String {
        format!("{ORIGIN}{landing_path}{}", self.way.query)
    }

    /// Returns the events of the visit.
    pub(super) fn events(&self, paths: &[String], treatment: &Treatment) -> Vec<Json> {
        let chance = &mut Chance::new(self.seed);
        let mut list = EventList { visit: self, time_ms: self.begins_ms, events: Vec::new() };
        let landing = self.landing(paths);
        list.page(landing, &self.landing_url(landing), Some(treatment));
        let mut products = 0;
        for _ in 0..chance.repeats(0.62, PAGES_MAX - 1) {
            list.time_ms += 5_000 + chance.below(2 * MINUTE_MS as usize) as i64;
            let path = popular(chance, paths);
            list.page(path, &format!("{ORIGIN}{path}"), None);
            products += u32::from(path.starts_with("/products/"));
        }
        if products > 0 {
            list.track("Product Viewed", json!({ "products": products }));
        }
        let interest =
            if products > 0 { 0.25 } else { 0.08 } * if treatment.is_treated() { 1.5 } else { 1.0 };
        if chance.is(interest) {
            list.track("Product Added", json!({ "quantity": 1 + chance.below(2) }));
            list.order(chance);
        }
        if chance.is(0.03) {
            list.track("Newsletter Joined", json!({ "list": "sunday" }));
        }
        list.events
    }
}

/// Chooses a path. The first ones are chosen most often.
fn popular<'a>(chance: &mut Chance, paths: &'a [String]) -> &'a str {
    &paths[(chance.share().powi(2) * paths.len() as f64) as usize]
}

/// The events of a visit in the order of their times.
struct EventList<'a> {
    visit: &'a Visit,
    time_ms: i64,
    events: Vec<Json>,
}

impl EventList<'_> {
    fn push(&mut self, mut event: Json) {
        let Visit { anon_id, person, number, .. } = self.visit;
        let at = self.events.len();
        event["anonId"] = json!(anon_id);
        event["messageId"] = json!(format!("{anon_id}-{number}-{at}"));
        event["timestamp"] = json!(self.time_ms);
        event["context"] =
            json!({ "userAgent": person.user_agent, "locale": person.locale, "country": person.country });
        self.events.push(event);
        self.time_ms += 3_000;
    }

    fn page(&mut self, path: &str, url: &str, treatment: Option<&Treatment>) {
        let referrer = if treatment.is_some() { self.visit.way.referrer } else { "" };
        let mut event =
            json!({ "type": "page", "properties": { "path": path, "url": url, "referrer": referrer } });
        if let Some(treatment) = treatment {
            event["variants"] = json!(treatment.variants);
            event["experiments"] = json!(treatment.experiments);
        }
        self.push(event);
    }

    fn track(&mut self, event_name: &str, properties: Json) {
        self.push(json!({ "type": "track", "event": event_name, "properties": properties }));
    }

    /// Adds an order, and sometimes a refund or a membership after it.
    fn order(&mut self, chance: &mut Chance) {
        if !chance.is(0.55) {
            return;
        }
        let revenue = 149 + 50 * chance.below(120);
        self.track("Order Placed", json!({ "revenue": revenue, "currency": "NOK" }));
        if revenue > 4_000 {
            self.track("Tent Bought", json!({ "revenue": revenue }));
        }
        if chance.is(0.12) {
            self.track("Order Refunded", json!({ "revenue": revenue }));
        }
        if chance.is(0.3) {
            let plan = chance.weighted(&[(6, "guest"), (3, "member"), (1, "household")]);
            let user_id = format!("user-{}", self.visit.anon_id);
            self.push(json!({ "type": "identify", "userId": user_id, "traits": { "plan": plan } }));
        }
    }
}
