//! The OpenAPI document is valid, complete, and agrees with the responses.

mod answers;
mod description;
mod limits;
mod refusals;

use std::collections::BTreeSet;

use parallax::testing::http::params::Param;
use parallax::testing::problem;
use serde_json::{Value, json};

pub(crate) use self::description::Description;
use self::description::listed_codes;
use crate::harness::{Client, Server};

/// Calls `see` with `value` and every value inside it.
fn walk<'v>(value: &'v Value, see: &mut impl FnMut(&'v Value)) {
    see(value);
    match value {
        Value::Object(members) => members.values().for_each(|member| walk(member, see)),
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        _ => {}
    }
}

/// Returns every operation, with its method and path.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("a path item").iter();
        methods.map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

#[test]
fn every_reference_resolves_and_every_component_is_referenced() {
    let description = Description::of(&Server::demo());
    let mut referenced = BTreeSet::new();
    for (_, _, operation) in operations(&description.document) {
        let schemes = operation["security"].as_array().into_iter().flatten();
        let names = schemes.flat_map(|scheme| scheme.as_object().expect("an object").keys());
        referenced.extend(names.map(|name| format!("#/components/securitySchemes/{name}")));
    }
    walk(&description.document, &mut |value| {
        if let Some(reference) = value["$ref"].as_str() {
            assert!(!description.resolve_ref(value).is_null(), "{reference}");
            referenced.insert(reference.to_owned());
        }
    });
    for (kind, components) in description.document["components"].as_object().expect("components") {
        for name in components.as_object().expect("an object").keys() {
            assert!(
                referenced.contains(&format!("#/components/{kind}/{name}")),
                "{kind} {name} is never referenced"
            );
        }
    }
}

#[test]
fn the_document_has_the_required_openapi_members() {
    let description = Description::of(&Server::demo());
    let document = &description.document;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["info"]["license"]["identifier"], env!("CARGO_PKG_LICENSE"));
    assert_eq!(document["servers"][0]["url"], "/");
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(document) {
        assert!(["get", "post"].contains(&method), "{method} {path}");
        let id = operation["operationId"].as_str().expect("an ID");
        assert!(ids.insert(id.to_owned()), "{id} occurs twice");
        let mut names = BTreeSet::new();
        for parameter in operation["parameters"].as_array().expect("a list") {
            let parameter = description.resolve_ref(parameter);
            let schema = description.resolve_ref(&parameter["schema"]);
            assert!(["string", "integer"].map(Value::from).contains(&schema["type"]), "{id}: {parameter}");
            assert!(parameter.get("style").or(parameter.get("explode")).is_none(), "{id}: {parameter}");
            assert!(
                parameter["description"].as_str().is_some_and(|text| text.ends_with('.')),
                "{id}: {parameter}"
            );
            assert!(
                names.insert((parameter["name"].to_string(), parameter["in"].to_string())),
                "{id}: {parameter}"
            );
            if let Some(example) = parameter.get("example") {
                assert_eq!(
                    description.validation_errors(&parameter["schema"], example),
                    [""; 0],
                    "{id}: {example}"
                );
            }
        }
        for (status, response) in operation["responses"].as_object().expect("responses") {
            assert!(status.parse::<u16>().is_ok(), "{id}: {status}");
            assert!(description.resolve_ref(response)["description"].is_string(), "{id}: {status}");
        }
    }
    for path in ["/v1/query", "/v1/page", "/v1/track", "/v1/batch"] {
        let body = &description.operation("post", path)["requestBody"]["content"]["application/json"];
        assert_eq!(description.validation_errors(&body["schema"], &body["example"]), [""; 0], "{path}");
    }
}

#[test]
fn the_operations_match_the_allow_header() {
    let server = Server::demo();
    let document = Description::of(&server).document;
    for (path, item) in document["paths"].as_object().expect("paths") {
        let target = path.replace("{code}", "timeout").replace("{trackingId}", "track_demo");
        let response = Client::to(server.edge).request("OPTIONS", &target, &[]);
        let allowed: BTreeSet<String> =
            response.field("allow").expect("methods").split(", ").map(str::to_ascii_lowercase).collect();
        let mut described: BTreeSet<String> =
            item.as_object().expect("a path item").keys().cloned().collect();
        // The description of the document says that OPTIONS is always supported, and HEAD wherever GET is.
        described.insert("options".to_owned());
        if described.contains("get") {
            described.insert("head".to_owned());
        }
        assert_eq!(allowed, described, "{path}");
    }
}

