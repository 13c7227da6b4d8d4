//! From a body to the fates of its events.
//!
//! Two steps, since the site may be named in the body: [`Sent::of`] finds whom it is for and checks what concerns the whole
//! body; once the caller has found the site, [`Judge::judge`] gives every event its fate, in order, and hands on the record
//! of each that is to be recorded.

use std::net::IpAddr;

use super::context;
use super::document::{Document, Value};
use super::encode::Room;
use super::endpoint::Endpoint;
use super::event::{self, Event};
use super::ip::IpPolicy;
use super::members::{Members, Named};
use super::receipt::{Fates, Reason};
use super::refusal::{Place, Refusal};
use crate::limits::{CONTEXTS_BYTES_MAX, EVENTS_MAX};
use crate::problem;
use crate::visitors::log::Record;

/// What a body says of its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'d> {
    /// `trackingId`, else `writeKey`; not checked.
    pub tracking_id: Option<&'d str>,
    /// `site`; not checked.
    pub site: Option<&'d str>,
}

/// One event, or a batch.
pub struct Sent<'d> {
    root: Value<'d>,
    members: Members<'d>,
    batch: Option<Value<'d>>,
    pub(super) endpoint: Endpoint,
    pub(super) context: Option<Value<'d>>,
    pub(super) sent_ms: Option<i64>,
    /// Whom it is for.
    pub address: Address<'d>,
}

/// What is known of a call beside its body.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub site: &'a str,
    pub tracking_id: &'a str,
    pub policy: Policy,
    /// Unix milliseconds, between 1970 and the year 9999.
    pub received_ms: i64,
    /// `X-Preview: 1`.
    pub preview: bool,
    /// `Sec-GPC: 1`.
    pub gpc: bool,
    pub referer: Option<&'a str>,
    /// The header's agent, where it is the visitor's own and not that of a server that sends for them.
    pub user_agent: Option<&'a str>,
    /// A checked anon ID from a parameter, a header or a cookie, for events that name none.
    pub anon_id: Option<&'a str>,
    pub peer: IpAddr,
}

/// What the site says of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    pub bots: Bots,
    pub honor_gpc: bool,
    pub ip: IpPolicy,
}

/// What becomes of a crawler's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bots {
    Drop,
    /// Recorded with a flag, and in no profile.
    #[default]
    Flag,
    /// Recorded as anybody's.
    Keep,
}

/// What decoding asks of others.
pub trait Outside {
    /// Whether a User-Agent is a crawler's.
    fn is_crawler(&mut self, user_agent: &str) -> bool;

    /// The path as a route is written; None where it is none.
    fn page_path(&mut self, value: &str) -> Option<&str>;

    /// A new message ID: lower-case hex digits.
    fn mint(&mut self) -> [u8; 16];
}

impl<'d> Sent<'d> {
    /// What a body that was sent to `endpoint` holds, before its events are looked at.
    ///
    /// # Errors
    /// `invalid_event`, `invalid_timestamp`, `batch_too_large` for what concerns the whole body, `invalid_tracking_id`,
    /// `missing_site` for a site's name that is no text.
    pub fn of(document: &'d Document<'d>, endpoint: Endpoint) -> Result<Self, Refusal> {
        let root = document.root();
        let place = Place { index: None, within: root };
        let members = Members::of(root);
        let address = address(&members, place)?;
        let single = Self { root, members, batch: None, endpoint, context: None, sent_ms: None, address };
        match members.get(Named::Batch) {
            Some(batch) => batched(single, batch, place),
            None if endpoint == Endpoint::Batch => {
                Err(place.lacks(problem::INVALID_EVENT, "batch", "an array of events in 'batch'"))
            }
            None => Ok(single),
        }
    }

    /// Checks that a batch which names its site names that of the request; each event is asked by itself.
    ///
    /// # Errors
    /// `site_mismatch`.
    pub fn check_site(&self, call: &Call<'_>) -> Result<(), Refusal> {
        match self.batch {
            Some(_) => event::check_site(&self.members, call, Place { index: None, within: self.root }),
            None => Ok(()),
        }
    }

