//! The event endpoints: what is sent to them, and the receipt.
//!
//! Whom an event is of and for may also be said outside of its body, so that no body needs a member of its own for it.

use serde_json::{Map, Value, json};

use super::schemas::{NAME, object, optional, reference};
use crate::api::Endpoint;
use crate::limits::{
    ANON_ID_BYTES_MAX, EVENT_NAME_CHARS_MAX, EVENTS_MAX, MESSAGE_ID_BYTES_MAX, SITE_ID_BYTES_MAX,
    USER_ID_BYTES_MAX,
};

/// The body of an event endpoint: one of its events, or a batch.
pub(super) fn body(endpoint: Endpoint) -> Value {
    let (events, example): (&[&str], Value) = match endpoint {
        Endpoint::Page => (
            &["PageEvent"],
            json!({ "trackingId": "track_demo", "anonId": "visitor-2", "messageId": "m-1",
                "properties": { "path": "/magazine" }, "context": { "locale": "de" }, "variants": "hero:deutsch" }),
        ),
        Endpoint::Track => (
            &["TrackEvent", "IdentifyEvent", "ProfileEvent"],
            json!({ "trackingId": "track_demo", "anonId": "visitor-2", "messageId": "m-2", "event": "Viewed",
                "properties": { "sku": "f-1" } }),
        ),
        _ => (
            &[],
            json!({ "trackingId": "track_demo", "sentAt": "2026-01-05T10:00:00.000Z", "batch": [
                { "type": "page", "anonId": "visitor-2", "messageId": "m-3", "properties": { "path": "/" } },
                { "type": "identify", "anonId": "visitor-2", "userId": "u-1", "messageId": "m-4" },
            ] }),
        ),
    };
    let all: Vec<_> = events.iter().chain(&["Batch"]).map(|name| reference(name)).collect();
    json!({
        "required": true,
        "description": "JSON, also under `text/plain` (what sendBeacon sends without a preflight), no type, or a form's type \
            where the body begins with `{`; `Content-Encoding: gzip` is understood. 32 KiB an event, 512 KiB a body, \
            inflated, nested 32 deep. Of doubled members the last counts; half a surrogate pair becomes U+FFFD; `null` and \
            `\"\"` count as not given; a number where an id belongs is taken as its decimal text.",
        "content": { "application/json": { "schema": { "anyOf": all }, "example": example } },
    })
}

/// The components that the references name.
pub(super) fn schemas() -> Value {
    let batched = ["PageEvent", "TrackEvent", "IdentifyEvent", "ProfileEvent", "LibraryEvent"].map(reference);
    let mut all = json!({
        "PageEvent": event("A page view.", &["page"], false, &[]),
        "TrackEvent": event("Something that a visitor did.", &["track"], false, &["event"]),
        "IdentifyEvent": event(
            "Ties `anonId` to `userId`, and sets traits. Without a `type` it is told by `traits` or `userId`.",
            &["identify"], false, &[]),
        "ProfileEvent": event(
            "Changes a profile, in the order set, setOnce, unset, increment, append, union, remove. Without a `type` it is \
             told by any of them.", &["profile"], false, &[]),
        "LibraryEvent": event(
            "What client libraries send beside: a screen counts as an event of that name; a group or an alias is recorded.",
            &["screen", "group", "alias"], true, &[]),
        "Batch": object("Events of any type, each with its `type` or told by what it has.", json!({
            "batch": { "type": "array", "maxItems": EVENTS_MAX, "items": { "anyOf": batched } },
            "sentAt?": optional(&time("When the batch left, by the client's clock, whose fault it shows.")),
            "context?": optional(&context("Lies under the context of each event.")),
        })),
    });
    let batch = all["Batch"]["properties"].as_object_mut().expect("it was made with properties");
    batch.extend(naming());
    all["Receipt"] = receipt();
    all["Result"] = result();
    all
}

/// An event of one of these types; `typed` where it has to say so.
fn event(description: &str, types: &[&str], typed: bool, required: &[&str]) -> Value {
    let mut properties = naming();
    properties.extend(visitor());
    properties.extend(told());
    let kind = json!({ "enum": types });
    properties.insert("type".to_owned(), if typed { kind } else { optional(&kind) });
    if types == ["profile"] {
        properties.extend(operations());
    }
    let event = text("The event's name.", 1, EVENT_NAME_CHARS_MAX);
    properties.insert("event".to_owned(), if required.contains(&"event") { event } else { optional(&event) });
    let required: Vec<_> = required.iter().copied().chain(typed.then_some("type")).collect();
    json!({ "description": description, "type": "object", "required": required, "properties": properties })
}

fn text(description: &str, least: usize, most: usize) -> Value {
    json!({ "description": description, "type": "string", "minLength": least, "maxLength": most })
}

