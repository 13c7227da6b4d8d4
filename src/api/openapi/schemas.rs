//! JSON Schemas (draft 2020-12) of response bodies. Responses may have members that are not named here.

use serde_json::{Map, Value, json};

use super::{events, responses};
use crate::limits::{COMBINATIONS_COUNTED_MAX, COMBINATIONS_LISTED_MAX, QUERY_LIMIT_MAX};

/// Pattern of the name of a zone, the key of a variant, and the ID of a site or a query.
pub(super) const NAME: &str = "^[A-Za-z0-9_-]{1,64}$";

/// Returns the schema of a member that may be absent, `null` or empty.
pub(super) fn optional(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "enum": [null, ""] }] })
}

/// Returns the components that the references name.
pub(super) fn all() -> Value {
    let groups = [pages(), layouts(), explanations(), lists(), content(), events::schemas(), problems()];
    let mut all = Map::new();
    for group in groups {
        if let Value::Object(group) = group {
            all.extend(group);
        }
    }
    Value::Object(all)
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn name() -> Value {
    json!({ "type": "string", "pattern": NAME })
}

fn text_or_null() -> Value {
    json!({ "type": ["string", "null"] })
}

/// Returns the schema of an object. All named members are required, except those with a `?` after their name.
pub(super) fn object(description: &str, members: Value) -> Value {
    let Value::Object(members) = members else { unreachable!("members are written as an object") };
    let is_required = |name: &&String| !name.ends_with('?');
    let required: Vec<_> = members.keys().filter(is_required).cloned().collect();
    let properties: Map<_, _> =
        members.into_iter().map(|(name, schema)| (name.trim_end_matches('?').to_owned(), schema)).collect();
    json!({ "description": description, "type": "object", "required": required, "properties": properties })
}

fn pages() -> Value {
    let params = json!({ "description": "The values of the pattern's parameters.", "type": "object",
        "additionalProperties": { "type": "string" } });
    let path = json!({ "type": "string", "pattern": "^/" });
    let combinations = json!({ "type": "array", "items": reference("VariantsText"),
        "maxItems": COMBINATIONS_LISTED_MAX });
    json!({
        "Resolution": {
            "oneOf": [reference("Layout"), reference("Redirect")],
            "discriminator": { "propertyName": "type",
                "mapping": { "layout": reference("Layout")["$ref"], "redirect": reference("Redirect")["$ref"] } },
        },
        "Layout": object("A page for this visitor or this combination of variants.", json!({
            "type": { "const": "layout" }, "site": name(), "route": path, "pattern": path, "params": params,
            "variants": reference("VariantsText"), "selected": reference("Selected"),
            "warnings?": { "type": "array", "minItems": 1, "items": reference("Warning") },
            "decisions?": { "type": "array", "items": reference("Decision") }, "visitor?": reference("Visitor"),
            "layout": object("The layout as authored. Its JSON text is kept unchanged.", json!({
                "root": object("The page itself.", json!({ "props": { "type": "object" } })),
                "zones": reference("Zones"),
            })),
        })),
        "Redirect": object("The route is a redirect. The HTTP status is 200, so that a browser's fetch can read the body.", json!({
            "type": { "const": "redirect" }, "site": name(), "route": path, "pattern": path, "params": params,
            "to": { "description": "The target: a path of the site, or a URL.", "type": "string", "minLength": 1 },
            "status": redirect_status(),
        })),
        "Variants": { "anyOf": [reference("DecisionAlone"), reference("Combinations"), reference("Redirect")] },
        "DecisionAlone": object("The selected variants for this visitor.", json!({
            "site": name(), "route": path, "variants": reference("VariantsText"), "selected": reference("Selected"),
            "decisions?": { "type": "array", "items": reference("Decision") }, "visitor?": reference("Visitor"),
        })),
        "Combinations": object("All possible combinations, sorted by number of pairs, then by text.", json!({
            "site": name(), "route": path, "combinations": combinations,
            "truncated": { "description": "Whether there are more combinations.", "type": "boolean" },
        })),
    })
}

fn redirect_status() -> Value {
    json!({ "type": "integer", "enum": [301, 302, 303, 307, 308] })
}

fn layouts() -> Value {
    let mut node = object(
        "A component of a page.",
        json!({
            "id": name(), "type": { "type": "string", "minLength": 1 },
            "props": { "description": "As authored.", "type": "object" },
            "zones?": reference("Zones"),
            "query?": object("The content query that the node embeds.", json!({
                "id": name(), "params?": { "description": "As authored.", "type": "object" },
            })),
            "items?": { "description": "The first page of the query's items.", "type": "array", "items": reference("Item") },
            "nextCursor?": text_or_null(),
        }),
    );
    node["dependentRequired"] =
        json!({ "query": ["items", "nextCursor"], "items": ["query"], "nextCursor": ["query"] });
    json!({
        "VariantsText": { "description": "Variants in canonical form: `zone:key` pairs separated by `,`, sorted by zone, \
            without `default`. Empty for the baseline.", "type": "string", "pattern": "^([A-Za-z0-9_-]+:[A-Za-z0-9_-]+(,[A-Za-z0-9_-]+:[A-Za-z0-9_-]+)*)?$" },
        "Selected": { "description": "The selected variant of each personalized zone in the layout.", "type": "object",
            "propertyNames": { "pattern": NAME }, "additionalProperties": name() },
        "Warning": object("A zone or key that the route does not have.", json!({
            "code": { "const": "unknown_variant" }, "zone": name(), "key": name(),
        })),
        "Zones": { "description": "Nodes by zone. Only selected variants are present.", "type": "object",
            "propertyNames": { "pattern": NAME }, "additionalProperties": { "type": "array", "items": reference("Node") } },
        "Node": node,
    })
}

fn explanations() -> Value {
    let share = json!({ "type": "number", "minimum": 0, "maximum": 1 });
    let range = json!({ "type": "array", "items": share, "minItems": 2, "maxItems": 2 });
    let or_null = |schema: Value| json!({ "anyOf": [schema, { "type": "null" }] });
    let why = object(
        "The test that decided a condition.",
        json!({
            "path": { "type": "string" }, "operator": { "type": "string" }, "expected": true, "actual": true,
        }),
    );
    let namespace =
        json!({ "type": "array", "prefixItems": [name(), share, share], "minItems": 3, "maxItems": 3 });
    let experiment = object(
        "The visitor's position in an experiment.",
        json!({
            "key": name(), "hash": share, "ranges": { "type": "array", "items": range }, "namespace": or_null(namespace),
            "seed": { "type": "string" }, "in": { "enum": ["range", "coverage", "namespace", "holdout"] },
        }),
    );
    json!({
        "Decision": object("The reason for a zone's variant. Contains the tried rules, up to the one that matched.", json!({
            "zone": name(), "key": name(),
            "source": { "enum": ["audience", "when", "experiment", "default", "forced", "crawler"] },
            "rules": { "type": "array", "items": object("A rule that was tried.", json!({
                "index": { "type": "integer", "minimum": 0 }, "matched": { "type": "boolean" },
                "why": or_null(why), "experiment": or_null(experiment),
            })) },
        })),
        "Visitor": object("The visitor's profile and context, as the rules saw them.", visitor()),
    })
}

fn visitor() -> Value {
    let (whole, time) =
        (json!({ "type": "integer", "minimum": 0 }), json!({ "type": ["integer", "string", "null"] }));
    json!({
        "anonId": text_or_null(),
        "visitor": object("The visitor's profile.", json!({
            "isNew": { "type": "boolean" }, "isReturning": { "type": "boolean" }, "visits": whole, "pageViews": whole,
            "events": whole, "firstSeen": time, "lastSeen": time, "userId": text_or_null(),
        })),
        "traits": { "type": "object" }, "events": { "type": "object" }, "pages": { "type": "object" },
        "firstTouch": reference("Touch"), "lastTouch": reference("Touch"),
        "device": object("The device, from the user agent.", json!({
            "type": { "enum": ["desktop", "mobile", "tablet", "bot", "unknown"] },
            "os": { "type": "string" }, "browser": { "type": "string" },
        })),
        "locale": text_or_null(), "country": text_or_null(),
        "url": object("The page's own URL.", json!({
            "path": text_or_null(), "query": { "type": "object", "additionalProperties": { "type": "string" } },
        })),
        "now": object("The time in the site's time zone. Weekday 1 is Monday.", json!({
            "hour": { "type": "integer", "minimum": 0, "maximum": 23 },
            "weekday": { "type": "integer", "minimum": 1, "maximum": 7 },
            "date": { "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" },
        })),
    })
}

fn lists() -> Value {
    let path = json!({ "type": "string", "pattern": "^/" });
    let version = json!({ "type": "string", "pattern": "^[0-9]+$" });
    let updated = json!({ "description": "As authored (RFC 3339).", "type": ["string", "null"] });
    let pattern = json!({ "description": "The path is a pattern.", "const": true });
    json!({
        "Touch": {
            "description": "A campaign or an external link that led the visitor to the site.", "type": ["object", "null"],
            "required": ["source", "medium", "campaign", "term", "content", "referrer", "landing"],
            "properties": { "source": text_or_null(), "medium": text_or_null(), "campaign": text_or_null(),
                "term": text_or_null(), "content": text_or_null(), "referrer": text_or_null(), "landing": text_or_null() },
        },
        "Routes": object("The routes that a site publishes, or the differences from a version, sorted by path.", json!({
            "site": name(), "version": version, "updatedAt": updated,
            "since?": { "description": "The requested version, or null if the server does not know it.",
                "type": ["string", "null"], "pattern": "^[0-9]+$" },
            "routes": { "type": "array", "items": reference("Route") },
            "redirects": { "type": "array", "items": object("A path that redirects.", json!({
                "from": path, "to": { "type": "string", "minLength": 1 }, "status": redirect_status(), "pattern?": pattern,
            })) },
            "removed": { "description": "Paths of the version `since` that no longer exist.", "type": "array",
                "items": path },
            "nextCursor": text_or_null(),
        })),
        "Route": object("A path with a page.", json!({
            "path": path, "updatedAt": updated,
            "hash": { "description": "A hash of all content that the page can show.", "type": "string", "pattern": "^[0-9a-f]{16}$" },
            "zones": { "description": "The personalized zones.", "type": "array", "items": name() },
            "combinations": { "description": "The number of combinations, counted up to the maximum.", "type": "integer", "minimum": 1,
                "maximum": COMBINATIONS_COUNTED_MAX },
            "pattern?": pattern,
            "variants?": { "type": "array", "items": reference("VariantsText"), "maxItems": COMBINATIONS_LISTED_MAX },
            "truncated?": { "description": "Present if there are more combinations.", "const": true },
        })),
    })
}

fn content() -> Value {
    json!({
        "Answer": object("A page of the results of a content query.", json!({
            "site": name(), "query": name(),
            "items": { "type": "array", "items": reference("Item"), "maxItems": QUERY_LIMIT_MAX },
            "total": { "description": "Items on all pages.", "type": "integer", "minimum": 0 },
            "nextCursor": text_or_null(),
        })),
        "Item": object("An item of a collection.", json!({
            "id": { "type": "string" }, "type": { "type": "string" },
            "fields": { "description": "The fields that the query selects, as authored.", "type": "object" },
        })),
    })
}

fn problems() -> Value {
    let codes: Vec<_> = responses::public_problems().map(|kind| kind.code).collect();
    let table: String = responses::public_problems()
        .map(|kind| format!("\n| `{}` | {} | {} |", kind.code, kind.status, kind.title))
        .collect();
    json!({
        "Code": { "description": format!("Codes are stable.\n\n| code | status | title |\n|---|---|---|{table}"),
            "type": "string", "enum": codes },
        "Problem": object("A refusal (RFC 9457).", json!({
            "type": { "type": "string", "format": "uri", "pattern": "^https://parallax\\.dev/problems/[a-z_]+$" },
            "title": { "description": "The same for every occurrence.", "type": "string" },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "code": reference("Code"),
            "detail": { "description": "The fault in this request.", "type": "string" },
            "param?": { "description": "The parameter at fault.", "type": "string" },
            "pointer?": { "description": "The body member at fault (RFC 6901).", "type": "string", "pattern": "^(/|$)" },
            "errors?": { "description": "The fault of each event, for a batch without a valid event.",
                "type": "array", "items": reference("Result") },
            "requestId?": { "description": "The same ID as in `X-Request-Id`. The 404 of a route has none, because it is public.",
                "type": "string" },
        })),
        "OpenApi": object("An OpenAPI document.", json!({
            "openapi": { "type": "string", "pattern": "^3\\.1\\.[0-9]+$" }, "info": { "type": "object" },
            "servers": { "type": "array" }, "tags": { "type": "array" }, "security": { "type": "array" },
            "paths": { "type": "object" }, "components": { "type": "object" },
        })),
    })
}
