//! A record's bytes, as [`super::format`] draws them.
//!
//! A worker encodes what it records straight into the request that travels to the writer; the writer
//! copies bytes and looks at keys only.

use super::format::{u16_at, u32_at, u64_at};
use crate::limits::{PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX};

/// Bytes of a record before its texts.
pub const RECORD_BYTES_MIN: usize = 72;
/// Where a record's key stands.
pub const KEY_AT: usize = 24;
/// Times are cut to this, in milliseconds either way, so that their last bytes are 00 or FF.
pub const TIME_MS_MAX: i64 = (1 << 47) - 1;
const LENGTHS_AT: usize = 48;
const ABSENT: u16 = u16::MAX;

/// What a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Its content was erased; its seq stays.
    Void = 0,
    /// A page was seen.
    Page = 1,
    /// An event.
    Track = 2,
    /// An anonymous id belongs to a user.
    Identify = 3,
    /// Traits change.
    Profile = 4,
    /// A screen was seen.
    Screen = 5,
    /// Recorded only.
    Group = 6,
    /// Two ids are one visitor.
    Alias = 7,
    /// A visitor is erased.
    Tombstone = 32,
}

impl Kind {
    /// The kinds that are sent.
    pub const SENT: [Self; 7] =
        [Self::Page, Self::Track, Self::Identify, Self::Profile, Self::Screen, Self::Group, Self::Alias];

    /// As `type` says it.
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

    /// The kind that is sent under this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::SENT.into_iter().find(|kind| kind.name() == name)
    }

    fn from_byte(byte: u8) -> Option<Self> {
        const KINDS: [Kind; 8] = [
            Kind::Void,
            Kind::Page,
            Kind::Track,
            Kind::Identify,
            Kind::Profile,
            Kind::Screen,
            Kind::Group,
            Kind::Alias,
        ];
        match byte {
            32 => Some(Self::Tombstone),
            _ => KINDS.get(usize::from(byte)).copied(),
        }
    }
}

/// All that an export needs of a record but its seq. A text is `None` where it is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is of.
    pub kind: Kind,
    /// A crawler sent it.
    pub bot: bool,
    /// It came with `Sec-GPC: 1`.
    pub gpc: bool,
    /// When it came, in milliseconds. The window of duplicates goes by it.
    pub received_ms: i64,
    /// When it happened, in milliseconds.
    pub timestamp_ms: i64,
    /// Equal for equal (site, message id), else not; 0 where it is never a duplicate, as with a minted id.
    pub key: u128,
    /// The site ID.
    pub site: Option<&'a str>,
    /// As sent, or minted.
    pub message_id: Option<&'a str>,
    /// The anonymous id.
    pub anon_id: Option<&'a str>,
    /// The user id.
    pub user_id: Option<&'a str>,
    /// A track's event.
    pub event: Option<&'a str>,
    /// A page's or screen's name.
    pub name: Option<&'a str>,
    /// The page's path.
    pub path: Option<&'a str>,
    /// What the page showed, canonical.
    pub variants: Option<&'a str>,
    /// The IP address, where the site asks.
    pub ip: Option<&'a str>,
    /// JSON.
    pub payload: &'a str,
}

/// Why a record is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// A text column.
    #[error("a text of {0} bytes is longer than {TEXT_BYTES_MAX}")]
    TextTooLong(usize),
    /// The payload.
    #[error("a payload of {0} bytes is longer than {PAYLOAD_BYTES_MAX}")]
    PayloadTooLong(usize),
    /// The request would pass its bound.
    #[error("the records of the request would take {0} bytes")]
    RequestTooLong(usize),
}

impl<'a> Record<'a> {
    /// The tombstone of a visitor of `site`.
    pub(super) fn tombstone(site: &'a str, payload: &'a str, now_ms: i64) -> Self {
        Self {
            kind: Kind::Tombstone,
            bot: false,
            gpc: false,
            received_ms: now_ms,
            timestamp_ms: now_ms,
            key: 0,
            site: Some(site),
            message_id: None,
            anon_id: None,
            user_id: None,
            event: None,
            name: None,
            path: None,
            variants: None,
            ip: None,
            payload,
        }
    }