#[test]
fn every_parameter_that_the_code_reads_is_described() {
    let description = Description::of(&Server::demo());
    let mut described = BTreeSet::new();
    for (_, _, operation) in operations(&description.document) {
        for parameter in operation["parameters"].as_array().expect("a list") {
            let parameter = description.resolve_ref(parameter);
            if parameter["in"] == "query" {
                described.insert(parameter["name"].as_str().expect("a name"));
            }
        }
    }
    for param in Param::ALL.into_iter().filter(|param| *param != Param::UserId) {
        // Only the admin address reads the user ID.
        assert!(described.contains(param.name()), "{} is not described", param.name());
    }
}

/// Codes of the admin address only. The document does not describe it.
const ADMIN_CODES: [&str; 10] = [
    "unauthorized",
    "host_not_allowed",
    "internal",
    "starting",
    "columns_building",
    "nodes_unreachable",
    "audit_unavailable",
    "access_denied",
    "visitor_not_found",
    "invalid_snapshot",
];
/// Codes that need a full queue, a node of a cluster, a broken disk or a shutdown. Tests of these cases provoke them.
const FAULT_CODES: [&str; 6] =
    ["queue_full", "not_joined", "name_in_use", "joining", "disk_unavailable", "draining"];
/// Codes of requests that match no operation.
const CODES_WITHOUT_OPERATION: [&str; 3] = ["unknown_endpoint", "method_not_allowed", "unknown_method"];

#[test]
fn every_problem_code_is_described_at_an_operation() {
    let description = Description::of(&Server::demo());
    let document = &description.document;
    let codes = |value: &Value| -> BTreeSet<String> {
        value.as_array().expect("a list").iter().map(|code| code.as_str().expect("text").to_owned()).collect()
    };
    let listed = codes(&document["components"]["schemas"]["Code"]["enum"]);
    let of_the_table = problem::ALL.iter().map(|kind| kind.code);
    let public: BTreeSet<String> =
        of_the_table.filter(|code| !ADMIN_CODES.contains(code)).map(str::to_owned).collect();
    assert_eq!(listed, public);
    let mut answered = BTreeSet::new();
    for (_, _, operation) in operations(document) {
        let responses = operation["responses"].as_object().expect("responses").iter();
        for (status, response) in responses.filter(|(status, _)| status.as_str() >= "400") {
            assert!(response["$ref"].is_string(), "{status}: a problem is a component");
            let response = description.resolve_ref(response);
            let schema = &response["content"]["application/problem+json"]["schema"];
            assert_eq!(schema["$ref"], "#/components/schemas/Problem");
            for code in listed_codes(response) {
                let row = problem::ALL.iter().find(|kind| kind.code == code).expect("a problem kind");
                assert_eq!(row.status.to_string(), *status, "{code}");
                answered.insert(code);
            }
        }
    }
    let others: BTreeSet<_> =
        public.iter().filter(|code| !answered.contains(*code)).map(String::as_str).collect();
    assert_eq!(others, BTreeSet::from(["method_not_allowed", "unknown_method"]));
}

/// Checks a schema and the schemas inside it.
fn check_schema(schema: &Value) {
    assert!(schema.is_object(), "{schema} is no object");
    let is_open = ["properties", "additionalProperties"].iter().any(|name| schema.get(name).is_some());
    assert!(schema["type"] != "object" || is_open, "{schema} does not say that it allows any member");
    match &schema["additionalProperties"] {
        Value::Null | Value::Bool(true) => {}
        members => check_schema(members),
    }
    let members = schema["properties"].as_object().into_iter().flat_map(|members| members.values());
    let choices = ["anyOf", "oneOf", "allOf", "prefixItems"].map(|name| schema[name].as_array());
    let inner = members.chain(choices.into_iter().flatten().flatten()).chain(schema.get("items"));
    inner.for_each(check_schema);
}

#[test]
fn every_schema_is_an_object_and_says_if_it_allows_any_member() {
    let document = Description::of(&Server::demo()).document;
    document["components"]["schemas"].as_object().expect("schemas").values().for_each(check_schema);
    walk(&document["paths"], &mut |value| {
        value.get("schema").into_iter().for_each(check_schema);
    });
    walk(&document["components"]["parameters"], &mut |value| {
        value.get("schema").into_iter().for_each(check_schema);
    });
}

