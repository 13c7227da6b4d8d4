//! Checks responses against the document: follows every `$ref`, validates every body with the schema of its
//! operation, status and type, every header field with its own schema, and every problem code with the list in the
//! description of its response.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Response, Server};

/// Fields that the document describes once, for all responses: name, pattern, and whether every response has it.
const COMMON_FIELDS: [(&str, &str, bool); 9] = [
    ("date", "GMT$", true),
    ("x-content-type-options", "^nosniff$", true),
    ("x-request-id", "^[!-~]{1,128}$", true),
    ("cache-control", "^(public, |private, )?(no-store|s-maxage|max-age)", true),
    ("vary", "^[ -~]+$", false),
    ("content-encoding", "^gzip$", false),
    ("access-control-allow-origin", "^[!-~]+$", false),
    ("access-control-allow-credentials", "^true$", false),
    ("access-control-expose-headers", "^[ -~]+$", false),
];

/// Fields that only the admin address adds. It serves explained answers. The document describes the public address.
const ADMIN_FIELDS: [&str; 5] = [
    "content-security-policy",
    "referrer-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "x-frame-options",
];

/// The OpenAPI document of a server.
pub struct Description {
    pub document: Value,
    /// Its schemas, changed to reject unknown members, so that a member without a description is an error.
    strict: Value,
}

impl Description {
    pub fn of(server: &Server) -> Self {
        let document = server.get("/v1/openapi.json").json();
        let mut strict = json!({ "components": { "schemas": document["components"]["schemas"] } });
        forbid_unknown_members(&mut strict);
        Self { document, strict }
    }

    /// Returns the value, or the referenced value if it is a reference.
    pub fn resolve_ref<'d>(&'d self, value: &'d Value) -> &'d Value {
        let Some(reference) = value["$ref"].as_str() else { return value };
        let pointer = reference.strip_prefix('#').expect("a place in the document");
        self.document.pointer(pointer).unwrap_or_else(|| panic!("{reference} does not exist"))
    }

    /// Returns the operation of a request. HEAD is described by GET.
    pub fn operation(&self, method: &str, path: &str) -> &Value {
        let mut items = self.document["paths"].as_object().expect("paths").iter();
        let item = items.find(|(template, _)| matches_template(template, path)).map(|(_, item)| item);
        let method = if method == "HEAD" { "get" } else { &method.to_ascii_lowercase() };
        let operation = &item.unwrap_or_else(|| panic!("{path} is not described"))[method];
        assert!(operation.is_object(), "{method} {path} is not described");
        operation
    }

    /// Asserts that the operation describes `response`.
    #[track_caller]
    pub fn assert_described(&self, method: &str, target: &str, response: &Response) {
        let path = target.split('?').next().unwrap_or_default();
        let responses = &self.operation(method, path)["responses"];
        let described = self.resolve_ref(&responses[response.status.to_string()]);
        assert!(described.is_object(), "{method} {target}: {} is not described", response.status);
        let is_head = method == "HEAD";
        assert!(!is_head || response.body.is_empty(), "{target}: HEAD has a body");
        let body_errors = if is_head { Vec::new() } else { self.body_errors(described, response) };
        let added = if target.contains("explain=1") { &ADMIN_FIELDS[..] } else { &[] };
        let validation_errors = [self.header_errors(described, response, added), body_errors];
        let validation_errors = validation_errors.concat();
        assert!(validation_errors.is_empty(), "{method} {target}: {validation_errors:#?}\n{response:?}");
    }

    /// Asserts that a problem matches the general problem schema, for any request.
    #[track_caller]
    pub fn assert_problem_described(&self, response: &Response) {
        let validation_errors =
            self.validation_errors(&json!({ "$ref": "#/components/schemas/Problem" }), &response.json());
        assert!(validation_errors.is_empty(), "{validation_errors:#?} {}", response.text());
    }

    fn header_errors(&self, described: &Value, response: &Response, added: &[&str]) -> Vec<String> {
        let mut validation_errors = Vec::new();
        let mut known = BTreeSet::new();
        for (name, pattern, is_required) in COMMON_FIELDS {
            let field =
                json!({ "required": is_required, "schema": { "type": "string", "pattern": pattern } });
            validation_errors.extend(self.field_errors(name, &field, response));
        }
        for (name, field) in described["headers"].as_object().into_iter().flatten() {
            let field = self.resolve_ref(field);
            known.insert(name.to_ascii_lowercase());
            validation_errors.extend(self.field_errors(name, field, response));
        }
        known.extend(COMMON_FIELDS.map(|(name, ..)| name.to_owned()));
        let framing = ["content-length", "content-type", "connection"];
        let stray = response.fields.iter().filter(|(name, _)| !known.contains(name));
        let stray =
            stray.filter(|(name, _)| !framing.contains(&name.as_str()) && !added.contains(&name.as_str()));
        validation_errors.extend(stray.map(|(name, _)| format!("{name} is not described")));
        validation_errors
    }

    fn field_errors(&self, name: &str, field: &Value, response: &Response) -> Vec<String> {
        match response.field(&name.to_ascii_lowercase()) {
            Some(value) => self.validation_errors(&field["schema"], &json!(value)),
            None if field["required"] == true => vec![format!("{name} is required")],
            None => Vec::new(),
        }
    }

    fn body_errors(&self, described: &Value, response: &Response) -> Vec<String> {
        let Some(content) = described["content"].as_object() else {
            return (!response.body.is_empty()).then(|| "there is a body".to_owned()).into_iter().collect();
        };
        let kind = response.field("content-type").expect("a type");
        let Some(media) = content.get(kind) else { return vec![format!("{kind} is not described")] };
        let body = if kind.contains("json") { response.json() } else { json!(response.text()) };
        let mut validation_errors = self.validation_errors(&media["schema"], &body);
        if response.status >= 400 && !listed_codes(described).contains(&response.code()) {
            validation_errors.push(format!("{} is not listed at the response", response.code()));
        }
        validation_errors
    }

    /// Returns the errors of a JSON Schema validator for `value`.
    pub fn validation_errors(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut whole =
            json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema] });
        // Most header fields need no component. The validator compiles all components that it gets.
        if schema.to_string().contains("$ref") {
            whole["components"] = self.strict["components"].clone();
        }
        let validator = jsonschema::validator_for(&whole).unwrap_or_else(|error| panic!("{error}: {schema}"));
        let format_error =
            |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
        validator.iter_errors(value).map(format_error).collect()
    }
}

/// Returns the problem codes in the description of a response. Each is in backticks.
pub fn listed_codes(response: &Value) -> BTreeSet<String> {
    let description = response["description"].as_str().expect("a description");
    description.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns whether `path` has the segments of `template`, in which `{name}` stands for any segment.
fn matches_template(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(path).all(|(part, segment)| *part == segment || part.starts_with('{'))
}

/// Forbids unknown members in every object schema that has `properties` and `required`.
fn forbid_unknown_members(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(forbid_unknown_members);
            if members.contains_key("properties") && members.contains_key("required") {
                members.entry("additionalProperties").or_insert(json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_unknown_members),
        _ => {}
    }
}
