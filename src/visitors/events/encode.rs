//! Encoding of a validated event as a log record.

use super::context::IpAction;
use super::decode::{Environment, EventContext};
use super::document::write_member_name;
use super::event::Event;
use super::page;
use crate::checksum;
use crate::visitors::log::Record;

/// Buffers for the parts of a record that are not in the body, reused so that encoding allocates nothing.
#[derive(Default)]
pub(super) struct EncodeBuffers {
    payload: String,
    page: String,
    ip: String,
    generated_id: [u8; 16],
    key_input: Vec<u8>,
}

impl EncodeBuffers {
    /// Returns the record of an event. `bot` marks it as a crawler's.
    pub(super) fn build_record<'r>(
        &'r mut self,
        event: &Event<'r>,
        bot: bool,
        call: &EventContext<'r>,
        outside: &mut impl Environment,
    ) -> Record<'r> {
        let has_page = page::write(event, call.referer, outside, &mut self.page);
        let ip = event.context.ip;
        call.policy.ip.write_stored(ip, call.peer, &mut self.ip);
        self.payload.clear();
        write_payload(event, call.policy.ip.payload_action(ip, &self.ip), &mut self.payload);
        let (message_id, key) = match event.message_id {
            Some(id) => (id, dedup_key(call.site, id, &mut self.key_input)),
            // A generated ID never takes part in deduplication (key 0). Otherwise a client that guesses the
            // next ID could send it first, and an unrelated event would count as a duplicate.
            None => {
                self.generated_id = outside.generate_message_id();
                (std::str::from_utf8(&self.generated_id).unwrap_or_default(), 0)
            }
        };
        Record {
            kind: event.kind,
            bot,
            gpc: call.gpc,
            received_ms: call.received_ms,
            timestamp_ms: event.timestamp_ms,
            key,
            site: Some(call.site),
            message_id: Some(message_id),
            anon_id: event.anon_id,
            user_id: event.user_id,
            event: event.event,
            name: event.name,
            path: has_page.then_some(&self.page),
            variants: event.variants,
            ip: Some(self.ip.as_str()).filter(|ip| !ip.is_empty()),
            payload: &self.payload,
        }
    }
}

/// Returns the hash for deduplication. Site IDs contain no zero byte, so the separator makes the hashed text
/// unambiguous.
fn dedup_key(site: &str, message_id: &str, key: &mut Vec<u8>) -> u128 {
    key.clear();
    key.extend_from_slice(site.as_bytes());
    key.push(0);
    key.extend_from_slice(message_id.as_bytes());
    checksum::hash128(key)
}

/// Appends the event as it was sent, without the members that name the site and with the batch's context
/// merged in.
fn write_payload(event: &Event<'_>, ip: IpAction<'_>, out: &mut String) {
    let context = event.context.merged;
    let has_context = context.value().is_some();
    let is_kept = |name: &str| match name {
        "trackingId" | "writeKey" => false,
        "context" => !has_context,
        _ => true,
    };
    out.push('{');
    event.value.write_members(is_kept, out);
    if has_context {
        write_member_name(out, out.len() == 1, "\"context\"");
        context.write_object(out, ip);
    }
    out.push('}');
}
