//! A cache of prepared answers to resolve and variants, one for each worker.
//!
//! An answer depends on its [`AnswerKey`] alone. The table keeps its header fields and the plan of its body.
//! A request for it writes only its own fields, and copies the rest:
//!
//! ```text
//! status line, Date, fields of the request | shared fields | content fields | empty line | start, pieces of the site, end
//! ```
//!
//! The table has a fixed number of slots for one answer each, and allocates only when it is created. A slot
//! holds its whole key, and the key holds the hash of the snapshot. So a slot never matches another snapshot.
//! Answers that depend on more than a key have no key, and are written without the table: those of pattern
//! routes, with unknown pairs, with an explanation, or with embedded queries.

use super::class::ResponseClass;
use super::shared_bytes::SharedParts;
use crate::checksum;
use crate::http::etag::Etag;
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_PIECES_MAX, ANSWERS_PREPARED, KEY_BYTES_MAX, ZONES_MAX};
use crate::site::catalog::catalog::PublishedSite;
use crate::site::snapshot::pieces::{PieceRange, Pieces};

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum AnswerKind {
    /// A layout with forced variants.
    ForcedLayout,
    /// A layout that rules decided.
    DecidedLayout,
    /// A decision without the layout.
    Decision,
    /// The same for a crawler.
    CrawlerDecision,
}

/// The bytes of a key before the choice: kind, coding, index of the route, hash of the snapshot.
const FIXED_KEY_BYTES: usize = 1 + 1 + 4 + 32;
/// Size of a key. A few experiments fit. Answers with more of them are not prepared.
const ANSWER_KEY_BYTES_MAX: usize = FIXED_KEY_BYTES + ZONES_MAX + 2 * KEY_BYTES_MAX;

/// The empty line between the fields and the body.
pub(super) const EMPTY_LINE: &[u8] = b"\r\n";

/// The key of an answer: everything that the answer depends on. A handler reuses one, so that its bytes are not copied
/// from function to function. A key of length 0 is not set.
#[derive(Debug)]
pub(super) struct AnswerKey {
    bytes: [u8; ANSWER_KEY_BYTES_MAX],
    length: usize,
    kind: AnswerKind,
    slot: usize,
}

impl AnswerKey {
    /// Creates a key that is not set yet.
    pub(super) fn new() -> Self {
        Self { bytes: [0; ANSWER_KEY_BYTES_MAX], length: 0, kind: AnswerKind::DecidedLayout, slot: 0 }
    }

    /// Marks the key as not set.
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Returns the key if it is set.
    pub(super) fn if_set(&self) -> Option<&Self> {
        (self.length > 0).then_some(self)
    }

    /// Sets the key of an answer to a client that accepts gzip, or not. `choice_bytes` has one byte for each zone of
    /// the route's page, so its length needs no separator. Does not set the key if the text of the experiments
    /// is too long.
    #[inline]
    pub(super) fn set(
        &mut self,
        kind: AnswerKind,
        accepts_gzip: bool,
        snapshot_hash: &[u8; 32],
        route_index: u32,
        choice_bytes: &[u8],
        experiments_text: &[u8],
    ) {
        self.clear();
        let bytes = &mut self.bytes;
        let length = FIXED_KEY_BYTES + choice_bytes.len() + experiments_text.len();
        bytes[..2].copy_from_slice(&[kind as u8, u8::from(accepts_gzip)]);
        bytes[2..6].copy_from_slice(&route_index.to_le_bytes());
        bytes[6..FIXED_KEY_BYTES].copy_from_slice(snapshot_hash);
        let Some(rest) = bytes.get_mut(FIXED_KEY_BYTES..length) else { return };
        let (key_choice, experiments_bytes) = rest.split_at_mut(choice_bytes.len());
        key_choice.copy_from_slice(choice_bytes);
        experiments_bytes.copy_from_slice(experiments_text);
        self.slot = checksum::hash64(&bytes[..length]) as usize % ANSWERS_PREPARED;
        self.length = length;
        self.kind = kind;
    }

    /// Returns the class of the response.
    pub(super) fn class(&self) -> ResponseClass {
        match self.kind {
            AnswerKind::ForcedLayout => ResponseClass::Public,
            AnswerKind::DecidedLayout | AnswerKind::Decision | AnswerKind::CrawlerDecision => {
                ResponseClass::Private
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The parts of an answer that do not depend on the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreparedAnswer<'t> {
    /// The shared fields, the content fields, the empty line after them, and the bytes of the body before its pieces.
    pub(super) before_pieces: &'t [u8],
    /// End of the shared fields.
    pub(super) shared_end: usize,
    /// End of the content fields.
    pub(super) content_end: usize,
    /// The pieces of the body, in the coding of the answer.
    pub(super) pieces: &'t [PieceRange],
    /// The bytes of the body after its pieces.
    pub(super) after_pieces: &'t [u8],
}

impl PreparedAnswer<'_> {
    /// Returns the header fields that a 304 has too. The first one is the ETag.
    pub(super) fn shared_fields(&self) -> &[u8] {
        &self.before_pieces[..self.shared_end]
    }

    /// Returns the header fields of the body.
    pub(super) fn content_fields(&self) -> &[u8] {
        &self.before_pieces[self.shared_end..self.content_end]
    }

    /// Returns the ETag, which is in the first field.
    pub(super) fn etag(&self) -> Etag {
        Etag::from_field(self.before_pieces)
    }

    /// Appends the shared fields, the content fields, the empty line and the body. A response with
    /// `Connection: close` needs [`Self::write_body`], because that field precedes the empty line. `pieces`
    /// are those of the site.
    pub(super) fn write_rest(&self, pieces: Pieces<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before_pieces);
        self.write_pieces(pieces, out);
    }

    /// Appends the body.
    pub(super) fn write_body(&self, pieces: Pieces<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before_pieces[self.content_end + EMPTY_LINE.len()..]);
        self.write_pieces(pieces, out);
    }

