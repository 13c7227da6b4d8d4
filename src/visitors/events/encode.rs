//! An event as a record: what is kept of it, and how.

use super::context::Ip;
use super::decode::{Call, Outside};
use super::document::begin_member;
use super::event::Event;
use super::page;
use crate::checksum;
use crate::visitors::log::Record;

/// The parts of a record that do not stand in the body. Kept from event to event, so that they allocate nothing.
#[derive(Default)]
pub(super) struct Room {
    payload: String,
    page: String,
    ip: String,
    minted: [u8; 16],
    key: Vec<u8>,
}

impl Room {
    /// The record of an event; `bot` where it is a crawler's that is flagged.
    pub(super) fn record<'r>(
        &'r mut self,
        event: &Event<'r>,
        bot: bool,
        call: &Call<'r>,
        outside: &mut impl Outside,
    ) -> Record<'r> {
        let has_page = page::write(event, call.referer, outside, &mut self.page);
        let ip = event.context.ip;
        call.policy.ip.write(ip, call.peer, &mut self.ip);
        self.payload.clear();
        payload(event, call.policy.ip.payload(ip, &self.ip), &mut self.payload);
        let (message_id, key) = match event.message_id {
            Some(id) => (id, duplicate_key(call.site, id, &mut self.key)),
            // Never a duplicate: else who guesses what is minted next could send it first, and strangers' events would count
            // as repetitions.
            None => {
                self.minted = outside.mint();
                (std::str::from_utf8(&self.minted).unwrap_or_default(), 0)
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

/// The hash by which duplicates are told. No site ID has a zero byte, so that no two pairs of texts are one.
fn duplicate_key(site: &str, message_id: &str, key: &mut Vec<u8>) -> u128 {
    key.clear();
    key.extend_from_slice(site.as_bytes());
    key.push(0);
    key.extend_from_slice(message_id.as_bytes());
    checksum::tag(key)
}

/// Appends the event as it was sent, without what names the site, and with the batch's context under its own.
fn payload(event: &Event<'_>, ip: Ip<'_>, out: &mut String) {
    let context = event.context.whole;
    let has_context = context.value().is_some();
    let is_kept = |name: &str| match name {
        "trackingId" | "writeKey" => false,
        "context" => !has_context,
        _ => true,
    };
    out.push('{');
    event.value.write_members(is_kept, out);
    if has_context {
        begin_member(out, out.len() == 1, "\"context\"");
        context.write_object(out, ip);
    }
    out.push('}');
}
