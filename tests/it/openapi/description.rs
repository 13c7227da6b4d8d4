//! The document as a test of answers: every `$ref` followed, every body held against the schema of its operation, status
//! and type, every header field against its own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Response, Server};

/// What a server says of itself.
pub struct Description {
    pub document: Value,
    /// Its schemas, with members that they do not name refused: here a member that is not described is a fault.
    strict: Value,
}

impl Description {
    pub fn of(server: &Server) -> Self {
        let document = server.get("/v1/openapi.json").json();
        let mut strict = json!({ "components": { "schemas": document["components"]["schemas"] } });
        close(&mut strict);
        Self { document, strict }
    }

    /// A value, or what it refers to.
    pub fn followed<'d>(&'d self, value: &'d Value) -> &'d Value {
        let Some(reference) = value["$ref"].as_str() else { return value };
        let pointer = reference.strip_prefix('#').expect("a place in the document");
        self.document.pointer(pointer).unwrap_or_else(|| panic!("{reference} is not there"))
    }

    pub fn operation(&self, method: &str, path: &str) -> &Value {
        let operation = &self.document["paths"][path][method.to_ascii_lowercase()];
        assert!(operation.is_object(), "{method} {path} is not described");
        operation
    }

    /// Asserts that `response` is one that the operation describes.
    #[track_caller]
    pub fn hold(&self, method: &str, target: &str, response: &Response) {
        let path = target.split('?').next().unwrap_or_default();
        let responses = &self.operation(method, path)["responses"];
        let described = self.followed(&responses[response.status.to_string()]);
        assert!(described.is_object(), "{method} {target}: {} is not described", response.status);
        let faults = [self.faults_of_head(described, response), self.faults_of_body(described, response)];
        let faults = faults.concat();
        assert!(faults.is_empty(), "{method} {target}: {faults:#?}\n{response:?}");
    }

    /// Asserts that a refusal is one that the document knows, whatever was asked.
    #[track_caller]
    pub fn hold_problem(&self, response: &Response) {
        let faults = self.faults(&json!({ "$ref": "#/components/schemas/Problem" }), &response.json());
        assert!(faults.is_empty(), "{faults:#?} {}", response.text());
    }

    fn faults_of_head(&self, described: &Value, response: &Response) -> Vec<String> {
        let mut faults = Vec::new();
        let mut known = BTreeMap::new();
        for (name, field) in described["headers"].as_object().expect("header fields") {
            let field = self.followed(field);
            known.insert(name.to_ascii_lowercase(), name);
            match response.field(&name.to_ascii_lowercase()) {
                Some(value) => faults.extend(self.faults(&field["schema"], &json!(value))),
                None if field["required"] == true => faults.push(format!("{name} is required")),
                None => {}
            }
        }
        let framing = ["content-length", "content-type", "connection"];
        let stray = response.fields.iter().filter(|(name, _)| !known.contains_key(name));
        let stray = stray.filter(|(name, _)| !framing.contains(&name.as_str()));
        faults.extend(stray.map(|(name, _)| format!("{name} is not described")));
        faults
    }

    fn faults_of_body(&self, described: &Value, response: &Response) -> Vec<String> {
        let Some(content) = described["content"].as_object() else {
            return (!response.body.is_empty()).then(|| "there is a body".to_owned()).into_iter().collect();
        };
        let kind = response.field("content-type").expect("a type");
        match content.get(kind) {
            Some(media) => self.faults(&media["schema"], &response.json()),
            None => vec![format!("{kind} is not described")],
        }
    }

    /// What a validator says of `value`.
    pub fn faults(&self, schema: &Value, value: &Value) -> Vec<String> {
        let whole = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "allOf": [schema], "components": self.strict["components"],
        });
        let validator = jsonschema::validator_for(&whole).unwrap_or_else(|error| panic!("{error}: {schema}"));
        let fault = |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
        validator.iter_errors(value).map(fault).collect()
    }
}

/// Every object that names its members takes no others.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(close);
            if members.contains_key("properties") && members.contains_key("required") {
                members.entry("additionalProperties").or_insert(json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
