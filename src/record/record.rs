//! The encoding of one record. The module doc of `log/format.rs` specifies it.
//!
//! A worker encodes its records directly into the request that it sends to the writer. The writer copies the
//! bytes and reads only keys and received times.

use super::TIME_MS_MAX;
use super::context::RecordContext;
use super::fold_input::{FoldInput, FoldParts};
use crate::limits::{FOLD_INPUT_BYTES_MAX, PAYLOAD_BYTES_MAX, REQUEST_BYTES_MAX, TEXT_BYTES_MAX};
use crate::little_endian::{u16_at, u32_at, u64_at};

/// Bytes of a record before its text columns.
pub const RECORD_BYTES_MIN: usize = 80;
/// Offset of the key in a record.
pub(crate) const KEY_OFFSET: usize = 24;
/// Offset of the lengths of the text columns.
pub(crate) const LENGTHS_OFFSET: usize = 48;
/// Offset of the length of the fold input.
pub(crate) const FOLD_LENGTH_OFFSET: usize = 68;
const CONTEXT_OFFSET: usize = 72;
/// Text columns of a record.
const COLUMNS: usize = 10;
const ABSENT: u16 = u16::MAX;
/// The name of a track event that only tells which variant a visitor saw.
pub(crate) const EXPOSURE_EVENT: &str = "Experiment Viewed";
/// The name of the event that a page sends when an arm fails.
pub(crate) const ERROR_EVENT: &str = "Experiment Error";
/// The arm of a visitor that is held out, in `experiments`.
pub(crate) const HELD_OUT: &str = "~";
/// The name of the site's holdout among the experiments. No experiment has it. Its arms are [`HELD_OUT`] and [`NOT_HELD_OUT`].
pub(crate) const SITE_HOLDOUT: &str = "~";
/// The arm of a visitor that is not in the site's holdout.
pub(crate) const NOT_HELD_OUT: &str = "on";
const BOT: u8 = 1;
const GPC: u8 = 1 << 1;
const FOLDED_BOT: u8 = 1 << 2;
const REDACTED: u8 = 1 << 3;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A record whose content was erased. Its seq remains.
    Void = 0,
    /// A page view.
    Page = 1,
    /// A named event.
    Track = 2,
    /// A link from an anonymous ID to a user.
    Identify = 3,
    /// A change of traits.
    Profile = 4,
    /// A screen view.
    Screen = 5,
    /// A group event, which is recorded and has no other effect.
    Group = 6,
    /// A statement that two IDs are one visitor.
    Alias = 7,
    /// The erasure of a visitor.
    Tombstone = 32,
}

impl RecordKind {
    /// The kinds that clients send, in the order of their numbers, which begin with 1.
    pub const EVENT_KINDS: [Self; 7] =
        [Self::Page, Self::Track, Self::Identify, Self::Profile, Self::Screen, Self::Group, Self::Alias];

    /// Returns the kind's name, as in the member `type` of an event.
    pub fn name(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Page => "page",
            Self::Track => "track",
            Self::Identify => "identify",
            Self::Profile => "profile",
            Self::Screen => "screen",
            Self::Group => "group",
            Self::Alias => "alias",
            Self::Tombstone => "tombstone",
        }
    }

    /// Returns the kind that clients send under this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::EVENT_KINDS.into_iter().find(|kind| kind.name() == name)
    }

    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Void),
            32 => Some(Self::Tombstone),
            _ => Self::EVENT_KINDS.get(usize::from(byte) - 1).copied(),
        }
    }
}

/// A decoded record: all that an export needs except the seq. An absent text is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: RecordKind,
    /// True if a crawler sent it.
    pub bot: bool,
    /// True if it changes a profile although a crawler sent it.
    pub is_folded_bot: bool,
    /// True if its request had `Sec-GPC: 1`.
    pub gpc: bool,
    /// The time when the server received it, in milliseconds. The dedup window uses this time.
    pub received_ms: i64,
    /// The time when it happened, in milliseconds.
    pub timestamp_ms: i64,
    /// The dedup key. Equal if and only if site and message ID are equal. 0 if the record is never a
    /// duplicate, for example because the server minted the message ID.
    pub key: u128,
    /// The site ID.
    pub site: Option<&'a str>,
    /// The message ID, from the client or minted.
    pub message_id: Option<&'a str>,
    /// The anonymous ID.
    pub anon_id: Option<&'a str>,
    /// The user ID.
    pub user_id: Option<&'a str>,
    /// The event name of a track record.
    pub event: Option<&'a str>,
    /// The name of a page or screen.
    pub name: Option<&'a str>,
    /// The page's path.
    pub path: Option<&'a str>,
    /// The variants that the page showed, in canonical form.
    pub variants: Option<&'a str>,
    /// The IP address, if the site records it.
    pub ip: Option<&'a str>,
    /// The experiments that the page showed, and their variants.
    pub experiments: Option<&'a str>,
    /// The visitor's device, operating system, browser, country and language.
    pub context: RecordContext,
    /// True if an erasure removed an ID from the record, and its payload.
    pub is_redacted: bool,
    /// The rest of the event, as JSON.
    pub payload: &'a str,
    /// The data that the fold reads beside the columns.
    pub fold_input: FoldInput<'a>,
}

