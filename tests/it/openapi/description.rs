//! Checks responses against the document: follows every `$ref`, validates every body with the schema of its
//! operation, status and type, and every header field with its own schema.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Response, Server};

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

    pub fn operation(&self, method: &str, path: &str) -> &Value {
        let operation = &self.document["paths"][path][method.to_ascii_lowercase()];
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
        let validation_errors =
            [self.header_errors(described, response), self.body_errors(described, response)];
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

    fn header_errors(&self, described: &Value, response: &Response) -> Vec<String> {
        let mut validation_errors = Vec::new();
        let mut known = BTreeMap::new();
        for (name, field) in described["headers"].as_object().expect("header fields") {
            let field = self.resolve_ref(field);
            known.insert(name.to_ascii_lowercase(), name);
            match response.field(&name.to_ascii_lowercase()) {
                Some(value) => {
                    validation_errors.extend(self.validation_errors(&field["schema"], &json!(value)))
                }
                None if field["required"] == true => validation_errors.push(format!("{name} is required")),
                None => {}
            }
        }
        let framing = ["content-length", "content-type", "connection"];
        let stray = response.fields.iter().filter(|(name, _)| !known.contains_key(name));
        let stray = stray.filter(|(name, _)| !framing.contains(&name.as_str()));
        validation_errors.extend(stray.map(|(name, _)| format!("{name} is not described")));
        validation_errors
    }

    fn body_errors(&self, described: &Value, response: &Response) -> Vec<String> {
        let Some(content) = described["content"].as_object() else {
            return (!response.body.is_empty()).then(|| "there is a body".to_owned()).into_iter().collect();
        };
        let kind = response.field("content-type").expect("a type");
        match content.get(kind) {
            Some(media) => self.validation_errors(&media["schema"], &response.json()),
            None => vec![format!("{kind} is not described")],
        }
    }

    /// Returns the errors of a JSON Schema validator for `value`.
    pub fn validation_errors(&self, schema: &Value, value: &Value) -> Vec<String> {
        let whole = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "allOf": [schema], "components": self.strict["components"],
        });
        let validator = jsonschema::validator_for(&whole).unwrap_or_else(|error| panic!("{error}: {schema}"));
        let format_error =
            |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
        validator.iter_errors(value).map(format_error).collect()
    }
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
