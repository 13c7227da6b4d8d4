//! Archives a compiled site into its file.

use rkyv::api::high::to_bytes_in;
use rkyv::rancor::{Error, Source};
use rkyv::ser::{Positional, Writer};

use crate::limits::{ARCHIVE_BYTES_MAX, PIECE_DATA_BYTES_MAX};
use crate::site::snapshot::format::{HEADER_BYTES, Header, Site};
use crate::site::source::diagnostics::Diagnostics;

/// Appends the archive of a site to the beginning of its file, and fills in the header.
pub(super) fn archive_site(site: &Site, file_start: Vec<u8>, version: u64) -> Result<Vec<u8>, Diagnostics> {
    let piece_data_bytes = file_start.len() - HEADER_BYTES;
    if piece_data_bytes as u64 > PIECE_DATA_BYTES_MAX {
        return Err(snapshot_too_large("texts of bodies", PIECE_DATA_BYTES_MAX, "more"));
    }
    let writer =
        BoundedWriter { bytes_max: file_start.len() + ARCHIVE_BYTES_MAX as usize, bytes: file_start };
    let mut bytes = to_bytes_in::<_, Error>(site, writer)
        .map_err(|error| snapshot_too_large("parts beside texts", ARCHIVE_BYTES_MAX, &error.to_string()))?
        .bytes;
    let header = Header::for_payload(&bytes[HEADER_BYTES..], piece_data_bytes, version);
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    Ok(bytes)
}

/// A writer of an archive that refuses to exceed a size. rkyv panics at an offset that does not fit 32 bits.
struct BoundedWriter {
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// The archive of a site exceeds its limit.
#[derive(Debug, thiserror::Error)]
#[error("more")]
struct ArchiveTooLargeError;

impl Positional for BoundedWriter {
    fn pos(&self) -> usize {
        self.bytes.len()
    }
}

impl Writer<Error> for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(Source::new(ArchiveTooLargeError));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

fn snapshot_too_large(content: &str, bytes_max: u64, actual: &str) -> Diagnostics {
    let expected = format!("a site whose snapshot has at most {bytes_max} bytes of {content}");
    let mut diagnostics = Diagnostics::default();
    diagnostics.add_titled("site.json", "", "the snapshot is too large", expected, actual);
    diagnostics
}