    /// Appends the record to `out`.
    ///
    /// # Errors
    /// A text or the payload is too long; `out` is unchanged then. Times are cut to [`TIME_MS_MAX`].
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordFault> {
        let texts = self.texts();
        let mut fixed = [0; RECORD_BYTES_MIN];
        let mut bytes = RECORD_BYTES_MIN + self.payload.len();
        for (text, length) in texts.iter().zip(fixed[LENGTHS_AT..].chunks_exact_mut(2)) {
            let text_bytes = text.map_or(0, str::len);
            if text_bytes > TEXT_BYTES_MAX {
                return Err(RecordFault::TextTooLong(text_bytes));
            }
            bytes += text_bytes;
            length.copy_from_slice(&text.map_or(ABSENT, |_| text_bytes as u16).to_le_bytes());
        }
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(RecordFault::PayloadTooLong(self.payload.len()));
        }
        let length = bytes.next_multiple_of(8);
        self.encode_fixed(length as u32, &mut fixed);
        let end = out.len() + length;
        out.reserve(length);
        out.extend_from_slice(&fixed);
        texts.iter().flatten().for_each(|text| out.extend_from_slice(text.as_bytes()));
        out.extend_from_slice(self.payload.as_bytes());
        out.resize(end, 0);
        Ok(())
    }

    /// All before the texts but their lengths.
    fn encode_fixed(&self, length: u32, fixed: &mut [u8; RECORD_BYTES_MIN]) {
        let time = |ms: i64| ms.clamp(-TIME_MS_MAX, TIME_MS_MAX).to_le_bytes();
        fixed[..4].copy_from_slice(&length.to_le_bytes());
        fixed[4] = self.kind as u8;
        fixed[5] = u8::from(self.bot) | u8::from(self.gpc) << 1;
        fixed[8..16].copy_from_slice(&time(self.received_ms));
        fixed[16..KEY_AT].copy_from_slice(&time(self.timestamp_ms));
        fixed[KEY_AT..LENGTHS_AT].copy_from_slice(&key_to_bytes(self.key, self.payload.len() as u32));
    }

    /// The record at the beginning of `bytes`, and its length; `None` where there is no whole one.
    pub fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let length = record_length(bytes)?;
        let bytes = &bytes[..length];
        let (key, payload_length) = key_from_bytes(&bytes[KEY_AT..])?;
        let zeros = bytes[6..8] == [0; 2] && bytes[66..72] == [0; 6];
        if !zeros || bytes[5] & !3 != 0 {
            return None;
        }
        // All texts at once, with the zeros behind them: a text of its own is one that ends between two characters.
        let mut rest = simdutf8::basic::from_utf8(&bytes[RECORD_BYTES_MIN..]).ok()?;
        let mut take = |length| {
            let (text, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(text)
        };
        let mut texts = [None; 9];
        for (column, text) in texts.iter_mut().enumerate() {
            if let Some(length) = column_length(bytes, column) {
                *text = Some(take(length)?);
            }
        }
        let payload = take(payload_length as usize)?;
        if rest.len() >= 8 || rest.bytes().any(|byte| byte != 0) {
            return None;
        }
        let [site, message_id, anon_id, user_id, event, name, path, variants, ip] = texts;
        let record = Self {
            kind: Kind::from_byte(bytes[4])?,
            bot: bytes[5] & 1 != 0,
            gpc: bytes[5] & 2 != 0,
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
            payload,
        };
        Some((record, length))
    }

    fn texts(&self) -> [Option<&'a str>; 9] {
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
        ]
    }
}

/// The length that the record at the beginning of `bytes` names, if it may be one and is there.
pub fn record_length(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < RECORD_BYTES_MIN {
        return None;
    }
    let length = u32_at(bytes, 0) as usize;
    ((RECORD_BYTES_MIN..=bytes.len()).contains(&length) && length.is_multiple_of(8)).then_some(length)
}

/// The encoded records end to end in `bytes`, as far as there are whole ones.
pub fn encoded(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (record, behind) = rest.split_at_checked(record_length(rest)?)?;
        rest = behind;
        Some(record)
    })
}

/// Takes the content out of an encoded record: length and received time stay.
pub fn make_void(record: &mut [u8]) {
    let payload_bytes = record.len() - RECORD_BYTES_MIN;
    record[4] = Kind::Void as u8;
    record[5] = 0;
    record[16..24].fill(0);
    record[KEY_AT..LENGTHS_AT].copy_from_slice(&key_to_bytes(0, payload_bytes as u32));
    record[LENGTHS_AT..LENGTHS_AT + 18].fill(0xFF);
    record[RECORD_BYTES_MIN..].fill(0);
}

/// The site of the record at the beginning of `bytes`.
pub fn site(bytes: &[u8]) -> Option<&str> {
    let record = &bytes[..record_length(bytes)?];
    simdutf8::basic::from_utf8(ids(record)[0]?).ok()
}

/// Site, anonymous id and user id of an encoded record. Whether they are texts is not looked at.
pub fn ids(record: &[u8]) -> [Option<&[u8]>; 3] {
    let mut rest = &record[RECORD_BYTES_MIN..];
    let [site, _, anon_id, user_id] = [0, 1, 2, 3].map(|column| {
        let (text, behind) = rest.split_at_checked(column_length(record, column)?)?;
        rest = behind;
        Some(text)
    });
    [site, anon_id, user_id]
}

/// The length of a text column of an encoded record, where there is a text.
fn column_length(record: &[u8], column: usize) -> Option<usize> {
    let length = u16_at(record, LENGTHS_AT + 2 * column);
    (length != ABSENT).then_some(usize::from(length))
}

/// Key and received time of an encoded record.
pub fn key_and_time(record: &[u8]) -> (u128, i64) {
    (key_from_bytes(&record[KEY_AT..]).map_or(0, |(key, _)| key), u64_at(record, 8) as i64)
}

/// A key and a number of four bytes in 24, whose bytes 0, 8 and 16 are zero: no key looks like a magic.
pub fn key_to_bytes(key: u128, number: u32) -> [u8; 24] {
    let key = key.to_le_bytes();
    let mut bytes = [0; 24];
    bytes[1..8].copy_from_slice(&key[0..7]);
    bytes[9..16].copy_from_slice(&key[7..14]);
    bytes[17..19].copy_from_slice(&key[14..16]);
    bytes[20..24].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// What [`key_to_bytes`] put into the first 24 of `bytes`.
pub fn key_from_bytes(bytes: &[u8]) -> Option<(u128, u32)> {
    if bytes.len() < 24 || [bytes[0], bytes[8], bytes[16], bytes[19]] != [0; 4] {
        return None;
    }
    let mut key = [0; 16];
    key[0..7].copy_from_slice(&bytes[1..8]);
    key[7..14].copy_from_slice(&bytes[9..16]);
    key[14..16].copy_from_slice(&bytes[17..19]);
    Some((u128::from_le_bytes(key), u32_at(bytes, 20)))
}