/// An error while encoding a record or adding it to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A text column exceeds its limit.
    #[error("a text of {0} bytes exceeds the limit of {TEXT_BYTES_MAX} bytes")]
    TextTooLong(usize),
    /// The payload exceeds its limit.
    #[error("a payload of {0} bytes exceeds the limit of {PAYLOAD_BYTES_MAX} bytes")]
    PayloadTooLong(usize),
    /// The fold input exceeds its limit.
    #[error("a fold input of {0} bytes exceeds the limit of {FOLD_INPUT_BYTES_MAX} bytes")]
    FoldInputTooLong(usize),
    /// The request would exceed its limit.
    #[error("the records of the request need {0} bytes and exceed the limit of {REQUEST_BYTES_MAX} bytes")]
    RequestTooLong(usize),
}

impl<'a> Record<'a> {
    /// Creates a record of this kind. All other fields are absent, empty or 0.
    pub const fn new(kind: RecordKind) -> Self {
        Self {
            kind,
            bot: false,
            is_folded_bot: false,
            gpc: false,
            received_ms: 0,
            timestamp_ms: 0,
            key: 0,
            site: None,
            message_id: None,
            anon_id: None,
            user_id: None,
            event: None,
            name: None,
            path: None,
            variants: None,
            ip: None,
            experiments: None,
            context: RecordContext::UNKNOWN,
            is_redacted: false,
            payload: "",
            fold_input: FoldInput::EMPTY,
        }
    }

    /// Creates a tombstone of a visitor of `site`.
    pub(crate) fn tombstone(site: &'a str, payload: &'a str, now_ms: i64) -> Self {
        let times = Self { received_ms: now_ms, timestamp_ms: now_ms, ..Self::new(RecordKind::Tombstone) };
        Self { site: Some(site), payload, ..times }
    }

    /// Returns whether the record may change a profile.
    pub(crate) fn is_folded(&self) -> bool {
        let is_event = !matches!(self.kind, RecordKind::Void | RecordKind::Tombstone | RecordKind::Group);
        is_event && (!self.bot || self.is_folded_bot)
    }

    /// Returns whether the record begins or extends a visit: a page, screen or track event of a browser or an app. An
    /// event without an anonymous ID is a server's, and an exposure follows another event. A redacted event without an
    /// anonymous ID had one: an erasure removes no other ID of such an event.
    pub(crate) fn is_of_visit(&self) -> bool {
        let is_kind = match self.kind {
            RecordKind::Page | RecordKind::Screen => true,
            RecordKind::Track => self.event != Some(EXPOSURE_EVENT),
            _ => false,
        };
        is_kind && (self.anon_id.is_some() || self.is_redacted)
    }

