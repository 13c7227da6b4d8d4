//! The profile document: what rules see of a visitor and of the request.
//!
//! A visitor without history is a new visitor: one visit, nothing counted, no times, no traits.

use std::cell::OnceCell;

use serde_json::json;

use super::agent::Facts;
use crate::condition::{Document, Value};
use crate::snapshot::fields::ProfileField;
use crate::snapshot::format::{ArchivedClockOffset, ArchivedSite};
use crate::url::PageUrl;

/// What a request tells of its visitor.
#[derive(Debug, Clone, Copy)]
pub struct Visitor<'a> {
    /// Checked: 1 to 128 bytes of visible ASCII, no placeholder.
    pub anon_id: Option<&'a str>,
    /// What the User-Agent says.
    pub agent: Facts,
    /// A language tag.
    pub locale: Option<&'a str>,
    /// Two letters or digits, in upper case.
    pub country: Option<[u8; 2]>,
    /// The page's own URL.
    pub url: Option<&'a [u8]>,
    /// Where the visitor came from.
    pub referrer: Option<&'a str>,
    /// Unix milliseconds.
    pub now_ms: i64,
}

/// The document of one request.
pub struct ProfileDocument<'a> {
    visitor: &'a Visitor<'a>,
    url: &'a PageUrl,
    clock: &'a [ArchivedClockOffset],
    local: OnceCell<LocalTime>,
}

impl<'a> ProfileDocument<'a> {
    /// `url` holds the visitor's URL already, where the site's rules look at it.
    pub fn new(site: &'a ArchivedSite, visitor: &'a Visitor<'a>, url: &'a PageUrl) -> Self {
        Self { visitor, url, clock: &site.clock, local: OnceCell::new() }
    }

    fn local(&self) -> &LocalTime {
        self.local.get_or_init(|| LocalTime::at(self.clock, self.visitor.now_ms))
    }

    fn country(&self) -> Option<&str> {
        std::str::from_utf8(self.visitor.country.as_ref()?).ok()
    }

    /// A campaign in the URL is the last touch while deciding, and the first where there is none.
    fn touch(&self, utm: &str) -> Option<&str> {
        self.url.param(utm).filter(|value| !value.is_empty())
    }

    fn in_campaign<'v>(&self, value: Option<&'v str>) -> Option<&'v str> {
        value.filter(|_| self.url.has_campaign())
    }

    /// The document as JSON, for people who ask why.
    pub fn to_json(&self) -> serde_json::Value {
        let touch = self.url.has_campaign().then(|| {
            json!({
                "source": self.touch("utm_source"), "medium": self.touch("utm_medium"),
                "campaign": self.touch("utm_campaign"), "term": self.touch("utm_term"),
                "content": self.touch("utm_content"), "referrer": self.visitor.referrer,
                "landing": self.url.path(),
            })
        });
        let query: serde_json::Map<_, _> =
            self.url.params().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let local = self.local();
        json!({
            "anonId": self.visitor.anon_id,
            "visitor": { "isNew": true, "isReturning": false, "visits": 1, "pageViews": 0, "events": 0,
                "firstSeen": null, "lastSeen": null, "userId": null },
            "traits": {}, "events": {}, "pages": {},
            "firstTouch": touch, "lastTouch": touch,
            "device": { "type": self.visitor.agent.device.as_str(), "os": self.visitor.agent.os.as_str(),
                "browser": self.visitor.agent.browser.as_str() },
            "locale": self.visitor.locale, "country": self.country(),
            "url": { "path": self.url.path(), "query": query },
            "now": { "hour": local.hour, "weekday": local.weekday, "date": local.date() },
        })
    }
}

fn text(text: Option<&str>) -> Option<Value<'_>> {
    text.map(Value::String)
}

impl Document for ProfileDocument<'_> {
    fn get(&self, code: u16, name: &str) -> Option<Value<'_>> {
        use ProfileField as F;
        let number = |n: u32| Some(Value::Number(f64::from(n)));
        match F::of(code)? {
            F::IsNew => Some(Value::Bool(true)),
            F::IsReturning => Some(Value::Bool(false)),
            F::Visits => number(1),
            F::PageViews | F::Events | F::EventCount | F::PageCount => number(0),
            F::FirstSeen | F::LastSeen | F::UserId => Some(Value::Null),
            F::EventFirst | F::EventLast | F::PageFirst | F::PageLast => Some(Value::Null),
            F::Trait | F::Event | F::Page => None,
            F::FirstTouchSource | F::LastTouchSource => text(self.touch("utm_source")),
            F::FirstTouchMedium | F::LastTouchMedium => text(self.touch("utm_medium")),
            F::FirstTouchCampaign | F::LastTouchCampaign => text(self.touch("utm_campaign")),
            F::FirstTouchTerm | F::LastTouchTerm => text(self.touch("utm_term")),
            F::FirstTouchContent | F::LastTouchContent => text(self.touch("utm_content")),
            F::FirstTouchReferrer | F::LastTouchReferrer => text(self.in_campaign(self.visitor.referrer)),
            F::FirstTouchLanding | F::LastTouchLanding => text(self.in_campaign(self.url.path())),
            F::DeviceType => text(Some(self.visitor.agent.device.as_str())),
            F::DeviceOs => text(Some(self.visitor.agent.os.as_str())),
            F::DeviceBrowser => text(Some(self.visitor.agent.browser.as_str())),
            F::Locale => text(self.visitor.locale),
            F::Country => text(self.country()),
            F::UrlPath => text(self.url.path()),
            F::UrlQuery => text(self.url.param(name)),
            F::Hour => number(self.local().hour),
            F::Weekday => number(self.local().weekday),
            F::Date => text(Some(self.local().date())),
        }
    }

    fn count(&self, _code: u16, _name: &str, _since_ms: Option<i64>) -> u64 {
        0
    }

    fn now_ms(&self) -> i64 {
        self.visitor.now_ms
    }
}

/// A moment on the site's own clock.
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
    fn at(clock: &[ArchivedClockOffset], now_ms: i64) -> Self {
        let utc_s = now_ms.div_euclid(1000);
        let begun = clock.partition_point(|c| c.from_s.to_native() <= utc_s);
        let offset_s = clock.get(begun.saturating_sub(1)).map_or(0, |c| c.offset_s.to_native());
        let local_s = utc_s + i64::from(offset_s);
        let day = local_s.div_euclid(86_400);
        Self {
            hour: (local_s.rem_euclid(86_400) / 3600) as u32,
            // 1970-01-01 was a Thursday.
            weekday: (day + 3).rem_euclid(7) as u32 + 1,
            date: date(day),
        }
    }

    fn date(&self) -> &str {
        std::str::from_utf8(&self.date).unwrap_or_default()
    }
}

/// The civil date of a day since 1970-01-01, for the years 0 to 9999 (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`).
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
