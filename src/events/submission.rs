//! A body with one event or a batch: the site that it names, and the checks of the body as a whole.

use super::context;
use super::document::{Document, Value};
use super::endpoint::EventEndpoint;
use super::ignored::{IgnoredValues, JsonType};
use super::location::Location;
use super::members::{MemberName, Members};
use super::refusal::Refusal;
use super::request::RequestFacts;
use super::time;
use crate::limits::{CONTEXTS_BYTES_MAX, EVENTS_MAX};
use crate::problem;

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
    pub(super) batch: Option<Value<'d>>,
    pub(super) endpoint: EventEndpoint,
    pub(super) context: Option<Value<'d>>,
    pub(super) sent_ms: Option<i64>,
    /// The ignored values of the batch as a whole.
    pub(super) ignored: IgnoredValues,
    /// The site that the body names.
    pub site_ref: SiteRef<'d>,
}

impl<'d> Submission<'d> {
    /// Reads a body that was sent to `endpoint` and checks it as a whole. Does not validate the events.
    ///
    /// # Errors
    /// `invalid_event` and `batch_too_large` for errors of the whole body.
    /// `invalid_tracking_id` and `missing_site` if the site's name is not a text.
    pub fn parse(document: &'d Document<'d>, endpoint: EventEndpoint) -> Result<Self, Refusal> {
        let root = document.root();
        let location = Location { index: None, base: root };
        let members = Members::new(root);
        let site_ref = parse_site_ref(&members, location)?;
        let batch = members.get(MemberName::Batch);
        let BatchParts { context, sent_ms, ignored } = match batch {
            Some(batch) => parse_batch(&members, batch, location)?,
            None if endpoint == EventEndpoint::Batch => {
                return Err(location.refuse_missing(
                    problem::INVALID_EVENT,
                    "batch",
                    "The member 'batch' is missing; it is an array of events.",
                ));
            }
            None => BatchParts::default(),
        };
        Ok(Self { root, members, batch, endpoint, context, sent_ms, ignored, site_ref })
    }

    /// Returns the event of a record, which is no batch.
    pub(super) fn of_record(document: &'d Document<'d>) -> Self {
        let root = document.root();
        let BatchParts { context, sent_ms, ignored } = BatchParts::default();
        Self {
            root,
            members: Members::new(root),
            batch: None,
            endpoint: EventEndpoint::Batch,
            context,
            sent_ms,
            ignored,
            site_ref: SiteRef { tracking_id: None, site: None },
        }
    }

    /// Checks that a batch that names its site names the site of the request. Events are checked one by one
    /// later.
    ///
    /// # Errors
    /// `site_mismatch`.
    pub fn check_site(&self, request: &RequestFacts<'_>) -> Result<(), Refusal> {
        match self.batch {
            Some(_) => check_site(&self.members, request, Location { index: None, base: self.root }),
            None => Ok(()),
        }
    }

    /// Iterates over the events, each with its location and its members.
    pub(super) fn events(&self) -> impl Iterator<Item = (Location<'d>, Members<'d>)> + use<'_, 'd> {
        let single =
            self.batch.is_none().then_some((Location { index: None, base: self.root }, self.members));
        let events = self.batch.into_iter().flat_map(|batch| batch.elements().enumerate());
        let locate = |(index, event)| (Location { index: Some(index), base: event }, Members::new(event));
        single.into_iter().chain(events.map(locate))
    }
}

/// Reads the site that a body names. A value that is not a text is an error and does not count as missing.
fn parse_site_ref<'d>(members: &Members<'d>, location: Location<'d>) -> Result<SiteRef<'d>, Refusal> {
    let text = |value: Option<Value<'d>>, kind, expected| {
        let text = |value: Value<'d>| value.as_text().ok_or_else(|| location.refuse(kind, value, expected));
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
    location: Location<'d>,
) -> Result<BatchParts<'d>, Refusal> {
    if !batch.is_array() {
        return Err(location.refuse(problem::INVALID_EVENT, batch, "an array of events"));
    }
    if batch.len() > EVENTS_MAX {
        let sentence = "The batch has {} events, more than the limit of 2500.";
        return Err(location.refuse_count(problem::BATCH_TOO_LARGE, batch, sentence, batch.len()));
    }
    let mut ignored = IgnoredValues::default();
    let context = ignored.typed(JsonType::Object, members.get(MemberName::Context), location);
    if let Some(context) = context {
        context::check_batch(context, location, &mut ignored)?;
        let bytes = context.source().len() * batch.len();
        if bytes > CONTEXTS_BYTES_MAX {
            let sentence =
                "The context takes {} bytes in all events of the batch, more than the limit of 4194304.";
            return Err(location.refuse_count(problem::BATCH_TOO_LARGE, context, sentence, bytes));
        }
    }
    let sent_ms = read_sent_at(members, location, &mut ignored);
    Ok(BatchParts { context, sent_ms, ignored })
}

/// Checks that an event that names its site names the site of the request.
pub(super) fn check_site<'d>(
    members: &Members<'d>,
    request: &RequestFacts<'_>,
    location: Location<'d>,
) -> Result<(), Refusal> {
    let named = [(members.tracking_id(), request.tracking_id), (members.get(MemberName::Site), request.site)];
    let other = |(value, own): (Option<Value<'d>>, &str)| value.filter(|value| value.as_text() != Some(own));
    match named.into_iter().find_map(other) {
        Some(value) => Err(location.refuse(problem::SITE_MISMATCH, value, "the site of the request")),
        None => Ok(()),
    }
}

/// Reads the member `sentAt` of an event or a body. Ignores a value that is not a time.
pub(super) fn read_sent_at<'d>(
    members: &Members<'d>,
    location: Location<'d>,
    ignored_values: &mut IgnoredValues,
) -> Option<i64> {
    let value = members.get(MemberName::SentAt)?;
    let time = time::read(value);
    if time.is_none() {
        ignored_values.add(location, problem::INVALID_TIMESTAMP, value, time::EXPECTED);
    }
    time
}
