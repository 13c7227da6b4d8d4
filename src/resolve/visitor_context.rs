//! The visitor context: the fields of a visitor and a request that conditions can read.
//!
//! A visitor without a profile is a new visitor: one visit, all counts zero, no times, no traits.

use std::cell::OnceCell;

use serde_json::{Map, Value as Json, json};

use super::user_agent::UserAgentInfo;
use crate::condition::{Document, Value};
use crate::record::{Code, RecordContext, primary_language};
use crate::site::profile_fields::ProfileField;
use crate::site::snapshot::format::{ArchivedClockOffset, ArchivedSite};
use crate::url::{self, PageUrl};
use crate::visitors::profile::history::History;
use crate::visitors::profile::profile::Profile;
use crate::visitors::profile::touch::Touch;

/// A visitor as known from the request and the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visitor<'a> {
    /// Validated: 1 to 128 bytes of visible ASCII, not a placeholder.
    pub anon_id: Option<&'a str>,
    /// Validated: 1 to 256 bytes, not a placeholder. `None` if there is an anon ID.
    pub user_id: Option<&'a str>,
    /// True if the request has a user ID that does not count, because it is not verified.
    pub is_user_unverified: bool,
    /// The visitor profile from the log, with the enrolments of the ID that experiments hash. `None` for a new visitor.
    pub profile: Option<Profile<'a>>,
    /// The parsed User-Agent.
    pub agent: UserAgentInfo,
    /// A language tag in UTF-8. Only a rule that reads it converts it to a text.
    pub locale: Option<&'a [u8]>,
    /// Two upper-case letters or digits.
    pub country: Option<[u8; 2]>,
    /// The page's own URL.
    pub url: Option<&'a [u8]>,
    /// The URL of the previous page, which led the visitor to this one.
    pub referrer: Option<&'a str>,
    /// Unix milliseconds.
    pub now_ms: i64,
    /// True if the visitor is on the site at `now_ms`, which counts as a visit. False for statistics, which count
    /// recorded visits only.
    pub is_present: bool,
    /// True if the server lacks events of the visitor, so that it must not decide.
    pub is_stale: bool,
}

impl<'a> Visitor<'a> {
    /// Returns the ID that experiments hash.
    pub(crate) fn id(&self) -> Option<&'a str> {
        self.anon_id.or(self.user_id)
    }

    /// Returns whether the visitor gets the default variants without a look at the rules.
    pub(crate) fn gets_baseline(&self) -> bool {
        self.agent.is_crawler || self.is_stale
    }
}

/// The visitor context of one request.
pub(crate) struct VisitorContext<'a> {
    visitor: &'a Visitor<'a>,
    url: &'a PageUrl,
    site: &'a ArchivedSite,
    local: OnceCell<LocalTime>,
    language: OnceCell<Option<Code<3>>>,
}

impl<'a> VisitorContext<'a> {
    /// Creates a context. `url` must hold the visitor's parsed URL if the site's rules read it.
    pub(crate) fn new(site: &'a ArchivedSite, visitor: &'a Visitor<'a>, url: &'a PageUrl) -> Self {
        Self { visitor, url, site, local: OnceCell::new(), language: OnceCell::new() }
    }

    fn local(&self) -> &LocalTime {
        self.local.get_or_init(|| LocalTime::at(&self.site.clock_offsets, self.visitor.now_ms))
    }

    fn locale(&self) -> Option<&str> {
        std::str::from_utf8(self.visitor.locale?).ok()
    }

    /// Returns the primary language of the locale in lower case: `de` of `de-DE`.
    fn language(&self) -> Option<&str> {
        let language = self.language.get_or_init(|| primary_language(self.locale()?));
        language.as_ref().map(Code::as_str)
    }

    fn country(&self) -> Option<&str> {
        std::str::from_utf8(self.visitor.country.as_ref()?).ok()
    }

