//! From a body to the results of its events.
//!
//! There are two steps, since the body may name the site. `Submission::parse` reads the site and checks the
//! body as a whole. After the caller has found the site, `EventValidator::validate` validates the events in
//! order. It passes each record to the caller and returns one result per event.

use super::device;
use super::document::Value;
use super::encode::EncodeBuffers;
use super::event::{self, Event};
use super::receipt::{DropReason, EventResults};
use super::request::{BotPolicy, Environment, RequestFacts};
use super::submission::Submission;
use crate::record::{Record, UserAgentInfo};

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
    /// of `results_buffer`.
    pub fn validate<'d>(
        &mut self,
        submission: &Submission<'d>,
        request: &RequestFacts<'d>,
        environment: &mut impl Environment,
        results_buffer: EventResults,
        mut record: impl FnMut(&Record<'_>),
    ) -> EventResults {
        let mut results =
            results_buffer.reset(submission.batch.is_some(), submission.batch.map_or(1, Value::len));
        if submission.ignored.count() > 0 {
            results.ignored.add_of_batch(&submission.ignored);
        }
        for (location, members) in submission.events() {
            match Event::read(location, &members, submission, request, &mut results.ignored) {
                Err(refusal) => results.push_rejected(event::usable_message_id(&members), refusal),
                Ok(event) => match apply_policy(&event, request, environment) {
                    Err(reason) => results.push_dropped(event.message_id, reason),
                    Ok(agent) => {
                        record(&self.buffers.build_record(&event, &members, agent, request, environment));
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
    request: &RequestFacts<'_>,
    environment: &mut impl Environment,
) -> Result<UserAgentInfo, DropReason> {
    if request.is_preview || event.context.is_preview {
        return Err(DropReason::Preview);
    }
    let has_denied = event.context.has_denied_consent || denies_category(event, environment);
    if has_denied || (request.gpc && request.policy.honor_gpc) {
        return Err(DropReason::NoConsent);
    }
    let agent = read_agent(event, request, environment);
    match request.policy.bots {
        BotPolicy::Drop if agent.is_crawler => Err(DropReason::Bot),
        _ => Ok(agent),
    }
}

/// Returns the device, the system and the browser of an event, by its User-Agent and its context.
pub(super) fn read_agent(
    event: &Event<'_>,
    request: &RequestFacts<'_>,
    environment: &mut impl Environment,
) -> UserAgentInfo {
    let agent = event.context.user_agent.or(request.user_agent);
    let agent = agent.map_or_else(UserAgentInfo::default, |agent| parse_user_agent(agent, environment));
    let context = &event.context;
    if context.names_device { device::complete(agent, context.merged) } else { agent }
}

/// Returns whether the visitor denied measurement by the categories of a consent manager: the event has preferences, and
/// they do not accept each category that the site measures under. Without such a setting nothing follows from them.
fn denies_category(event: &Event<'_>, environment: &impl Environment) -> bool {
    let mut categories = environment.measure_categories().peekable();
    if categories.peek().is_none() {
        return false;
    }
    let preferences = event.context.category_preferences();
    preferences.value().is_some()
        && categories.any(|category| preferences.get(category).as_bool() != Some(true))
}

/// Parses the User-Agent of an event. A headless browser is a crawler here. It gets pages like a visitor, because
/// programs render pages with it for others, but its events are not those of a visitor.
fn parse_user_agent(user_agent: &str, environment: &mut impl Environment) -> UserAgentInfo {
    // `contains` compares 16 bytes at a time, `match_indices` does not.
    let is_headless = user_agent.contains(HEADLESS_REST)
        && user_agent.match_indices(HEADLESS_REST).any(|(at, _)| user_agent[..at].ends_with(['H', 'h']));
    if is_headless { UserAgentInfo::CRAWLER } else { environment.parse_user_agent(user_agent) }
}