fn time(description: &str) -> Value {
    json!({ "description": format!("{description} ISO 8601, or milliseconds since 1970."), "anyOf": [
        { "type": "string", "format": "date-time" }, { "type": "number", "minimum": 0, "maximum": 253_402_300_799_999u64 },
    ] })
}

fn context(description: &str) -> Value {
    let words = json!({ "type": "object" });
    json!({ "description": description, "type": "object", "properties": {
        "page": optional(&words), "campaign": optional(&words), "library": optional(&words),
        "locale": optional(&json!({ "type": "string" })), "userAgent": optional(&json!({ "type": "string" })),
        "consent": optional(&json!({ "type": "object", "properties": {
            "measure": { "description": "False: the event is dropped.", "type": ["boolean", "null"] } } })),
        "preview": { "description": "True: the event is dropped.", "anyOf": [{ "type": ["boolean", "null"] }, { "const": "" }] },
    } })
}

/// The site, where the query string and the credentials do not name it.
fn naming() -> Map<String, Value> {
    let id = optional(
        &json!({ "type": "string", "pattern": format!("^track_[A-Za-z0-9_-]{{1,{SITE_ID_BYTES_MAX}}}$") }),
    );
    members(json!({
        "trackingId": id, "writeKey": id, "site": optional(&json!({ "type": "string", "pattern": NAME })),
    }))
}

/// Whose the event is: `anonId` may also come as a parameter, a header field or a cookie.
fn visitor() -> Map<String, Value> {
    let anon_id = optional(&json!({ "anyOf": [
        { "type": "string", "pattern": format!("^[!-~]{{1,{ANON_ID_BYTES_MAX}}}$") }, { "type": "integer", "minimum": 1 },
    ] }));
    let user_id = json!({ "anyOf": [
        { "type": "string", "minLength": 1, "maxLength": USER_ID_BYTES_MAX }, { "type": "integer", "minimum": 1 },
    ] });
    members(json!({ "anonId": anon_id, "anonymousId": anon_id, "userId": optional(&user_id) }))
}

/// What any event can tell.
fn told() -> Map<String, Value> {
    let message_id = text("The same for every try; else one is minted.", 1, MESSAGE_ID_BYTES_MAX);
    let happened = optional(&time("When it happened, by the client's clock."));
    let variants = json!({ "type": "string", "format": "variants",
        "pattern": "^([A-Za-z0-9_-]+:[A-Za-z0-9_-]+(,[A-Za-z0-9_-]+:[A-Za-z0-9_-]+)*)?$" });
    members(json!({
        "messageId": optional(&message_id), "timestamp": happened, "originalTimestamp": happened,
        "sentAt": optional(&time("When it left, by the same clock.")),
        "name": optional(&json!({ "description": "A page's or a screen's name.", "type": "string" })),
        "properties": optional(&json!({ "type": "object" })), "traits": optional(&json!({ "type": "object" })),
        "context": optional(&context("Where it happened.")), "variants": optional(&variants),
    }))
}

fn operations() -> Map<String, Value> {
    let of = |values: Value| optional(&json!({ "type": "object", "additionalProperties": values }));
    let list = json!({ "type": "array" });
    members(json!({
        "set": of(json!({})), "setOnce": of(json!({})),
        "unset": optional(&json!({ "type": "array", "items": { "type": "string" } })),
        "increment": of(json!({ "type": "number" })), "append": of(json!({})),
        "union": of(list.clone()), "remove": of(list),
    }))
}

fn members(object: Value) -> Map<String, Value> {
    let Value::Object(members) = object else { unreachable!("members are written as an object") };
    members
}

fn receipt() -> Value {
    let count = |sentence: &str| json!({ "description": sentence, "type": "integer", "minimum": 0 });
    object(
        "What became of the events.",
        json!({
            "accepted": count("Recorded, as safe as `durable` says."),
            "duplicates": count("Recorded before, by the same `messageId`."),
            "dropped": count("Valid, and not recorded on purpose."), "rejected": count("Not valid."),
            "durable": { "description": "On disk, or written to it; null where `dryRun` stored nothing.",
                "enum": ["disk", "written", null] },
            "seq": { "description": "Of the last that was accepted.", "type": ["string", "null"], "pattern": "^[0-9]+$" },
            "results": { "description": "The events that were not accepted.", "type": "array", "items": reference("Result") },
        }),
    )
}

fn result() -> Value {
    object(
        "An event that was not accepted, and why.",
        json!({
            "index": { "description": "Its place in the batch.", "type": "integer", "minimum": 0 },
            "messageId": { "type": ["string", "null"] },
            "status": { "enum": ["duplicate", "dropped", "rejected"] },
            "reason?": { "enum": ["preview", "bot", "no_consent"] },
            "code?": reference("Code"),
            "pointer?": { "description": "The member at fault (RFC 6901).", "type": "string", "pattern": "^/" },
            "detail?": { "description": "What was expected, and what came.", "type": "string" },
        }),
    )
}