    /// Records the pieces as shared parts of a response that ends at `end_offset`.
    #[cold]
    pub(super) fn record_shared(
        &self,
        published_site: &PublishedSite,
        end_offset: usize,
        shared_parts: &mut SharedParts,
    ) {
        let pieces_bytes: u64 = self.pieces.iter().map(|[_, bytes]| bytes).sum();
        let begin = end_offset - self.after_pieces.len() - pieces_bytes as usize;
        let ranges = self.pieces.iter().scan(0, |offset, range| {
            let at = *offset;
            *offset += range[1] as usize;
            Some((at, *range))
        });
        shared_parts.push_pieces(published_site, begin, ranges);
    }

    fn write_pieces(&self, pieces: Pieces<'_>, out: &mut Vec<u8>) {
        for range in self.pieces {
            out.extend_from_slice(pieces.bytes(*range));
        }
        out.extend_from_slice(self.after_pieces);
    }
}

/// A table of prepared answers.
pub(super) struct AnswerTable {
    slots: Box<[Slot]>,
    /// The bytes of each slot: the key, the bytes before the pieces, and the bytes after the pieces.
    bytes: Box<[[u8; ANSWER_BYTES_MAX]]>,
    pieces: Box<[[PieceRange; ANSWER_PIECES_MAX]]>,
}

/// The description of the answer in a slot. An empty slot matches no key, because a key is not empty.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// End of the key in the bytes of the slot. The bytes before the pieces begin here.
    key_end: u16,
    /// End of the shared fields, counted from `key_end`.
    shared_end: u16,
    /// End of the content fields, counted from `key_end`.
    content_end: u16,
    /// Where the pieces belong: the end of the bytes before them, in the bytes of the slot.
    pieces_at: u16,
    /// End of the bytes after the pieces, in the bytes of the slot.
    end: u16,
    /// Number of pieces.
    pieces: u8,
}

impl AnswerTable {
    /// Creates an empty table. The system provides its memory when slots are filled.
    pub(super) fn new() -> Self {
        Self {
            slots: vec![Slot::default(); ANSWERS_PREPARED].into(),
            bytes: vec![[0; ANSWER_BYTES_MAX]; ANSWERS_PREPARED].into(),
            pieces: vec![[PieceRange::default(); ANSWER_PIECES_MAX]; ANSWERS_PREPARED].into(),
        }
    }

    /// Returns the answer of `key`.
    pub(super) fn get(&self, key: &AnswerKey) -> Option<PreparedAnswer<'_>> {
        let slot = &self.slots[key.slot];
        let bytes = &self.bytes[key.slot];
        let part = |from: u16, to: u16| &bytes[usize::from(from)..usize::from(to)];
        if part(0, slot.key_end) != key.bytes() {
            return None;
        }
        Some(PreparedAnswer {
            before_pieces: part(slot.key_end, slot.pieces_at),
            shared_end: usize::from(slot.shared_end),
            content_end: usize::from(slot.content_end),
            pieces: &self.pieces[key.slot][..usize::from(slot.pieces)],
            after_pieces: part(slot.pieces_at, slot.end),
        })
    }

    /// Stores the answer of `key` in place of another one. An answer that is too large is not stored.
    pub(super) fn insert(&mut self, key: &AnswerKey, answer: &PreparedAnswer<'_>) {
        let parts = [key.bytes(), answer.before_pieces, answer.after_pieces];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Some(pieces) = self.pieces[key.slot].get_mut(..answer.pieces.len()) else { return };
        if length > ANSWER_BYTES_MAX {
            return;
        }
        pieces.copy_from_slice(answer.pieces);
        let mut written = 0;
        let [key_end, pieces_at, end] = parts.map(|part| {
            self.bytes[key.slot][written..written + part.len()].copy_from_slice(part);
            written += part.len();
            written as u16
        });
        let shared_end = answer.shared_end as u16;
        let content_end = answer.content_end as u16;
        let pieces = answer.pieces.len() as u8;
        self.slots[key.slot] = Slot { key_end, shared_end, content_end, pieces_at, end, pieces };
    }
}