#[test]
fn every_code_has_a_page_on_every_address() {
    let server = Server::demo();
    for kind in problem::ALL {
        let target = format!("/v1/problems/{}", kind.code);
        for address in [server.edge, server.admin] {
            let response = Client::to(address).request("GET", &target, &[("Origin", "https://a.example")]);
            assert_eq!(
                (response.status, response.field("content-type")),
                (200, Some("text/plain; charset=utf-8"))
            );
            let text = response.text();
            assert!(text.starts_with(&format!("{} (HTTP status {})\n", kind.code, kind.status)), "{text}");
            assert!(text.contains(kind.title) && text.ends_with(".\n"), "{text}");
            assert_eq!(response.field("access-control-allow-origin"), Some("*"));
            assert!(response.field("cache-control").expect("a policy").starts_with("public, "));
            let etag = response.field("etag").expect("a tag");
            let again = Client::to(address).request("GET", &target, &[("If-None-Match", etag)]);
            assert_eq!(again.status, 304);
        }
    }
    for target in ["/v1/problems/", "/v1/problems/Timeout", "/v1/problems/timeout/x"] {
        assert_eq!(server.get(target).code(), "unknown_endpoint", "{target}");
        assert_eq!(server.admin_get(target).code(), "unknown_endpoint", "{target}");
    }
    assert_eq!(server.post("/v1/problems/timeout", &[], b"").code(), "method_not_allowed");
}

#[test]
fn the_document_is_available_in_gzip() {
    let server = Server::demo();
    let plain = server.get("/v1/openapi.json");
    let gzip = server.get_with("/v1/openapi.json", &[("Accept-Encoding", "gzip")]);
    assert_eq!((plain.field("content-encoding"), gzip.field("content-encoding")), (None, Some("gzip")));
    let mut text = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(gzip.body.as_slice());
    std::io::Read::read_to_end(&mut decoder, &mut text).expect("gzip");
    assert!(text == plain.body && gzip.body.len() < plain.body.len() / 4);
    let [tag, gzip_tag] = [&plain, &gzip].map(|response| response.field("etag").expect("a tag"));
    assert_ne!(tag, gzip_tag);
    for (etag, coding) in [(tag, "identity"), (gzip_tag, "gzip")] {
        let fields = [("If-None-Match", etag), ("Accept-Encoding", coding)];
        let unchanged = server.get_with("/v1/openapi.json", &fields);
        assert_eq!((unchanged.status, unchanged.field("vary")), (304, Some("Accept-Encoding")));
    }
}

#[test]
fn the_document_is_cacheable_and_supports_conditional_requests() {
    let server = Server::start(&[], &[]);
    let fields = [("X-Request-Id", "mine"), ("Origin", "https://elsewhere.example")];
    let first = server.get_with("/v1/openapi.json", &fields);
    assert_eq!((first.status, first.field("content-type")), (200, Some("application/json")));
    assert_eq!(first.field("access-control-allow-origin"), Some("*"));
    assert_eq!(
        first.field("cache-control"),
        Some("public, max-age=0, s-maxage=60, stale-while-revalidate=600, stale-if-error=86400")
    );
    assert_ne!(first.field("x-request-id"), Some("mine"));
    let etag = first.field("etag").expect("an ETag");
    let again = server.get_with("/v1/openapi.json?site=none&site=none", &[("If-None-Match", etag)]);
    assert_eq!((again.status, again.field("etag"), again.body.len()), (304, Some(etag), 0));
    let head = Client::to(server.edge).request("HEAD", "/v1/openapi.json", &[]);
    assert_eq!((head.status, head.field("etag")), (200, Some(etag)));
    assert_eq!(head.field("content-length"), Some(&*first.body.len().to_string()));
    let restarted = server.restart(&[]).get("/v1/openapi.json");
    assert_eq!((restarted.field("etag"), &restarted.body), (Some(etag), &first.body));
}

#[test]
fn the_description_detects_wrong_responses() {
    let server = Server::demo();
    let description = Description::of(&server);
    let schema = json!({ "$ref": "#/components/schemas/Resolution" });
    let answer = server.get("/v1/resolve?site=fjell&route=/&variants=").json();
    assert_eq!(description.validation_errors(&schema, &answer), [""; 0]);
    for (pointer, wrong) in [
        ("/variants", json!("hero")),
        ("/type", json!("redirect")),
        ("/layout/zones/main/0/id", json!(7)),
        ("/layout/root", json!({})),
        ("/selected", json!({ "hero": null })),
    ] {
        let mut answer = answer.clone();
        *answer.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = wrong;
        assert!(!description.validation_errors(&schema, &answer).is_empty(), "{pointer}");
    }
    let mut answer = answer.clone();
    answer["unheard"] = json!(1);
    assert!(!description.validation_errors(&schema, &answer).is_empty());
}