    /// Returns the touch of the request itself, if its URL has a campaign or its referrer is external.
    fn request_touch(&self) -> Option<Touch<'_>> {
        let utm = |name| self.url.param(name).filter(|value| !value.is_empty());
        let referrer = self.external_referrer();
        (referrer.is_some() || self.url.has_campaign()).then(|| Touch {
            source: utm("utm_source"),
            medium: utm("utm_medium"),
            campaign: utm("utm_campaign"),
            term: utm("utm_term"),
            content: utm("utm_content"),
            referrer,
            landing: self.url.path(),
            at_ms: self.visitor.now_ms,
        })
    }

    fn external_referrer(&self) -> Option<&str> {
        let page_url = || std::str::from_utf8(self.visitor.url?).ok();
        let hosts = || self.site.hosts.iter().map(|host| host.as_str());
        let is_ignored = |host: &str| self.site.ignores_referrer(host);
        self.visitor.referrer.filter(|referrer| url::is_external(referrer, page_url(), hosts(), is_ignored))
    }

    fn first_touch(&self) -> Option<Touch<'_>> {
        self.visitor.profile.and_then(|profile| profile.first_touch()).or_else(|| self.request_touch())
    }

    fn last_touch(&self) -> Option<Touch<'_>> {
        self.request_touch().or_else(|| self.visitor.profile?.last_touch())
    }

    /// Returns the user ID of the profile, or that of the request if the user is new.
    fn user_id(&self) -> Option<&str> {
        self.visitor.profile.and_then(|profile| profile.user_id()).or(self.visitor.user_id)
    }

    fn visits(&self) -> u64 {
        match (&self.visitor.profile, self.visitor.is_present) {
            (Some(profile), true) => profile.visits_at(self.visitor.now_ms),
            (Some(profile), false) => profile.visits(),
            (None, is_present) => u64::from(is_present),
        }
    }

    /// Returns the trait `name` (the path after `traits.`), or a member of a trait.
    fn trait_value(&self, name: &str) -> Option<Value<'_>> {
        let profile = self.visitor.profile.as_ref()?;
        let member = |at| profile.trait_value(&name[..at]).and_then(|value| value.get_path(&name[at + 1..]));
        // Names are short: a loop over the bytes costs less than a search for a pattern.
        let mut dots = name.bytes().enumerate().filter(|(_, byte)| *byte == b'.').map(|(at, _)| at);
        profile.trait_value(name).or_else(|| dots.find_map(member))
    }

    /// Iterates over the histories of the event with this name, or of all events with its prefix
    /// (`Product*`).
    fn events<'n>(&'n self, name: &'n str) -> impl Iterator<Item = History<'n>> {
        let profile = self.visitor.profile.as_ref();
        let (exact, prefix) = split_prefix(name);
        let one = profile.zip(exact).and_then(|(profile, name)| profile.event_history(name));
        let many = profile.zip(prefix).into_iter();
        one.into_iter().chain(many.flat_map(|(profile, prefix)| profile.event_histories_of_prefix(prefix)))
    }

    /// Iterates over the histories of the page with this path, or of all pages with its prefix (`/docs/*`).
    fn pages<'n>(&'n self, path: &'n str) -> impl Iterator<Item = History<'n>> {
        let profile = self.visitor.profile.as_ref();
        let (exact, prefix) = split_prefix(path);
        let one = profile.zip(exact).and_then(|(profile, path)| profile.page_history(path));
        let many = profile.zip(prefix).into_iter();
        one.into_iter().chain(many.flat_map(|(profile, prefix)| profile.page_histories_of_prefix(prefix)))
    }

    /// Returns the context as JSON, for explanations.
    pub(crate) fn to_json(&self) -> Json {
        let query: Map<_, _> =
            self.url.params().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let local = self.local();
        let mut document = profile_json(self.visitor.profile, self.visits());
        document["visitor"]["userId"] = json!(self.user_id());
        if self.visitor.is_user_unverified {
            document["visitor"]["userIdVerified"] = json!(false);
        }
        document.extend([
            ("anonId".to_owned(), json!(self.visitor.anon_id)),
            ("firstTouch".to_owned(), json!(self.first_touch().map(touch_json))),
            ("lastTouch".to_owned(), json!(self.last_touch().map(touch_json))),
            (
                "device".to_owned(),
                json!({ "type": self.visitor.agent.device.as_str(), "os": self.visitor.agent.os.as_str(),
                    "browser": self.visitor.agent.browser.as_str() }),
            ),
            ("locale".to_owned(), json!(self.locale())),
            ("language".to_owned(), json!(self.language())),
            ("country".to_owned(), json!(self.country())),
            ("url".to_owned(), json!({ "path": self.url.path(), "query": query })),
            (
                "now".to_owned(),
                json!({ "hour": local.hour, "weekday": local.weekday, "date": local.format_civil_date(),
                    "at": self.visitor.now_ms }),
            ),
        ]);
        Json::Object(document)
    }
}

