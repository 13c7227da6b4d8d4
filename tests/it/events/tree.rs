//! A simple JSON tree. It keeps numbers as they were written, and the last of several equal members.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Object(BTreeMap<String, Tree>),
    Array(Vec<Tree>),
    Text(String),
    /// A number, `true`, `false`, `null`.
    Other(String),
}

impl Tree {
    pub(super) fn read(json: &str) -> Self {
        let json = json.trim();
        match json.as_bytes()[0] {
            b'{' => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).expect("an object");
                Self::Object(members.into_iter().map(|(name, raw)| (name, Self::read(raw.get()))).collect())
            }
            b'[' => {
                let elements: Vec<&RawValue> = serde_json::from_str(json).expect("an array");
                Self::Array(elements.into_iter().map(|raw| Self::read(raw.get())).collect())
            }
            b'"' => Self::Text(serde_json::from_str(json).expect("a string")),
            _ => Self::Other(json.to_owned()),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(name),
            _ => None,
        }
    }
}
