//! Bytes of a response that the process keeps anyway: pieces of a snapshot, documents of the program, and prepared
//! lists of routes.
//!
//! A response is copied into one buffer, and sent with one call. If the client does not read it, the worker frees the
//! buffer and reads these bytes where they are. So a client that reads nothing costs little memory.

use std::sync::Arc;

use super::prepared_lists::PreparedList;
use crate::limits::{SHARED_PART_BYTES_MIN, SHARED_PARTS_MAX};
use crate::site::catalog::catalog::{Catalog, PublishedSite};
use crate::site::snapshot::open::Snapshot;
use crate::site::snapshot::pieces::PieceRange;

/// Bytes that do not change, and their owner.
#[derive(Clone)]
pub enum SharedBytes {
    Piece(Arc<Snapshot>, PieceRange),
    Document(&'static [u8]),
    List { list: Arc<PreparedList>, is_gzip: bool },
}

/// A part of an output buffer that is a copy of shared bytes.
#[derive(Clone)]
pub(crate) struct SharedPart {
    /// Offset of the part in the buffer.
    pub(crate) begin: usize,
    pub(crate) bytes: SharedBytes,
}

/// The shared parts of an output buffer, in their order.
#[derive(Default)]
pub struct SharedParts {
    parts: Vec<SharedPart>,
    /// False if nobody takes the parts, so none are recorded.
    is_recording: bool,
}

impl SharedBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Piece(snapshot, range) => snapshot.pieces().bytes(*range),
            Self::Document(bytes) => bytes,
            Self::List { list, is_gzip: true } => &list.gzip,
            Self::List { list, is_gzip: false } => &list.text,
        }
    }

    /// Returns whether these bytes keep a snapshot in memory that `catalog` does not serve any more.
    pub(crate) fn is_of_replaced_snapshot(&self, catalog: &Catalog) -> bool {
        let Self::Piece(snapshot, _) = self else { return false };
        let served = catalog.by_site_id(&snapshot.site().site);
        served.is_none_or(|served| served.hash() != snapshot.hash())
    }
}

impl SharedPart {
    /// Returns the end of the part in the buffer.
    pub(crate) fn end(&self) -> usize {
        self.begin + self.bytes.as_slice().len()
    }
}

impl SharedParts {
    /// Creates an empty list that records parts. It has memory for all of them.
    pub fn recording() -> Self {
        Self { parts: Vec::with_capacity(SHARED_PARTS_MAX), is_recording: true }
    }

    /// Adds a part that begins at `start_offset`. Leaves out a small part, and one that is too many.
    pub fn push(&mut self, start_offset: usize, bytes: SharedBytes) {
        let has_room = self.is_recording && self.parts.len() < SHARED_PARTS_MAX;
        if has_room && bytes.as_slice().len() >= SHARED_PART_BYTES_MIN {
            self.parts.push(SharedPart { begin: start_offset, bytes });
        }
    }

    /// Adds pieces of a site, each with its offset from `start_offset`.
    pub(crate) fn push_pieces(
        &mut self,
        published_site: &PublishedSite,
        start_offset: usize,
        pieces: impl Iterator<Item = (usize, PieceRange)>,
    ) {
        for (offset, range) in pieces.filter(|(_, [_, bytes])| *bytes >= SHARED_PART_BYTES_MIN as u64) {
            self.push(start_offset + offset, SharedBytes::Piece(published_site.snapshot(), range));
        }
    }

    /// Moves the parts of another list of the same buffer to the end of this one.
    pub fn append(&mut self, other: &mut Self) {
        let room = SHARED_PARTS_MAX.saturating_sub(self.parts.len());
        self.parts.extend(other.parts.drain(..).take(room));
    }

    pub(crate) fn as_slice(&self) -> &[SharedPart] {
        &self.parts
    }

    /// Returns the bytes of the parts from `start_offset` on.
    pub(crate) fn bytes_from(&self, start_offset: usize) -> usize {
        self.parts.iter().filter(|part| part.begin >= start_offset).map(|part| part.end() - part.begin).sum()
    }

    /// Removes the parts that do not end within the first `end_offset` bytes of the buffer.
    pub(crate) fn truncate(&mut self, end_offset: usize) {
        self.parts.retain(|part| part.end() <= end_offset);
    }

    /// Removes all parts.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }
}