    /// The events, each with where it stands and what it has.
    fn events(&self) -> impl Iterator<Item = (Place<'d>, Members<'d>)> + use<'_, 'd> {
        let single = self.batch.is_none().then_some((Place { index: None, within: self.root }, self.members));
        let events = self.batch.into_iter().flat_map(|batch| batch.elements().enumerate());
        let place = |(i, within)| (Place { index: Some(i), within }, Members::of(within));
        single.into_iter().chain(events.map(place))
    }
}

/// What a body says of its site. What is given and is no text is not taken for nothing.
fn address<'d>(members: &Members<'d>, place: Place<'d>) -> Result<Address<'d>, Refusal> {
    let text = |value: Option<Value<'d>>, kind, expected| {
        let text = |value: Value<'d>| value.text().ok_or_else(|| place.refuse(kind, value, expected));
        value.map(text).transpose()
    };
    Ok(Address {
        tracking_id: text(
            members.tracking_id(),
            problem::INVALID_TRACKING_ID,
            "a tracking ID ('track_...')",
        )?,
        site: text(members.get(Named::Site), problem::MISSING_SITE, "a site's ID")?,
    })
}

/// Checks a batch as a whole.
fn batched<'d>(single: Sent<'d>, batch: Value<'d>, place: Place<'d>) -> Result<Sent<'d>, Refusal> {
    let members = &single.members;
    if !batch.is_array() {
        return Err(place.refuse(problem::INVALID_EVENT, batch, "an array of events"));
    }
    if batch.len() > EVENTS_MAX {
        let expected = "a batch of at most 2500 events";
        return Err(place.too_much(problem::BATCH_TOO_LARGE, batch, expected, batch.len()));
    }
    let context = members.get(Named::Context);
    if let Some(context) = context {
        context::check_batch(context, place)?;
        let bytes = context.source().len() * batch.len();
        if bytes > CONTEXTS_BYTES_MAX {
            let expected = "a context that takes at most 4194304 bytes under all events of the batch";
            return Err(place.too_much(problem::BATCH_TOO_LARGE, context, expected, bytes));
        }
    }
    let sent_ms = members.get(Named::SentAt).map(|value| event::instant(value, place)).transpose()?;
    Ok(Sent { batch: Some(batch), context, sent_ms, ..single })
}

/// Gives events their fates. Keeps its buffers.
#[derive(Default)]
pub struct Judge {
    room: Room,
}

impl Judge {
    /// Judges every event, in order, and gives `record` those that are to be recorded. The fates take the room of `used`.
    pub fn judge<'d>(
        &mut self,
        sent: &Sent<'d>,
        call: &Call<'d>,
        outside: &mut impl Outside,
        used: Fates,
        mut record: impl FnMut(&Record<'_>),
    ) -> Fates {
        let mut fates = used.begin(sent.batch.is_some(), sent.batch.map_or(1, Value::len));
        for (place, members) in sent.events() {
            match Event::read(place, &members, sent, call) {
                Err(refusal) => fates.reject(event::message_id_of(&members), refusal),
                Ok(event) => match verdict(&event, call, outside) {
                    Err(reason) => fates.drop(event.message_id, reason),
                    Ok(bot) => {
                        record(&self.room.record(&event, bot, call, outside));
                        fates.record(event.message_id);
                    }
                },
            }
        }
        fates
    }
}

/// Whether a valid event is flagged as a bot's; or why it is dropped. A preview is nobody's visit, so it goes first; whether
/// somebody is a crawler is asked last, since a visitor's will counts before a guess.
fn verdict(event: &Event<'_>, call: &Call<'_>, outside: &mut impl Outside) -> Result<bool, Reason> {
    if call.preview || event.context.is_preview {
        return Err(Reason::Preview);
    }
    if event.context.is_refused || (call.gpc && call.policy.honor_gpc) {
        return Err(Reason::NoConsent);
    }
    let agent = event.context.user_agent.or(call.user_agent);
    let mut is_crawler = || agent.is_some_and(|agent| outside.is_crawler(agent));
    match call.policy.bots {
        Bots::Drop if is_crawler() => Err(Reason::Bot),
        Bots::Flag => Ok(is_crawler()),
        _ => Ok(false),
    }
}
