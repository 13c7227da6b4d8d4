//! The identity of a node: its name, the instance of its data directory, and the session of its process. And the file
//! `node` of a data directory.
//!
//! # Purpose
//!
//! A member of a cluster is a name with one live instance ([`super::members`]). An *instance* is a data directory: a
//! replaced disk is another one under the same name, and a copied machine with another name takes another one. A
//! *session* is one start of the process. Both are 128 random bits.
//!
//! # Layout
//!
//! One line of JSON. An instance has 32 hex digits.
//!
//! ```text
//! {"format":1,"name":"node-a","instance":"..","hasJoined":true}
//! ```
//!
//! | member | meaning |
//! |---|---|
//! | `format` | 1 |
//! | `name` | name of the node. A start under another name takes a new instance that has not joined |
//! | `instance` | instance of the directory |
//! | `hasJoined` | true after the instance has been a member. Before, the node acknowledges no event |
//!
//! # Writing
//!
//! The file is written under a temporary name, synced and renamed, and the directory is synced: at a start without it or
//! under another name, and before the first event is acknowledged.
//!
//! # A missing or damaged file
//!
//! The node takes a new instance. The member of its name is replaced after 30 s of silence.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::payloads::Hex;
use crate::visitors::backup::NODE_FILE;
use crate::{ids, storage};

const FORMAT: u32 = 1;

/// The ID of a data directory: random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceId(pub [u8; 16]);

/// The ID of a process: random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

/// A node, as it names itself in heartbeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub instance: InstanceId,
    pub session: SessionId,
    /// True after the instance has been a member once.
    pub has_joined: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeFile {
    format: u32,
    name: String,
    instance: Hex,
    has_joined: bool,
}

impl Identity {
    /// Returns the identity of a start under `name`. `text` is the content of the file, and `random` has the bits of a new
    /// instance and of the session.
    pub fn of_start(text: Option<&str>, name: &str, random: [[u8; 16]; 2]) -> Self {
        let stored = text.and_then(|text| serde_json::from_str::<NodeFile>(text).ok());
        let stored = stored.filter(|file| file.format == FORMAT && file.name == name);
        let [new_instance, session] = random;
        let instance = InstanceId(stored.as_ref().map_or(new_instance, |file| file.instance.0));
        let has_joined = stored.is_some_and(|file| file.has_joined);
        Self { name: name.to_owned(), instance, session: SessionId(session), has_joined }
    }

    /// Returns the content of the file.
    ///
    /// # Panics
    /// Never: texts are JSON.
    pub fn to_text(&self) -> String {
        let Self { name, instance, has_joined, .. } = self;
        let instance = Hex(instance.0);
        let file = NodeFile { format: FORMAT, name: name.clone(), instance, has_joined: *has_joined };
        serde_json::to_string(&file).expect("texts are JSON") + "\n"
    }

    /// Reads the file of a directory. If it changes with this start, it is written.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(directory: &Path, name: &str) -> Result<Self, String> {
        let path = directory.join(NODE_FILE);
        let failed = |action: &str, error: io::Error| format!("cannot {action} {}: {error}", path.display());
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", error)),
        };
        let identity = Self::of_start(text.as_deref(), name, [random_bits(), random_bits()]);
        if text.is_none_or(|text| text != identity.to_text()) {
            identity.save(directory).map_err(|error| failed("write", error))?;
        }
        Ok(identity)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn save(&self, directory: &Path) -> io::Result<()> {
        storage::write_data_file(&directory.join(NODE_FILE), self.to_text().as_bytes())
    }
}

/// Returns 128 random bits.
pub(crate) fn random_bits() -> [u8; 16] {
    let [low, high] = [ids::random_u64(), ids::random_u64()].map(u64::to_le_bytes);
    std::array::from_fn(|i| if i < 8 { low[i] } else { high[i - 8] })
}