/// Returns whether the value of a field depends on the request of a visitor with this profile. Device and country are
/// those of the last context, if it has them.
pub(crate) fn is_of_request(code: u16, profile: &Profile<'_>) -> bool {
    use ProfileField as F;
    let Some(field) = F::from_code(code) else { return false };
    let values = profile.last_context().map(|context| context.values);
    match field {
        F::DeviceType | F::DeviceOs | F::DeviceBrowser => !values.is_some_and(RecordContext::has_agent),
        F::Country => values.and_then(RecordContext::country).is_none(),
        F::Language => values.is_none_or(|values| values.language().is_none()),
        // A record has the language without its region.
        F::Locale => true,
        F::UrlPath | F::UrlQuery => true,
        // The touch of a request is newer than that of the profile.
        field if field.is_of_touch() => {
            field as u16 >= F::LastTouchSource as u16 || profile.first_touch().is_none()
        }
        _ => false,
    }
}

/// Returns the part of the context that does not depend on a request: the visitor's past, with this number of visits.
/// `None` is a new visitor.
pub fn profile_json(profile: Option<Profile<'_>>, visit_count: u64) -> Map<String, Json> {
    let past = |history| ActivitySummary::of(std::iter::once(history)).to_json();
    let known = profile.iter();
    let names = known
        .clone()
        .flat_map(Profile::event_histories)
        .map(|(name, history)| (name.to_owned(), past(history)));
    let pages = known.clone().flat_map(Profile::page_histories);
    let pages = pages.filter_map(|(path, history)| Some((path?.to_owned(), past(history))));
    let traits = known.flat_map(Profile::traits).map(|(name, value)| (name.to_owned(), value.to_json()));
    let members = [
        (
            "visitor",
            json!({ "isNew": visit_count <= 1, "isReturning": visit_count > 1, "visits": visit_count,
                "pageViews": profile.map_or(0, |profile| profile.page_views()),
                "events": profile.map_or(0, |profile| profile.events()),
                "firstSeen": profile.and_then(|profile| profile.first_seen_ms()),
                "lastSeen": profile.and_then(|profile| profile.last_seen_ms()),
                "userId": profile.and_then(|profile| profile.user_id()) }),
        ),
        ("traits", Json::Object(traits.collect())),
        ("events", Json::Object(names.collect())),
        ("pages", Json::Object(pages.collect())),
        ("firstTouch", json!(profile.and_then(|profile| profile.first_touch()).map(touch_json))),
        ("lastTouch", json!(profile.and_then(|profile| profile.last_touch()).map(touch_json))),
    ];
    members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Splits the name of an event or page into an exact name, or the prefix before a final `*`.
fn split_prefix(name: &str) -> (Option<&str>, Option<&str>) {
    match name.strip_suffix('*') {
        Some(prefix) => (None, Some(prefix)),
        None => (Some(name), None),
    }
}

/// The number of occurrences of an event or page, and the first and last time. Empty if there were none.
#[derive(Debug, Clone, Copy, Default)]
struct ActivitySummary {
    count: u64,
    ends_ms: Option<(i64, i64)>,
}

impl ActivitySummary {
    fn of<'h>(histories: impl Iterator<Item = History<'h>>) -> Self {
        histories.fold(Self::default(), Self::merge)
    }

    fn merge(self, history: History<'_>) -> Self {
        let (first_ms, last_ms) = self.ends_ms.unwrap_or((history.first_ms, history.last_ms));
        let ends_ms = (first_ms.min(history.first_ms), last_ms.max(history.last_ms));
        Self { count: self.count.saturating_add(history.count), ends_ms: Some(ends_ms) }
    }

    fn first(self) -> Option<Value<'static>> {
        time_or_null(self.ends_ms.map(|(first_ms, _)| first_ms))
    }

    fn last(self) -> Option<Value<'static>> {
        time_or_null(self.ends_ms.map(|(_, last_ms)| last_ms))
    }

    fn to_json(self) -> Json {
        let (first_ms, last_ms) = self.ends_ms.unzip();
        json!({ "count": self.count, "first": first_ms, "last": last_ms })
    }
}

