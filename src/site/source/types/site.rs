//! The types of `site.json`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::experiment::Share;
use super::goal::Attribution;
use super::{Goals, Segments};
use crate::limits::{
    IGNORED_REFERRER_CHARS_MAX, IGNORED_REFERRERS_MAX, PRIVATE_TRAITS_MAX, PROPERTIES_MAX,
    PROPERTY_NAME_CHARS_MAX, SEARCHABLE_TRAITS_MAX, TRAIT_NAME_BYTES_MAX,
};
use crate::site::source::pattern::{COOKIE, HOST, HOSTS, NAME_CHARS_MAX, Name, TRACKING_ID};

/// The settings of a site.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Site {
    /// The site ID, which servers and operators use.
    pub site: Name,
    /// The tracking ID, which pages use: `track_` and a name.
    #[schemars(extend("pattern" = TRACKING_ID.regex))]
    pub tracking_id: String,
    /// A display name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The version of this publication. `compile --version` overrides it. Servers serve the highest version.
    #[schemars(range(max = 9_007_199_254_740_992_u64))]
    pub version: Option<u64>,
    /// The origins whose pages may read private responses and send events, such as `https://www.example.com`,
    /// `https://*.example.com` or `http://localhost:*`. If the list is empty, all origins may send events,
    /// without credentials.
    #[serde(default)]
    pub origins: Vec<String>,
    /// Further host names of the site, such as `shop.example.com`. A referrer on one of them, or on a host of
    /// `origins`, is not external. A leading `www.` does not count.
    #[serde(default)]
    #[schemars(inner(regex(pattern = HOST.regex)))]
    pub hosts: Vec<String>,
    /// Hosts that visitors pass on the way and do not come from, such as `checkout.example.com`, or `*.example.com` for a
    /// domain and all its subdomains. A referrer on one of them is not external: it makes no touch and is not the source of
    /// a visit. A leading `www.` does not count.
    #[serde(default)]
    #[schemars(
        length(max = IGNORED_REFERRERS_MAX),
        inner(length(max = IGNORED_REFERRER_CHARS_MAX), regex(pattern = HOSTS.regex))
    )]
    pub ignored_referrers: Vec<String>,
    /// If true, referrers on the hosts of well-known payment providers and identity providers are ignored too.
    #[serde(default = "yes")]
    pub ignore_providers: bool,
    /// The visitors that see no experiment, so that the effect of all experiments together can be measured.
    pub holdout: Option<Holdout>,
    /// The events and pages that visitors should reach, by key.
    #[serde(default)]
    pub goals: Goals,
    /// Saved selections of events and visitors for questions, by key.
    #[serde(default)]
    pub segments: Segments,
    /// The properties of events by which questions can divide their numbers, such as `plan`. A `.` separates the names of
    /// members of objects.
    #[serde(default)]
    #[schemars(length(max = PROPERTIES_MAX), inner(length(min = 1, max = PROPERTY_NAME_CHARS_MAX)))]
    pub properties: Vec<String>,
    /// The traits that lists of visitors show, and by which a visitor can be found, such as `email`.
    #[serde(default)]
    #[schemars(length(max = SEARCHABLE_TRAITS_MAX), inner(length(min = 1, max = TRAIT_NAME_BYTES_MAX)))]
    pub searchable: Vec<String>,
    /// The traits that analysts do not see at the admin address, but only roles that may export a visitor, such as `email`.
    #[serde(default)]
    #[schemars(length(max = PRIVATE_TRAITS_MAX), inner(length(min = 1, max = TRAIT_NAME_BYTES_MAX)))]
    pub private: Vec<String>,
    /// The visit to which conversions are credited if their own visit has no source.
    #[serde(default)]
    pub attribution: Attribution,
    /// The IANA time zone of `now` in conditions, such as `Europe/Berlin`.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// The name of the cookie with the visitor's anon ID.
    #[serde(default = "anon_id")]
    #[schemars(extend("pattern" = COOKIE.regex))]
    pub cookie: String,
    /// The verification of user IDs.
    #[serde(default)]
    pub identity: Identity,
    /// The times that shared caches keep public responses.
    #[serde(default)]
    pub cache: Cache,
    /// The privacy settings for visitors.
    #[serde(default)]
    pub privacy: Privacy,
    /// The treatment of events from crawlers.
    #[serde(default)]
    #[schemars(extend("default" = "flag"))]
    pub bots: Bots,
    /// If true, `/v1/rules` publishes the rules of the site: conditions, audiences, experiments, zones and routes. Everyone who knows
    /// the tracking ID can read them.
    #[serde(default)]
    pub local_decisions: bool,
    /// The name of the preview, if this is a preview site. It is not authored.
    #[serde(skip)]
    pub preview: Option<String>,
}

impl Site {
    /// Turns the site into its preview `name`: a site of its own, without cache times.
    ///
    /// # Errors
    /// An ID of the preview site would be too long. Returns the member and the maximum length of its value.
    pub fn into_preview(self, name: &str) -> Result<Site, (&'static str, usize)> {
        let site = format!("{}--{name}", self.site);
        let tracking_id = format!("{}--{name}", self.tracking_id);
        let added = name.len() + "--".len();
        let site = Name::try_from(site).map_err(|_| ("site", NAME_CHARS_MAX - added))?;
        if !(TRACKING_ID.matches)(&tracking_id) {
            return Err(("trackingId", "track_".len() + NAME_CHARS_MAX - added));
        }
        // The preview holds out the same visitors.
        let seed = self.site.to_string();
        let holdout = self.holdout.map(|holdout| Holdout { seed: holdout.seed.or(Some(seed)), ..holdout });
        Ok(Site { site, tracking_id, preview: Some(name.to_owned()), cache: Cache::none(), holdout, ..self })
    }
}

