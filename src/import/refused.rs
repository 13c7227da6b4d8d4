//! The list of the refused lines: a file with one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;

/// A line or a record that was refused.
#[derive(Debug, Serialize)]
pub(crate) struct Refused<'r> {
    /// The file, or the data directory.
    pub file: &'r str,
    /// The number of the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The seq of a record of a data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    pub reason: String,
}

/// The file of the refused lines.
pub(super) struct RefusedList {
    file: BufWriter<File>,
    bytes: u64,
}

impl RefusedList {
    /// Opens the file and truncates it to `bytes`, the length that the progress states. Only its owner can read it.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(false).write(true).mode(0o600).open(path)?;
        file.set_len(bytes)?;
        file.seek(SeekFrom::Start(bytes))?;
        Ok(Self { file: BufWriter::new(file), bytes })
    }

    pub(super) fn add(&mut self, refused: &Refused<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(refused)?;
        line.push(b'\n');
        self.bytes += line.len() as u64;
        self.file.write_all(&line)
    }

    /// Makes the list durable. Returns its length in bytes.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn sync(&mut self) -> io::Result<u64> {
        self.file.flush()?;
        self.file.get_ref().sync_data()?;
        Ok(self.bytes)
    }
}
