//! Schemas of the event endpoints: the request body and the receipt.
//!
//! Site and visitor of an event may also be given outside of the body. So no body member for them is
//! required.

use serde_json::{Map, Value, json};

use super::schemas::{NAME, object, optional, reference};
use crate::api::Endpoint;
use crate::limits::{
    ANON_ID_BYTES_MAX, EVENT_NAME_CHARS_MAX, EVENTS_MAX, MESSAGE_ID_BYTES_MAX, SITE_ID_BYTES_MAX,
    USER_ID_BYTES_MAX,
};
use crate::visitors::events::endpoint::EventEndpoint;

/// Returns the request body of an event endpoint: one of its events, or a batch.
pub(super) fn body(endpoint: Endpoint) -> Value {
    let (events, example): (&[&str], Value) = match endpoint {
        Endpoint::Events(EventEndpoint::Page) => (
            &["PageEvent"],
            json!({ "trackingId": "track_demo", "anonId": "visitor-2", "messageId": "m-1",
                "properties": { "path": "/magazine" }, "context": { "locale": "de" }, "variants": "hero:deutsch" }),
        ),
        Endpoint::Events(EventEndpoint::Track) => (
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
        "description": "JSON. The types `text/plain` (which sendBeacon sends without a preflight) and none are accepted too, \
            and that of a form if the body begins with `{`. `Content-Encoding: gzip` is supported. At most 32 KiB per event, \
            512 KiB per body after decompression, and 32 levels of nesting. The last of duplicate members counts. A lone \
            surrogate becomes U+FFFD. `null` and `\"\"` count as absent. A number in place of an ID is read as its decimal text.",
        "content": { "application/json": { "schema": { "anyOf": all }, "example": example } },
    })
}

/// Returns the components that the references name.
pub(super) fn schemas() -> Value {
    let batched = ["PageEvent", "TrackEvent", "IdentifyEvent", "ProfileEvent", "LibraryEvent"].map(reference);
    let mut all = json!({
        "PageEvent": event("A page view.", &["page"], false, &[]),
        "TrackEvent": event("An action of a visitor.", &["track"], false, &["event"]),
        "IdentifyEvent": event(
            "Ties `anonId` to `userId`, and sets traits. Without a `type`, the members `traits` or `userId` determine it.",
            &["identify"], false, &[]),
        "ProfileEvent": event(
            "Changes a profile, in the order set, setOnce, unset, increment, append, union, remove. Without a `type`, any of \
             these members determines it.", &["profile"], false, &[]),
        "LibraryEvent": event(
            "Further events of client libraries. A screen counts as an event of that name. A group is only recorded. An \
             alias may tie `previousId` to `userId`.",
            &["screen", "group", "alias"], true, &[]),
        "Batch": object("Events of any type. Without a `type`, an event's other members determine it.", json!({
            "batch": { "type": "array", "maxItems": EVENTS_MAX, "items": { "anyOf": batched } },
            "sentAt?": optional(&time("The client's time of sending the batch. The server uses it to correct the client's clock.")),
            "context?": optional(&context("Default values for the context of each event.")),
        })),
    });
    let batch = all["Batch"]["properties"].as_object_mut().expect("it was made with properties");
    batch.extend(site_members());
    all["Receipt"] = receipt();
    all["Result"] = result();
    all
}

/// Returns the schema of an event of one of these types. With `typed`, the member `type` is required.
fn event(description: &str, types: &[&str], typed: bool, required: &[&str]) -> Value {
    let mut properties = site_members();
    properties.extend(visitor_members());
    properties.extend(common_members());
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
            "measure": { "description": "If false, the event is dropped.", "type": ["boolean", "null"] } } })),
        "preview": { "description": "If true, the event is dropped.", "anyOf": [{ "type": ["boolean", "null"] }, { "const": "" }] },
    } })
}

/// Returns the members for the site. They may be absent if the query string or the credentials name it.
fn site_members() -> Map<String, Value> {
    let id = optional(
        &json!({ "type": "string", "pattern": format!("^track_[A-Za-z0-9_-]{{1,{SITE_ID_BYTES_MAX}}}$") }),
    );
    members(json!({
        "trackingId": id, "writeKey": id, "site": optional(&json!({ "type": "string", "pattern": NAME })),
    }))
}

/// Returns the members for the visitor. `anonId` may also be a parameter, a header field or a cookie.
fn visitor_members() -> Map<String, Value> {
    let anon_id = optional(&json!({ "anyOf": [
        { "type": "string", "pattern": format!("^[!-~]{{1,{ANON_ID_BYTES_MAX}}}$") }, { "type": "integer", "minimum": 1 },
    ] }));
    let user_id = json!({ "anyOf": [
        { "type": "string", "minLength": 1, "maxLength": USER_ID_BYTES_MAX }, { "type": "integer", "minimum": 1 },
    ] });
    members(json!({ "anonId": anon_id, "anonymousId": anon_id, "userId": optional(&user_id) }))
}

/// Returns the members that every event may have.
fn common_members() -> Map<String, Value> {
    let message_id = text(
        "The event's ID, the same for every attempt to send it. If absent, the server generates one.",
        1,
        MESSAGE_ID_BYTES_MAX,
    );
    let happened = optional(&time("The client's time of the event."));
    let variants = json!({ "type": "string", "format": "variants",
        "pattern": "^([A-Za-z0-9_-]+:[A-Za-z0-9_-]+(,[A-Za-z0-9_-]+:[A-Za-z0-9_-]+)*)?$" });
    members(json!({
        "messageId": optional(&message_id), "timestamp": happened, "originalTimestamp": happened,
        "sentAt": optional(&time("The client's time of sending.")),
        "name": optional(&json!({ "description": "The name of a page or a screen.", "type": "string" })),
        "properties": optional(&json!({ "type": "object" })), "traits": optional(&json!({ "type": "object" })),
        "context": optional(&context("The context of the event.")), "variants": optional(&variants),
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
        "The results of the events of a request.",
        json!({
            "accepted": count("Recorded events. `durable` tells how safely they are stored."),
            "duplicates": count("Events that were already recorded with the same `messageId`."),
            "dropped": count("Valid events that were deliberately not recorded."),
            "rejected": count("Invalid events."),
            "durable": { "description": "`disk`: synced to disk. `written`: in the file, not yet synced. Null: \
                `dryRun` stored nothing.",
                "enum": ["disk", "written", null] },
            "seq": { "description": "Sequence number of the last accepted event.", "type": ["string", "null"], "pattern": "^[0-9]+$" },
            "results": { "description": "The events that were not accepted.", "type": "array", "items": reference("Result") },
        }),
    )
}

fn result() -> Value {
    object(
        "An event that was not accepted, with the reason.",
        json!({
            "index": { "description": "The event's index in the batch.", "type": "integer", "minimum": 0 },
            "messageId": { "type": ["string", "null"] },
            "status": { "enum": ["duplicate", "dropped", "rejected"] },
            "reason?": { "enum": ["preview", "bot", "no_consent"] },
            "code?": reference("Code"),
            "pointer?": { "description": "The member at fault (RFC 6901).", "type": "string", "pattern": "^/" },
            "detail?": { "description": "The fault in this event.", "type": "string" },
        }),
    )
}
