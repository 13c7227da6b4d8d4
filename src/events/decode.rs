//! From a body to the results of its events.
//!
//! There are two steps, since the body may name the site. `Submission::parse` reads the site and checks the
//! body as a whole. After the caller has found the site, `EventValidator::validate` validates the events in
//! order. It passes each record to the caller and returns one result per event.

use std::net::IpAddr;

use super::context;
use super::device;
use super::document::{Document, Value};
use super::encode::EncodeBuffers;
use super::endpoint::EventEndpoint;
use super::event::{self, Event};
use super::ignored::{IgnoredValues, JsonType};
use super::ip::IpPolicy;
use super::members::{MemberName, Members};
use super::receipt::{DropReason, EventResults};
use super::refusal::{Location, Refusal};
use crate::config::identity_keys::UserRule;
use crate::limits::{CONTEXTS_BYTES_MAX, EVENTS_MAX};
use crate::problem;
use crate::record::{Code, Record, UserAgentInfo};

/// The site that a body names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteRef<'d> {
    /// `trackingId`, else `writeKey`. Not validated.
    pub tracking_id: Option<&'d str>,
    /// `site`. Not validated.
    pub site: Option<&'d str>,
}

/// A body with one event or a batch, before its events are validated.
pub struct Submission<'d> {
    root: Value<'d>,
    members: Members<'d>,
    batch: Option<Value<'d>>,
    pub(super) endpoint: EventEndpoint,
    pub(super) context: Option<Value<'d>>,
    pub(super) sent_ms: Option<i64>,
    /// The ignored values of the batch as a whole.
    ignored: IgnoredValues,
    /// The site that the body names.
    pub site_ref: SiteRef<'d>,
}

/// The parts of a request that apply to all of its events, apart from the body.
#[derive(Debug, Clone, Copy)]
pub struct EventContext<'a> {
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
    fn page_path(&mut self, value: &str) -> Option<&str>;

    /// Returns a new message ID of lower-case hex digits.
    fn generate_message_id(&mut self) -> [u8; 16];
}

impl<'d> Submission<'d> {
    /// Reads a body that was sent to `endpoint` and checks it as a whole. Does not validate the events.
    ///
    /// # Errors
    /// `invalid_event` and `batch_too_large` for errors of the whole body.
    /// `invalid_tracking_id` and `missing_site` if the site's name is not a text.
    pub fn parse(document: &'d Document<'d>, endpoint: EventEndpoint) -> Result<Self, Refusal> {
        let root = document.root();
        let place = Location { index: None, base: root };
        let members = Members::new(root);
        let site_ref = parse_site_ref(&members, place)?;
        let batch = members.get(MemberName::Batch);
        let BatchParts { context, sent_ms, ignored } = match batch {
            Some(batch) => parse_batch(&members, batch, place)?,
            None if endpoint == EventEndpoint::Batch => {
                return Err(place.refuse_missing(
                    problem::INVALID_EVENT,
                    "batch",
                    "The member 'batch' is missing; it is an array of events.",
                ));
            }
            None => BatchParts::default(),
        };
        Ok(Self { root, members, batch, endpoint, context, sent_ms, ignored, site_ref })
    }

    /// Checks that a batch that names its site names the site of the request. Events are checked one by one
    /// later.
    ///
    /// # Errors
    /// `site_mismatch`.
    pub fn check_site(&self, call: &EventContext<'_>) -> Result<(), Refusal> {
        match self.batch {
            Some(_) => event::check_site(&self.members, call, Location { index: None, base: self.root }),
            None => Ok(()),
        }
    }

    /// Iterates over the events, each with its location and its members.
    fn events(&self) -> impl Iterator<Item = (Location<'d>, Members<'d>)> + use<'_, 'd> {
        let single =
            self.batch.is_none().then_some((Location { index: None, base: self.root }, self.members));
        let events = self.batch.into_iter().flat_map(|batch| batch.elements().enumerate());
        let place = |(i, within)| (Location { index: Some(i), base: within }, Members::new(within));
        single.into_iter().chain(events.map(place))
    }
}

/// Reads the site that a body names. A value that is not a text is an error and does not count as missing.
fn parse_site_ref<'d>(members: &Members<'d>, place: Location<'d>) -> Result<SiteRef<'d>, Refusal> {
    let text = |value: Option<Value<'d>>, kind, expected| {
        let text = |value: Value<'d>| value.as_text().ok_or_else(|| place.refuse(kind, value, expected));
        value.map(text).transpose()
    };
    Ok(SiteRef {
        tracking_id: text(
            members.tracking_id(),
            problem::INVALID_TRACKING_ID,
            "a tracking ID ('track_...')",
        )?,
        site: text(members.get(MemberName::Site), problem::MISSING_SITE, "a site's ID")?,
    })
}

/// The members of a batch that apply to all its events, and those that are ignored.
#[derive(Default)]
struct BatchParts<'d> {
    context: Option<Value<'d>>,
    sent_ms: Option<i64>,
    ignored: IgnoredValues,
}