    /// Returns the `previousId` of an alias. `buffer` is a reusable buffer.
    pub fn previous_id<'b>(&self, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        if self.kind != RecordKind::Alias {
            return None;
        }
        self.fold_input.unpack(buffer);
        FoldParts::parse(buffer).previous_id
    }

    /// Appends the record to `out`. Times are clamped to [`TIME_MS_MAX`].
    ///
    /// # Errors
    /// A text, the payload or the fold input is too long. `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let texts = self.texts();
        let mut fixed = [0; RECORD_BYTES_MIN];
        let mut bytes = RECORD_BYTES_MIN + self.payload.len();
        for (text, length) in texts.iter().zip(fixed[LENGTHS_OFFSET..].chunks_exact_mut(2)) {
            let text_bytes = text.map_or(0, str::len);
            if text_bytes > TEXT_BYTES_MAX {
                return Err(RecordError::TextTooLong(text_bytes));
            }
            bytes += text_bytes;
            length.copy_from_slice(&text.map_or(ABSENT, |_| text_bytes as u16).to_le_bytes());
        }
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(RecordError::PayloadTooLong(self.payload.len()));
        }
        if self.fold_input.length() > FOLD_INPUT_BYTES_MAX {
            return Err(RecordError::FoldInputTooLong(self.fold_input.length()));
        }
        let start = out.len();
        let fold_words = self.fold_input.words();
        let fold_offset = bytes.next_multiple_of(8);
        let length = fold_offset + fold_words.len();
        self.encode_fixed(length as u32, &mut fixed);
        out.reserve(length);
        out.extend_from_slice(&fixed);
        texts.iter().flatten().for_each(|text| out.extend_from_slice(text.as_bytes()));
        out.extend_from_slice(self.payload.as_bytes());
        out.resize(start + fold_offset, 0);
        out.extend_from_slice(fold_words);
        Ok(())
    }

    /// Encodes all fields before the texts except their lengths.
    fn encode_fixed(&self, record_length: u32, fixed_bytes: &mut [u8; RECORD_BYTES_MIN]) {
        let time = |ms: i64| ms.clamp(-TIME_MS_MAX, TIME_MS_MAX).to_le_bytes();
        fixed_bytes[..4].copy_from_slice(&record_length.to_le_bytes());
        fixed_bytes[4] = self.kind as u8;
        let flags = [(self.bot, BOT), (self.gpc, GPC), (self.is_folded_bot, FOLDED_BOT)];
        let flags = flags.into_iter().chain([(self.is_redacted, REDACTED)]);
        fixed_bytes[5] = flags.map(|(is_set, flag)| u8::from(is_set) * flag).sum();
        fixed_bytes[8..16].copy_from_slice(&time(self.received_ms));
        fixed_bytes[16..KEY_OFFSET].copy_from_slice(&time(self.timestamp_ms));
        fixed_bytes[KEY_OFFSET..LENGTHS_OFFSET]
            .copy_from_slice(&key_to_bytes(self.key, self.payload.len() as u32));
        let fold_length = self.fold_input.length() as u32;
        fixed_bytes[FOLD_LENGTH_OFFSET..CONTEXT_OFFSET].copy_from_slice(&fold_length.to_le_bytes());
        fixed_bytes[CONTEXT_OFFSET..].copy_from_slice(&self.context.to_bytes());
    }

    /// Decodes the record at the start of `bytes`. Returns it with its length, or `None` if no valid record
    /// is there.
    pub fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let length = record_length(bytes)?;
        let bytes = &bytes[..length];
        let (key, payload_length) = key_from_bytes(&bytes[KEY_OFFSET..])?;
        let flags = bytes[5];
        if bytes[6..8] != [0; 2] || flags & !(BOT | GPC | FOLDED_BOT | REDACTED) != 0 {
            return None;
        }
        let lengths: [_; COLUMNS] = std::array::from_fn(|column| column_length(bytes, column));
        let texts_bytes: usize = lengths.iter().flatten().sum();
        let fold_offset = (RECORD_BYTES_MIN + texts_bytes + payload_length as usize).next_multiple_of(8);
        let fold_length = u32_at(bytes, FOLD_LENGTH_OFFSET) as usize;
        let (texts, after) = bytes.split_at_checked(fold_offset)?;
        let (words, rest) = after.split_at_checked(FoldInput::packed_length(fold_length))?;
        let is_redacted = flags & REDACTED != 0;
        if fold_length > FOLD_INPUT_BYTES_MAX || rest.iter().any(|byte| *byte != 0 || !is_redacted) {
            return None;
        }
        let (texts, payload) = decode_texts(&texts[RECORD_BYTES_MIN..], lengths, payload_length as usize)?;
        let [site, message_id, anon_id, user_id, event, name, path, variants, ip, experiments] = texts;
        let record = Self {
            kind: RecordKind::from_byte(bytes[4])?,
            bot: flags & BOT != 0,
            is_folded_bot: flags & FOLDED_BOT != 0,
            gpc: flags & GPC != 0,
            received_ms: u64_at(bytes, 8) as i64,
            timestamp_ms: u64_at(bytes, 16) as i64,
            key,
            site,
            message_id,
            anon_id,
            user_id,
            event,
            name,
            path,
            variants,
            ip,
            experiments,
            context: RecordContext::from_bytes(*bytes[CONTEXT_OFFSET..].first_chunk()?),
            is_redacted,
            payload,
            fold_input: FoldInput::from_words(words, fold_length)?,
        };
        Some((record, length))
    }

    fn texts(&self) -> [Option<&'a str>; COLUMNS] {
        [
            self.site,
            self.message_id,
            self.anon_id,
            self.user_id,
            self.event,
            self.name,
            self.path,
            self.variants,
            self.ip,
            self.experiments,
        ]
    }
}

