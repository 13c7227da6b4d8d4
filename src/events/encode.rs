//! Encoding of a validated event as a log record.

use super::context::IpAction;
use super::document::{Value, write_member_name};
use super::event::Event;
use super::members::{MemberName, Members};
use super::request::{BotPolicy, Environment, RequestFacts};
use super::{changes, exposure, page, touch};
use crate::checksum;
use crate::limits::USER_ID_BYTES_MAX;
use crate::record::fold_input::{ClientTimes, FoldInputBuilder};
use crate::record::{Record, RecordContext, RecordKind, UserAgentInfo, primary_language};
use crate::url::PageUrl;

/// Buffers for the parts of a record that are not in the body, reused so that encoding allocates nothing.
#[derive(Default)]
pub(super) struct EncodeBuffers {
    payload: String,
    page: String,
    exposure: String,
    ip: String,
    url: PageUrl,
    fold_input: FoldInputBuilder,
    generated_id: [u8; 16],
    key_input: Vec<u8>,
}

impl EncodeBuffers {
    /// Returns the record of an event. `members` are its members, and `agent` is its parsed User-Agent.
    pub(super) fn build_record<'r>(
        &'r mut self,
        event: &Event<'r>,
        members: &Members<'r>,
        agent: UserAgentInfo,
        request: &RequestFacts<'r>,
        environment: &mut impl Environment,
    ) -> Record<'r> {
        let has_page = page::write(event, request.referer, environment, &mut self.page);
        let has_exposure = event.experiments.is_none() && exposure::write(event, &mut self.exposure);
        let ip = event.context.ip;
        request.policy.ip.write_stored(ip, request.peer, &mut self.ip);
        self.payload.clear();
        write_payload(event, members, request.policy.ip.payload_action(ip, &self.ip), &mut self.payload);
        let experiments = event.experiments.or(has_exposure.then_some(&self.exposure));
        write_fold_input(event, members, request, environment, &mut self.url, &mut self.fold_input);
        if let Some(experiments) = experiments.filter(|_| !agent.is_crawler) {
            write_enrolments(event.kind, experiments, environment, &mut self.fold_input);
        }
        let (message_id, key) = match event.message_id {
            Some(id) => (id, dedup_key(request.site, id, &mut self.key_input)),
            // A generated ID never takes part in deduplication (key 0). Otherwise a client that guesses the
            // next ID could send it first, and an unrelated event would count as a duplicate.
            None => {
                self.generated_id = environment.generate_message_id();
                (std::str::from_utf8(&self.generated_id).unwrap_or_default(), 0)
            }
        };
        let country = event.context.country.or(request.country);
        let language = event.context.locale.map_or(request.language, primary_language);
        Record {
            kind: event.kind,
            bot: agent.is_crawler,
            is_folded_bot: agent.is_crawler && request.policy.bots == BotPolicy::Keep,
            gpc: request.gpc,
            received_ms: request.received_ms,
            timestamp_ms: event.timestamp_ms,
            key,
            site: Some(request.site),
            message_id: Some(message_id),
            anon_id: event.anon_id,
            user_id: event.user_id,
            event: event.event,
            name: event.name,
            path: has_page.then_some(&self.page),
            variants: event.variants,
            ip: Some(self.ip.as_str()).filter(|ip| !ip.is_empty()),
            experiments,
            context: RecordContext::new(agent, country, language),
            is_redacted: false,
            payload: &self.payload,
            fold_input: self.fold_input.finish(),
        }
    }
}

/// Writes the data that the fold reads beside the columns, so that it parses no JSON.
fn write_fold_input(
    event: &Event<'_>,
    members: &Members<'_>,
    request: &RequestFacts<'_>,
    environment: &mut impl Environment,
    url_buffer: &mut PageUrl,
    out: &mut FoldInputBuilder,
) {
    out.clear();
    write_times(event.client_times, event.timestamp_ms, request.received_ms, out);
    if event.kind == RecordKind::Page {
        let touch = touch::find(event, request, environment, url_buffer);
        touch.into_iter().for_each(|texts| out.add_touch(texts));
    }
    write_members(event.kind, members, out);
}

/// Adds the phases of the pairs whose experiment and arm are published. Any other pair, such as a forged one or one of a cached
/// page, enrols the visitor in nothing.
fn write_enrolments(
    kind: RecordKind,
    experiments_text: &str,
    environment: &impl Environment,
    out: &mut FoldInputBuilder,
) {
    if matches!(kind, RecordKind::Page | RecordKind::Track) {
        let pairs = experiments_text.split(',').filter_map(|pair| pair.split_once(':'));
        out.add_enrolments(pairs.filter_map(|(key, arm)| environment.phase_hash(key, arm)));
    }
}

/// Adds the times by the client's clock, unless the record has them in its columns.
pub(super) fn write_times(
    times: ClientTimes,
    timestamp_ms: i64,
    received_ms: i64,
    out: &mut FoldInputBuilder,
) {
    // An event without these times has the time in its column, or none.
    if times.sent_ms.is_some() || times.timestamp_ms.is_some_and(|stated_ms| stated_ms != timestamp_ms) {
        out.add_client_times(times, received_ms);
    }
}

/// Adds the parts that depend on the members of an event alone: the changes of traits, or the `previousId` of an alias.
pub(super) fn write_members(kind: RecordKind, members: &Members<'_>, out: &mut FoldInputBuilder) {
    match kind {
        RecordKind::Identify | RecordKind::Profile => {
            out.add_changes(|out| changes::write(kind, members, out));
        }
        RecordKind::Alias => {
            let id = members.get(MemberName::PreviousId).and_then(Value::as_text);
            // A longer text is no ID.
            id.filter(|id| id.len() <= USER_ID_BYTES_MAX).into_iter().for_each(|id| out.add_previous_id(id));
        }
        _ => {}
    }
}

/// Returns the hash for deduplication. Site IDs contain no zero byte, so the separator makes the hashed text
/// unambiguous.
pub(super) fn dedup_key(site: &str, message_id: &str, buffer: &mut Vec<u8>) -> u128 {
    buffer.clear();
    buffer.extend_from_slice(site.as_bytes());
    buffer.push(0);
    buffer.extend_from_slice(message_id.as_bytes());
    checksum::hash128(buffer)
}

/// Appends the event as it was sent, without the members that name the site, a user ID that does not count, and the hash of
/// a user ID, and with the batch's context merged in.
pub(super) fn write_payload(
    event: &Event<'_>,
    members: &Members<'_>,
    ip_action: IpAction<'_>,
    out: &mut String,
) {
    if !members.names_site && !event.is_user_unverified && event.context.is_stored_as_sent(ip_action) {
        // Nothing is left out, replaced or merged, so the event is copied.
        return event.value.write(out);
    }
    let context = event.context.merged;
    let has_context = context.value().is_some();
    let is_kept = |name: &str| match name {
        "trackingId" | "writeKey" => false,
        "userId" => !event.is_user_unverified,
        "context" => !has_context,
        _ => true,
    };
    out.push('{');
    event.value.write_members(is_kept, out);
    if has_context {
        write_member_name(out, out.len() == 1, "\"context\"");
        context.write_context(out, ip_action);
    }
    out.push('}');
}
