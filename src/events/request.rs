//! The parts of a request that apply to all of its events, apart from the body, and the functions of the caller.

use std::net::IpAddr;

use super::ip::IpPolicy;
use crate::identity_keys::UserRule;
use crate::record::{Code, UserAgentInfo};

/// The parts of a request that apply to all of its events, apart from the body.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'a> {
    pub site: &'a str,
    pub tracking_id: &'a str,
    pub policy: Policy,
    /// Unix milliseconds, between 1970 and the year 9999.
    pub received_ms: i64,
    /// True if the request has `X-Preview: 1`.
    pub is_preview: bool,
    /// True if the request has `Sec-GPC: 1`.
    pub gpc: bool,
    pub referer: Option<&'a str>,
    /// The `User-Agent` header, if it is the visitor's and not that of a server that sends events for
    /// visitors.
    pub user_agent: Option<&'a str>,
    /// The primary language of the request, for events whose context has no locale.
    pub language: Option<Code<3>>,
    /// The country of the request, for events whose context has none.
    pub country: Option<Code<2>>,
    /// A valid anon ID from a parameter, a header or a cookie, for events without one.
    pub anon_id: Option<&'a str>,
    /// The rule by which user IDs count.
    pub user_rule: UserRule<'a>,
    pub peer: IpAddr,
}

/// A site's settings for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    pub bots: BotPolicy,
    pub honor_gpc: bool,
    pub ip: IpPolicy,
}

/// The treatment of events from crawlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BotPolicy {
    Drop,
    /// Record them with a flag. They change no profile.
    #[default]
    Flag,
    /// Record them with a flag. They change profiles like any other event.
    Keep,
}

/// The functions that event validation needs from its caller.
pub trait Environment {
    /// Parses a User-Agent.
    fn parse_user_agent(&mut self, user_agent: &str) -> UserAgentInfo;

    /// Iterates over the hosts that the site lists, without a leading `www.`. One may begin with `*.`.
    fn site_hosts(&self) -> impl Iterator<Item = &str>;

    /// Returns whether the site ignores referrers on this host, which has no leading `www.`.
    fn is_ignored_referrer(&self, host: &str) -> bool;

    /// Iterates over the categories of a consent manager under which the site measures.
    fn measure_categories(&self) -> impl Iterator<Item = &str>;

    /// Returns the path in the form of routes, or `None` if it cannot be a route.
    fn page_path(&mut self, path: &str) -> Option<&str>;

    /// Returns the hash of the phase in which this arm of an experiment is published. `None` if it is not published.
    fn phase_hash(&self, experiment_key: &str, arm: &str) -> Option<u32>;

    /// Returns a new message ID of lower-case hex digits.
    fn generate_message_id(&mut self) -> [u8; 16];
}
