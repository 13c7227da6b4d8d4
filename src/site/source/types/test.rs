//! The types of `tests/*.json`: the cases of `parallax test`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{AnyObject, RawJson};
use crate::site::source::pattern::ROUTE_PATH;

/// Cases of one file in `tests/`. A case takes about a millisecond, so a full file takes ten seconds. A file with one more is
/// refused.
pub const CASES_MAX: usize = 10_000;
/// Events of a visitor in a case. A profile keeps fewer times of one name. A case with one more is refused.
pub const CASE_EVENTS_MAX: usize = 1_000;
/// Anon IDs that a case with `arms` tries, each in about a millisecond. Of 20,000 arms with one percent of the visitors, one has none
/// of the first 1,000 IDs. If no ID fits, the case is refused.
pub const ARM_IDS_MAX: usize = 1_000;
/// Length of the name of a case, in characters. Reports print it in one line. A longer name is refused.
pub const CASE_NAME_CHARS_MAX: usize = 200;

/// The cases of `parallax test`. They are not published.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The present time of the cases without a `now` of their own: a time of RFC 3339 with an offset, of the years 2020 to 2099.
    /// Default: `2026-01-01T12:00:00Z`.
    pub now: Option<String>,
    /// The cases, in the order in which they run. Each begins without any other visitor or event.
    #[schemars(length(min = 1, max = CASES_MAX))]
    pub cases: Vec<Case>,
}

/// A visitor, a page, and the expected decision.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of the case, once in each file. Reports print it, and `--filter` searches in it.
    #[schemars(length(min = 1, max = CASE_NAME_CHARS_MAX))]
    pub name: String,
    /// The present time: a time of RFC 3339 with an offset, of the years 2020 to 2099. Default: that of the file.
    pub now: Option<String>,
    /// The visitor. Default: a new visitor, of whom nothing is known.
    #[serde(default)]
    pub visitor: CaseVisitor,
    /// The path of the page, such as `/` or `/blog/hello`.
    #[schemars(extend("pattern" = ROUTE_PATH.regex))]
    pub path: String,
    /// The URL of the page, with the campaign in its query: `/?utm_source=letter` or `https://www.example.com/?utm_source=letter`.
    /// Default: the path.
    pub url: Option<String>,
    /// The URL of the page before.
    pub referrer: Option<String>,
    /// The variants of the zones that are not decided but forced, by zone, as `override` does. `default` is one of them.
    #[serde(default)]
    pub r#override: BTreeMap<String, String>,
    pub expect: Expectations,
}

/// A visitor: the request for the page, and the events before it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CaseVisitor {
    /// The anon ID. Experiments draw the arm by it. Default: `visitor-1`, unless there is a `userId`.
    pub anon_id: Option<String>,
    /// The arms of experiments, by key: the visitor has the first of the anon IDs `visitor-1` to `visitor-1000` that gets these arms
    /// on the page. Not beside `anonId` or `userId`.
    pub arms: BTreeMap<String, String>,
    /// The user ID of a request without an anon ID, such as that of a server. An identify event ties an anon ID to a user.
    pub user_id: Option<String>,
    /// The traits at the time of the page. They replace those of the events.
    #[schemars(with = "AnyObject")]
    pub traits: Option<RawJson>,
    /// The events before the page, as a client sends them, in the order in which they arrive. An event that names no visitor is
    /// one of this visitor. An event without a time happens at `now`.
    #[schemars(with = "Vec<EventSchema>", length(max = CASE_EVENTS_MAX))]
    pub events: Vec<BTreeMap<String, RawJson>>,
    /// The `User-Agent` of the browser, for the device and for crawlers.
    pub user_agent: Option<String>,
    /// The preferred language, such as `de-DE`.
    pub locale: Option<String>,
    /// The country: two letters, such as `NO`.
    pub country: Option<String>,
    /// True if the browser sends `Sec-GPC: 1` (Global Privacy Control).
    pub gpc: bool,
    pub consent: CaseConsent,
}

/// The consent of a visitor.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaseConsent {
    /// False if the events are sent without consent, so that they are dropped.
    pub measure: bool,
    /// False if the page is decided without the past of the visitor (`personalize=0`).
    pub personalize: bool,
}

impl Default for CaseConsent {
    fn default() -> Self {
        Self { measure: true, personalize: true }
    }
}

/// The expected decision. At least one member has an expectation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// The variant of each zone, or `default`. With null, the zone is not on the page.
    #[serde(default)]
    pub variants: BTreeMap<String, Option<String>>,
    /// The arm of each experiment, or `~` for the holdout. With null, the experiment decides no zone of the page.
    #[serde(default)]
    pub experiments: BTreeMap<String, Option<String>>,
    /// Props of components by the ID of the component, or of the page by `root`. Props and members of objects that are not named
    /// may have any value. With null, the component is not on the page.
    #[serde(default)]
    pub props: BTreeMap<String, Option<Map<String, Value>>>,
    /// The target of a redirect.
    pub redirect: Option<ExpectedRedirect>,
}

/// The expected target of a redirect.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedRedirect {
    /// The path or the URL, with the values of the path of the case.
    pub to: String,
    /// The status. Default: any.
    #[schemars(extend("enum" = [301, 302, 303, 307, 308]))]
    pub status: Option<u16>,
}

/// The schema of an event. Its values are checked by the decoder of events.
#[derive(JsonSchema)]
#[serde(rename = "Event", rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct EventSchema {
    /// The time of the event before `now`, such as `-3d`: `-`, and a whole number of `s`, `m`, `h` or `d`.
    at: Option<String>,
    /// The time of the event: ISO 8601, or seconds or milliseconds since 1970. It is not later than `now`.
    timestamp: Option<Value>,
    /// The type. Default: that which the members imply: `event`, `traits` or `userId`, or an operation such as `set`.
    #[schemars(extend("enum" = ["track", "page", "identify", "screen", "group", "alias", "profile"]))]
    r#type: Option<String>,
    /// The name of a track event, such as `Order Placed`.
    event: Option<String>,
    /// The name of a page or a screen.
    name: Option<String>,
    /// The properties. A page has its `path` or `url` here.
    properties: Option<AnyObject>,
    /// The traits of an identify event.
    traits: Option<AnyObject>,
    /// The context of the event: `page`, `campaign`, `locale`, `userAgent`, `consent` ...
    context: Option<AnyObject>,
    /// The anon ID. Default: that of the visitor.
    anon_id: Option<Value>,
    /// The anon ID, as Segment's libraries name it.
    anonymous_id: Option<Value>,
    /// The user ID. Default: that of a visitor without an anon ID.
    user_id: Option<Value>,
    /// The ID before an alias.
    previous_id: Option<Value>,
    /// The ID of the message. An event with the ID of an earlier one is a duplicate.
    message_id: Option<Value>,
    /// The variants of the page, as a response names them.
    variants: Option<String>,
    /// The experiments of the page, as a response names them: `key:arm` pairs. They enrol the visitor.
    experiments: Option<String>,
    /// The ID of the group of a group event.
    group_id: Option<Value>,
    /// The traits that a profile event sets.
    set: Option<Value>,
    /// The traits that a profile event sets unless the visitor has them.
    set_once: Option<Value>,
    /// The traits that a profile event removes.
    unset: Option<Value>,
    /// The numbers that a profile event adds to traits.
    increment: Option<Value>,
    /// The values that a profile event appends to lists.
    append: Option<Value>,
    /// The values that a profile event adds to lists, each once.
    union: Option<Value>,
    /// The values that a profile event removes from lists.
    remove: Option<Value>,
}
