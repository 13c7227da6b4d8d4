//! The nkeys with which nodes and operators prove their identity to the NATS servers.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nkeys::{KeyPair, KeyPairType};

use crate::ids::random_key;

/// Makes an nkey of a user. Writes its seed to a new file that only the owner can read, and returns the public key.
///
/// # Errors
/// The file exists, or cannot be written. Then no part of the seed remains.
pub(crate) fn make(path: &Path) -> io::Result<String> {
    let key_pair = KeyPair::new_from_raw(KeyPairType::User, random_key()).map_err(io::Error::other)?;
    let seed = key_pair.seed().map_err(io::Error::other)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(format!("{seed}\n").as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        fs::remove_file(path)?;
        return Err(error);
    }
    Ok(key_pair.public_key())
}
