//! `site.json`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::site::source::pattern::{COOKIE, Name, TRACKING_ID};

/// The site itself.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Site {
    /// The site's id, as servers and the operator name it.
    pub site: Name,
    /// The id that pages carry: `track_` and a name.
    #[schemars(extend("pattern" = TRACKING_ID.regex))]
    pub tracking_id: String,
    /// The site's name for people.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The version of this publication; `compile --version` stands above it. Of two versions the higher is served.
    #[schemars(range(max = 9_007_199_254_740_992_u64))]
    pub version: Option<u64>,
    /// Origins whose browsers may read private answers and send events: `https://www.example.com`, `https://*.example.com`,
    /// `http://localhost:*`. None: every origin may send events, and credentials are not shared.
    #[serde(default)]
    pub origins: Vec<String>,
    /// The IANA time zone of `now` in conditions, such as `Europe/Berlin`.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// The cookie that carries a visitor's id.
    #[serde(default = "anon_id")]
    #[schemars(extend("pattern" = COOKIE.regex))]
    pub cookie: String,
    /// How long shared caches keep public answers.
    #[serde(default)]
    pub cache: Cache,
    /// What is kept of visitors.
    #[serde(default)]
    pub privacy: Privacy,
    /// What becomes of the events of crawlers.
    #[serde(default)]
    #[schemars(extend("default" = "flag"))]
    pub bots: Bots,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn anon_id() -> String {
    "anon_id".to_owned()
}

/// Times of shared caches, by endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cache {
    /// Layouts of known variants. Default: 300, 3600, 86400.
    #[serde(default)]
    resolve: AuthoredTimes,
    /// Answers to content queries. Default: 60, 3600, 86400.
    #[serde(default)]
    query: AuthoredTimes,
    /// The list of routes. Default: 60, 600, 86400.
    #[serde(default)]
    routes: AuthoredTimes,
}

/// Times of one endpoint, in seconds; what is left out stays at its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuthoredTimes {
    /// How long an answer is fresh.
    #[schemars(range(max = 2_147_483_648_u32))] // RFC 9111 1.2.2: what a cache takes for ever
    s_max_age: Option<u32>,
    /// How long after that it may be served while a new one is fetched.
    #[schemars(range(max = 2_147_483_648_u32))]
    stale_while_revalidate: Option<u32>,
    /// How long after that it may be served while the server fails.
    #[schemars(range(max = 2_147_483_648_u32))]
    stale_if_error: Option<u32>,
}

/// The times of one endpoint's public answers, in seconds, each up to 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheTimes {
    pub s_max_age: u32,
    pub stale_while_revalidate: u32,
    pub stale_if_error: u32,
}

impl Cache {
    pub fn resolve(&self) -> CacheTimes {
        self.resolve.or(300, 3600, 86_400)
    }

    pub fn query(&self) -> CacheTimes {
        self.query.or(60, 3600, 86_400)
    }

    pub fn routes(&self) -> CacheTimes {
        self.routes.or(60, 600, 86_400)
    }
}

impl AuthoredTimes {
    fn or(&self, s_max_age: u32, stale_while_revalidate: u32, stale_if_error: u32) -> CacheTimes {
        CacheTimes {
            s_max_age: self.s_max_age.unwrap_or(s_max_age),
            stale_while_revalidate: self.stale_while_revalidate.unwrap_or(stale_while_revalidate),
            stale_if_error: self.stale_if_error.unwrap_or(stale_if_error),
        }
    }
}

/// What is kept of visitors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Privacy {
    /// Whether events with `Sec-GPC: 1` are dropped.
    #[serde(default)]
    pub honor_gpc: bool,
    /// Whether a visitor's IP address is stored.
    #[serde(default)]
    #[schemars(extend("default" = "none"))]
    pub ip: IpAddresses,
}

/// Whether a visitor's IP address is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IpAddresses {
    /// Never stored.
    #[default]
    None = 0,
    /// Stored without its last part.
    Truncated = 1,
    /// Stored as it is.
    Full = 2,
}

/// What becomes of the events of crawlers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Bots {
    /// Not recorded.
    Drop = 0,
    /// Recorded with a flag, in no profile.
    #[default]
    Flag = 1,
    /// Recorded like any visitor's.
    Keep = 2,
}