fn touch_json(touch: Touch<'_>) -> Json {
    json!({
        "source": touch.source, "medium": touch.medium, "campaign": touch.campaign, "term": touch.term,
        "content": touch.content, "referrer": touch.referrer, "landing": touch.landing,
    })
}

fn text(text: Option<&str>) -> Option<Value<'_>> {
    text.map(Value::String)
}

/// Returns a time as a value, or null.
fn time_or_null(at_ms: Option<i64>) -> Option<Value<'static>> {
    Some(at_ms.map_or(Value::Null, |at_ms| Value::Number(at_ms as f64)))
}

fn number(number: u64) -> Option<Value<'static>> {
    Some(Value::Number(number as f64))
}

/// Counts the occurrences, or only the kept times at or after `since_ms`. With several names, that count is
/// either exact or at least `TIMES_KEPT`, as with one name.
fn count_all<'h>(histories: impl Iterator<Item = History<'h>>, since_ms: Option<i64>) -> u64 {
    let kept =
        |history: History<'h>, since_ms| history.times().take_while(|at_ms| *at_ms >= since_ms).count();
    let counts =
        histories.map(|history| since_ms.map_or(history.count, |since_ms| kept(history, since_ms) as u64));
    counts.fold(0, u64::saturating_add)
}

impl Document for VisitorContext<'_> {
    fn get(&self, code: u16, name: &str) -> Option<Value<'_>> {
        use ProfileField as F;
        let profile = self.visitor.profile.as_ref();
        match F::from_code(code)? {
            F::IsNew => Some(Value::Bool(self.visits() <= 1)),
            F::IsReturning => Some(Value::Bool(self.visits() > 1)),
            F::Visits => number(self.visits()),
            F::PageViews => number(profile.map_or(0, |profile| profile.page_views())),
            F::Events => number(profile.map_or(0, |profile| profile.events())),
            F::FirstSeen => time_or_null(profile.and_then(|profile| profile.first_seen_ms())),
            F::LastSeen => time_or_null(profile.and_then(|profile| profile.last_seen_ms())),
            F::UserId => text(self.user_id()).or(Some(Value::Null)),
            F::Trait => self.trait_value(name),
            F::EventCount => number(ActivitySummary::of(self.events(name)).count),
            F::EventFirst => ActivitySummary::of(self.events(name)).first(),
            F::EventLast => ActivitySummary::of(self.events(name)).last(),
            F::PageCount => number(ActivitySummary::of(self.pages(name)).count),
            F::PageFirst => ActivitySummary::of(self.pages(name)).first(),
            F::PageLast => ActivitySummary::of(self.pages(name)).last(),
            F::Event | F::Page => None,
            F::FirstTouchSource => text(self.first_touch()?.source),
            F::FirstTouchMedium => text(self.first_touch()?.medium),
            F::FirstTouchCampaign => text(self.first_touch()?.campaign),
            F::FirstTouchTerm => text(self.first_touch()?.term),
            F::FirstTouchContent => text(self.first_touch()?.content),
            F::FirstTouchReferrer => text(self.first_touch()?.referrer),
            F::FirstTouchLanding => text(self.first_touch()?.landing),
            F::LastTouchSource => text(self.last_touch()?.source),
            F::LastTouchMedium => text(self.last_touch()?.medium),
            F::LastTouchCampaign => text(self.last_touch()?.campaign),
            F::LastTouchTerm => text(self.last_touch()?.term),
            F::LastTouchContent => text(self.last_touch()?.content),
            F::LastTouchReferrer => text(self.last_touch()?.referrer),
            F::LastTouchLanding => text(self.last_touch()?.landing),
            F::DeviceType => text(Some(self.visitor.agent.device.as_str())),
            F::DeviceOs => text(Some(self.visitor.agent.os.as_str())),
            F::DeviceBrowser => text(Some(self.visitor.agent.browser.as_str())),
            F::Locale => text(self.locale()),
            F::Language => text(self.language()),
            F::Country => text(self.country()),
            F::UrlPath => text(self.url.path()),
            F::UrlQuery => text(self.url.param(name)),
            F::Hour => number(u64::from(self.local().hour)),
            F::Weekday => number(u64::from(self.local().weekday)),
            F::Date => text(Some(self.local().format_civil_date())),
            F::At => time_or_null(Some(self.visitor.now_ms)),
        }
    }

    fn count(&self, code: u16, name: &str, since_ms: Option<i64>) -> u64 {
        match ProfileField::from_code(code) {
            Some(ProfileField::Event) => count_all(self.events(name), since_ms),
            Some(ProfileField::Page) => count_all(self.pages(name), since_ms),
            _ => 0,
        }
    }

    fn now_ms(&self) -> i64 {
        self.visitor.now_ms
    }
}