fn yes() -> bool {
    true
}

fn utc() -> String {
    "UTC".to_owned()
}

fn anon_id() -> String {
    "anon_id".to_owned()
}

/// The visitors that see no experiment.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Holdout {
    /// The share of visitors that are held out, from 0 to 1. `0.05` is five percent.
    pub share: Share,
    /// The seed that is hashed with the visitor's ID, at most 256 characters. Another seed holds out other visitors.
    /// Default: the site ID.
    #[schemars(length(min = 1, max = 256))]
    pub seed: Option<String>,
    /// If true, no rule at all applies to these visitors: each zone with rules shows `default`.
    #[serde(default)]
    pub rules: bool,
}

/// The verification of user IDs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    /// The condition on which user IDs count.
    #[serde(default)]
    #[schemars(extend("default" = "none"))]
    pub verify: Verification,
}

/// The condition on which a user ID of a request or an event counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Verification {
    /// Each user ID counts. Anyone who knows one can see its pages and change its traits.
    #[default]
    None,
    /// A user ID counts only with `userHash`: its HMAC-SHA-256 with a key of the site, in hex. The server reads the keys
    /// from the file of `--identity-keys`.
    Signed,
}

/// The cache times of public responses, by endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cache {
    /// Layouts of a request whose variants all exist.
    /// Default: `sMaxAge` 300, `staleWhileRevalidate` 3600, `staleIfError` 86400.
    #[serde(default)]
    resolve: AuthoredTimes,
    /// Results of content queries.
    /// Default: `sMaxAge` 60, `staleWhileRevalidate` 3600, `staleIfError` 86400.
    #[serde(default)]
    query: AuthoredTimes,
    /// Lists of routes and of variant combinations.
    /// Default: `sMaxAge` 60, `staleWhileRevalidate` 600, `staleIfError` 86400.
    #[serde(default)]
    routes: AuthoredTimes,
}

/// The cache times of one endpoint, in seconds. A missing member keeps its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuthoredTimes {
    /// The time that a response is fresh (`s-maxage`).
    #[schemars(range(max = 2_147_483_648_u32))]
    // RFC 9111 section 1.2.2: a cache treats 2^31 as infinite
    s_max_age: Option<u32>,
    /// The time after that during which a cache may serve the response while it fetches a new one
    /// (`stale-while-revalidate`).
    #[schemars(range(max = 2_147_483_648_u32))]
    stale_while_revalidate: Option<u32>,
    /// The time after that during which a cache may serve the response while the server fails
    /// (`stale-if-error`).
    #[schemars(range(max = 2_147_483_648_u32))]
    stale_if_error: Option<u32>,
}

/// The cache times of one endpoint's public responses, in seconds, each at most 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheTimes {
    pub s_max_age: u32,
    pub stale_while_revalidate: u32,
    pub stale_if_error: u32,
}

impl Cache {
    /// Returns cache times of 0.
    fn none() -> Self {
        let none =
            AuthoredTimes { s_max_age: Some(0), stale_while_revalidate: Some(0), stale_if_error: Some(0) };
        Self { resolve: none.clone(), query: none.clone(), routes: none }
    }

    pub fn resolve(&self) -> CacheTimes {
        self.resolve.with_defaults(300, 3600, 86_400)
    }

    pub fn query(&self) -> CacheTimes {
        self.query.with_defaults(60, 3600, 86_400)
    }

    pub fn routes(&self) -> CacheTimes {
        self.routes.with_defaults(60, 600, 86_400)
    }
}

impl AuthoredTimes {
    fn with_defaults(&self, s_max_age: u32, stale_while_revalidate: u32, stale_if_error: u32) -> CacheTimes {
        CacheTimes {
            s_max_age: self.s_max_age.unwrap_or(s_max_age),
            stale_while_revalidate: self.stale_while_revalidate.unwrap_or(stale_while_revalidate),
            stale_if_error: self.stale_if_error.unwrap_or(stale_if_error),
        }
    }
}

/// The privacy settings for visitors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Privacy {
    /// True: a request with `Sec-GPC: 1` is not personalized, and its events are dropped.
    #[serde(default)]
    pub honor_gpc: bool,
    /// Whether to store the IP addresses of visitors.
    #[serde(default)]
    #[schemars(extend("default" = "none"))]
    pub ip: IpPolicy,
    /// The categories of a consent manager, as Segment's wrappers send them in `context.consent.categoryPreferences`.
    #[serde(default)]
    pub consent_categories: ConsentCategories,
}

/// The categories of a consent manager that mean the two consents of Parallax. Without a category nothing follows from
/// the visitor's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsentCategories {
    /// The categories that allow to measure. An event whose visitor accepted not all of them is dropped.
    #[serde(default)]
    pub measure: CategoryNames,
    /// The categories that allow to personalize. `/v1/site` returns them, so that a page can send `personalize=0`.
    #[serde(default)]
    pub personalize: CategoryNames,
}

/// The name of a category, or a list of names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CategoryNames {
    One(String),
    Several(Vec<String>),
}

impl CategoryNames {
    /// Returns the names.
    pub fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

impl Default for CategoryNames {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

/// The setting for storing the IP addresses of visitors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IpPolicy {
    /// Never stored.
    #[default]
    None = 0,
    /// Stored as a network: the first 24 bits of IPv4, the first 48 bits of IPv6.
    Truncated = 1,
    /// Stored in full.
    Full = 2,
}

/// The treatment of events from crawlers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Bots {
    /// Not recorded.
    Drop = 0,
    /// Recorded with a flag. No profile changes.
    #[default]
    Flag = 1,
    /// Recorded with a flag. Profiles change as with the events of any visitor.
    Keep = 2,
}