/// Decodes the columns and the payload from `bytes`, which end with at most seven zeros.
fn decode_texts(
    bytes: &[u8],
    lengths: [Option<usize>; COLUMNS],
    payload_length: usize,
) -> Option<([Option<&str>; COLUMNS], &str)> {
    // Validate all texts in one pass, together with the padding. `split_at_checked` then rejects a column
    // that ends inside a character.
    let mut rest = simdutf8::basic::from_utf8(bytes).ok()?;
    let mut take = |length| {
        let (text, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(text)
    };
    let mut texts = [None; COLUMNS];
    for (length, text) in lengths.into_iter().zip(&mut texts) {
        if let Some(length) = length {
            *text = Some(take(length)?);
        }
    }
    let payload = take(payload_length)?;
    rest.bytes().all(|byte| byte == 0).then_some((texts, payload))
}

/// Returns the length field of the record at the start of `bytes`, if the length is valid and `bytes` holds
/// as much.
pub(crate) fn record_length(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < RECORD_BYTES_MIN {
        return None;
    }
    let length = u32_at(bytes, 0) as usize;
    ((RECORD_BYTES_MIN..=bytes.len()).contains(&length) && length.is_multiple_of(8)).then_some(length)
}

/// Iterates over the consecutive encoded records in `bytes`. Stops at the first incomplete one.
pub(crate) fn encoded_records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (record, after) = rest.split_at_checked(record_length(rest)?)?;
        rest = after;
        Some(record)
    })
}

/// Passes the `previousId` of an encoded record to `visit`.
pub(crate) fn with_previous_id(encoded_record: &[u8], visit: impl FnMut(&str)) {
    if encoded_record[4] == RecordKind::Alias as u8
        && let Some((encoded_record, _)) = Record::decode(encoded_record)
    {
        let mut content = Vec::new();
        encoded_record.fold_input.unpack(&mut content);
        FoldParts::parse(&content).previous_id.into_iter().for_each(visit);
    }
}

/// Returns the site of the record at the start of `bytes`.
pub(crate) fn site(bytes: &[u8]) -> Option<&str> {
    let record = &bytes[..record_length(bytes)?];
    simdutf8::basic::from_utf8(ids(record)[0]?).ok()
}

/// Returns site, anonymous ID and user ID of an encoded record, without validating UTF-8.
pub(crate) fn ids(encoded_record: &[u8]) -> [Option<&[u8]>; 3] {
    let mut rest = &encoded_record[RECORD_BYTES_MIN..];
    let [site, _, anon_id, user_id] = [0, 1, 2, 3].map(|column| {
        let (text, after) = rest.split_at_checked(column_length(encoded_record, column)?)?;
        rest = after;
        Some(text)
    });
    [site, anon_id, user_id]
}

/// Returns the length of a text column of an encoded record, or `None` if the text is absent.
fn column_length(encoded_record: &[u8], column_index: usize) -> Option<usize> {
    let length = u16_at(encoded_record, LENGTHS_OFFSET + 2 * column_index);
    (length != ABSENT).then_some(usize::from(length))
}

/// Returns key and received time of an encoded record.
pub(crate) fn key_and_time(encoded_record: &[u8]) -> (u128, i64) {
    (
        key_from_bytes(&encoded_record[KEY_OFFSET..]).map_or(0, |(key, _)| key),
        u64_at(encoded_record, 8) as i64,
    )
}

/// Encodes a key and a 4-byte number in 24 bytes. Bytes 0, 8 and 16 are zero, so that no key looks like a
/// magic.
pub(crate) fn key_to_bytes(key: u128, number: u32) -> [u8; 24] {
    let key = key.to_le_bytes();
    let mut bytes = [0; 24];
    bytes[1..8].copy_from_slice(&key[0..7]);
    bytes[9..16].copy_from_slice(&key[7..14]);
    bytes[17..19].copy_from_slice(&key[14..16]);
    bytes[20..24].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Decodes key and number from the first 24 of `bytes`, as [`key_to_bytes`] wrote them.
pub(crate) fn key_from_bytes(bytes: &[u8]) -> Option<(u128, u32)> {
    if bytes.len() < 24 || [bytes[0], bytes[8], bytes[16], bytes[19]] != [0; 4] {
        return None;
    }
    let mut key = [0; 16];
    key[0..7].copy_from_slice(&bytes[1..8]);
    key[7..14].copy_from_slice(&bytes[9..16]);
    key[14..16].copy_from_slice(&bytes[17..19]);
    Some((u128::from_le_bytes(key), u32_at(bytes, 20)))
}