/// A point in time on the site's local clock.
#[derive(Debug, Clone, Copy)]
struct LocalTime {
    /// 0 to 23.
    hour: u32,
    /// 1 = Monday to 7.
    weekday: u32,
    /// "2026-01-05"
    date: [u8; 10],
}

impl LocalTime {
    fn at(clock_offsets: &[ArchivedClockOffset], now_ms: i64) -> Self {
        let utc_s = now_ms.div_euclid(1000);
        let begun = clock_offsets.partition_point(|c| c.from_s.to_native() <= utc_s);
        let offset_s = clock_offsets.get(begun.saturating_sub(1)).map_or(0, |c| c.offset_s.to_native());
        let local_s = utc_s + i64::from(offset_s);
        let day = local_s.div_euclid(86_400);
        Self {
            hour: (local_s.rem_euclid(86_400) / 3600) as u32,
            // 1970-01-01 was a Thursday.
            weekday: (day + 3).rem_euclid(7) as u32 + 1,
            date: date(day),
        }
    }

    fn format_civil_date(&self) -> &str {
        std::str::from_utf8(&self.date).unwrap_or_default()
    }
}

/// Formats a day since 1970-01-01 as a civil date, for the years 0 to 9999 (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn date(day: i64) -> [u8; 10] {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let digit = |n: i64| b'0' + n.rem_euclid(10) as u8;
    let [y, m, d] = [year, month, day_of_month];
    [
        digit(y / 1000),
        digit(y / 100),
        digit(y / 10),
        digit(y),
        b'-',
        digit(m / 10),
        digit(m),
        b'-',
        digit(d / 10),
        digit(d),
    ]
}