/// Checks a batch as a whole.
fn parse_batch<'d>(
    members: &Members<'d>,
    batch: Value<'d>,
    place: Location<'d>,
) -> Result<BatchParts<'d>, Refusal> {
    if !batch.is_array() {
        return Err(place.refuse(problem::INVALID_EVENT, batch, "an array of events"));
    }
    if batch.len() > EVENTS_MAX {
        let sentence = "The batch has {} events, more than the limit of 2500.";
        return Err(place.refuse_count(problem::BATCH_TOO_LARGE, batch, sentence, batch.len()));
    }
    let mut ignored = IgnoredValues::default();
    let context = ignored.typed(JsonType::Object, members.get(MemberName::Context), place);
    if let Some(context) = context {
        context::check_batch(context, place, &mut ignored)?;
        let bytes = context.source().len() * batch.len();
        if bytes > CONTEXTS_BYTES_MAX {
            let sentence =
                "The context takes {} bytes in all events of the batch, more than the limit of 4194304.";
            return Err(place.refuse_count(problem::BATCH_TOO_LARGE, context, sentence, bytes));
        }
    }
    let sent_ms = event::read_sent_at(members, place, &mut ignored);
    Ok(BatchParts { context, sent_ms, ignored })
}

/// The sign of a browser without a screen, without its first letter: Chrome and Edge write it in upper case, test tools do
/// not. One search takes half of the instructions of two.
const HEADLESS_REST: &str = "eadless";

/// A validator of events. Reuses its buffers.
#[derive(Default)]
pub struct EventValidator {
    buffers: EncodeBuffers,
}

impl EventValidator {
    /// Validates every event in order and passes the records to `record`. The results reuse the allocations
    /// of `used`.
    pub fn validate<'d>(
        &mut self,
        sent: &Submission<'d>,
        call: &EventContext<'d>,
        outside: &mut impl Environment,
        used: EventResults,
        mut record: impl FnMut(&Record<'_>),
    ) -> EventResults {
        let mut results = used.reset(sent.batch.is_some(), sent.batch.map_or(1, Value::len));
        if sent.ignored.count() > 0 {
            results.ignored.add_of_batch(&sent.ignored);
        }
        for (place, members) in sent.events() {
            match Event::read(place, &members, sent, call, &mut results.ignored) {
                Err(refusal) => results.push_rejected(event::usable_message_id(&members), refusal),
                Ok(event) => match apply_policy(&event, call, outside) {
                    Err(reason) => results.push_dropped(event.message_id, reason),
                    Ok(agent) => {
                        record(&self.buffers.build_record(&event, &members, agent, call, outside));
                        results.push_recorded(event.message_id);
                    }
                },
            }
        }
        results
    }
}

/// Returns the parsed User-Agent of a valid event, or the reason to drop the event.
///
/// The check for previews comes first, since a preview is not a visit. The check for crawlers comes last,
/// since it is a guess, and the visitor's consent has precedence over a guess.
fn apply_policy(
    event: &Event<'_>,
    call: &EventContext<'_>,
    outside: &mut impl Environment,
) -> Result<UserAgentInfo, DropReason> {
    if call.is_preview || event.context.is_preview {
        return Err(DropReason::Preview);
    }
    let has_denied = event.context.has_denied_consent || denies_category(event, outside);
    if has_denied || (call.gpc && call.policy.honor_gpc) {
        return Err(DropReason::NoConsent);
    }
    let agent = event.context.user_agent.or(call.user_agent);
    let agent = agent.map_or_else(UserAgentInfo::default, |agent| parse_user_agent(agent, outside));
    let context = &event.context;
    let agent = if context.names_device { device::complete(agent, context.merged) } else { agent };
    match call.policy.bots {
        BotPolicy::Drop if agent.is_crawler => Err(DropReason::Bot),
        _ => Ok(agent),
    }
}

/// Returns whether the visitor denied measurement by the categories of a consent manager: the event has preferences, and
/// they do not accept each category that the site measures under. Without such a setting nothing follows from them.
fn denies_category(event: &Event<'_>, outside: &impl Environment) -> bool {
    let mut categories = outside.measure_categories().peekable();
    if categories.peek().is_none() {
        return false;
    }
    let preferences = event.context.category_preferences();
    preferences.value().is_some()
        && categories.any(|category| preferences.get(category).as_bool() != Some(true))
}

/// Parses the User-Agent of an event. A headless browser is a crawler here. It gets pages like a visitor, because
/// programs render pages with it for others, but its events are not those of a visitor.
fn parse_user_agent(user_agent: &str, outside: &mut impl Environment) -> UserAgentInfo {
    // `contains` compares 16 bytes at a time, `match_indices` does not.
    let is_headless = user_agent.contains(HEADLESS_REST)
        && user_agent.match_indices(HEADLESS_REST).any(|(at, _)| user_agent[..at].ends_with(['H', 'h']));
    if is_headless { UserAgentInfo::CRAWLER } else { outside.parse_user_agent(user_agent) }
}
