//! The fold input of a record: the data that the fold reads and that no column has. The module doc of
//! `log/format.rs` specifies it.
//!
//! A fold input is packed: seven bytes of content in each word of eight bytes, after a zero byte. So no content
//! that a client chooses can be the magic of a batch.

use super::TIME_MS_MAX;
use crate::limits::ENROLMENTS_MAX;
use crate::varint::{Decoder, put_signed, put_sized};

/// Bytes of a word, and the bytes of content in it.
const WORD_BYTES: usize = 8;
const CONTENT_BYTES: usize = WORD_BYTES - 1;

const TOUCH: u8 = 1;
const PREVIOUS_ID: u8 = 2;
const CHANGES: u8 = 3;
const CLIENT_TIMES: u8 = 4;
const ENROLMENTS: u8 = 5;

/// Bits of the times that a part of client times has.
const HAS_TIMESTAMP: u8 = 1;
const HAS_SENT: u8 = 1 << 1;

/// Number of texts of a touch.
const TOUCH_TEXTS: usize = 6;

/// A packed fold input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FoldInput<'a> {
    words: &'a [u8],
    /// Bytes of content.
    length: usize,
}

impl<'a> FoldInput<'a> {
    /// The fold input of a record whose columns are enough.
    pub const EMPTY: Self = Self { words: &[], length: 0 };

    /// Returns the packed length of `content_length` bytes of content.
    pub(super) fn packed_length(content_length: usize) -> usize {
        content_length.div_ceil(CONTENT_BYTES) * WORD_BYTES
    }

    /// Reads a fold input with `content_length` bytes of content. Returns `None` if a byte that must be 0 is not, or if
    /// `word_bytes` has another length.
    pub(super) fn from_words(word_bytes: &'a [u8], content_length: usize) -> Option<Self> {
        let content_bytes = word_bytes.len() / WORD_BYTES * CONTENT_BYTES;
        let is_sound = word_bytes.len() == Self::packed_length(content_length)
            && word_bytes.chunks_exact(WORD_BYTES).all(|word| word[0] == 0)
            && word_bytes[word_bytes.len() + content_length - content_bytes..].iter().all(|byte| *byte == 0);
        is_sound.then_some(Self { words: word_bytes, length: content_length })
    }

    pub(super) fn words(self) -> &'a [u8] {
        self.words
    }

    /// Returns the bytes of content.
    pub fn length(self) -> usize {
        self.length
    }

    /// Replaces `content` by the unpacked content.
    pub(crate) fn unpack(self, content: &mut Vec<u8>) {
        content.clear();
        self.words.chunks_exact(WORD_BYTES).for_each(|word| content.extend_from_slice(&word[1..]));
        content.truncate(self.length);
    }
}

/// The texts of a page event with a campaign or an external referrer: source, medium, campaign, term, content
/// and referrer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TouchTexts<'a> {
    /// A bit for each text that is present.
    pub present: u8,
    /// The present texts, sized.
    pub bytes: &'a [u8],
}

impl<'a> TouchTexts<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Option<Self> {
        let present = decoder.byte().filter(|present| present >> TOUCH_TEXTS == 0)?;
        let from = decoder.0;
        for _ in 0..present.count_ones() {
            decoder.text()?;
        }
        Some(Self { present, bytes: &from[..from.len() - decoder.0.len()] })
    }

    /// Returns the six texts.
    pub(crate) fn texts(self) -> [Option<&'a str>; TOUCH_TEXTS] {
        let mut bytes = Decoder(self.bytes);
        std::array::from_fn(|index| (self.present & 1 << index != 0).then(|| bytes.text()).flatten())
    }
}

/// The times of an event as the client sent them, by the client's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientTimes {
    /// The time when the event happened.
    pub timestamp_ms: Option<i64>,
    /// The time when its request was sent.
    pub sent_ms: Option<i64>,
}

/// The times of an event by the client's clock, each as the time that was left until the receipt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EncodedTimes {
    timestamp_ms_before: Option<i64>,
    sent_ms_before: Option<i64>,
}

impl EncodedTimes {
    fn new(times: ClientTimes, received_ms: i64) -> Self {
        let before = |time_ms| received_ms - time_ms;
        Self {
            timestamp_ms_before: times.timestamp_ms.map(before),
            sent_ms_before: times.sent_ms.map(before),
        }
    }

    /// Returns the times of an event that was received at this time.
    pub(crate) fn times(self, received_ms: i64) -> ClientTimes {
        // A forged record may state any number.
        let time = |before_ms| received_ms.saturating_sub(before_ms).clamp(-TIME_MS_MAX, TIME_MS_MAX);
        ClientTimes {
            timestamp_ms: self.timestamp_ms_before.map(time),
            sent_ms: self.sent_ms_before.map(time),
        }
    }

    fn is_empty(self) -> bool {
        self.timestamp_ms_before.is_none() && self.sent_ms_before.is_none()
    }

    fn decode(decoder: &mut Decoder<'_>) -> Option<Self> {
        let present = decoder.byte().filter(|present| present & !(HAS_TIMESTAMP | HAS_SENT) == 0)?;
        let mut time = |bit| if present & bit == 0 { Some(None) } else { decoder.signed().map(Some) };
        Some(Self { timestamp_ms_before: time(HAS_TIMESTAMP)?, sent_ms_before: time(HAS_SENT)? })
    }

    fn encode(self, out: &mut Vec<u8>) {
        let bit = |time: Option<i64>, bit| if time.is_some() { bit } else { 0 };
        let present = bit(self.timestamp_ms_before, HAS_TIMESTAMP) | bit(self.sent_ms_before, HAS_SENT);
        out.extend([CLIENT_TIMES, present]);
        let times = [self.timestamp_ms_before, self.sent_ms_before];
        times.into_iter().flatten().for_each(|time| put_signed(out, time));
    }
}

/// The hashes of phases of experiments, each 4 bytes, little-endian.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PhaseHashes<'a>(&'a [[u8; 4]]);

impl<'a> PhaseHashes<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Option<Self> {
        let count = usize::from(decoder.byte()?);
        let is_valid = (1..=ENROLMENTS_MAX).contains(&count);
        is_valid.then(|| decoder.take(count * 4)).flatten().map(|bytes| Self(bytes.as_chunks().0))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.iter().map(|hash| u32::from_le_bytes(*hash))
    }
}

/// The parts of an unpacked fold input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FoldParts<'a> {
    /// The touch of a page event.
    pub touch: Option<TouchTexts<'a>>,
    /// The member `previousId` of an alias.
    pub previous_id: Option<&'a str>,
    /// The times by the client's clock, relative to the receipt.
    pub client_times: EncodedTimes,
    /// The phases of experiments that the event enrols its ID in.
    pub enrolments: PhaseHashes<'a>,
    /// The trait changes of an identify or profile event, in the encoding of `events::changes`.
    pub changes: Option<&'a [u8]>,
}

impl<'a> FoldParts<'a> {
    /// Reads the parts. Reading ends at the first malformed part.
    pub(crate) fn parse(content: &'a [u8]) -> Self {
        let mut parts = Self::default();
        let mut content = Decoder(content);
        while let Some(tag) = content.byte() {
            match tag {
                TOUCH => parts.touch = TouchTexts::decode(&mut content),
                PREVIOUS_ID => parts.previous_id = content.text(),
                CLIENT_TIMES => match EncodedTimes::decode(&mut content) {
                    Some(times) => parts.client_times = times,
                    None => break,
                },
                ENROLMENTS => match PhaseHashes::decode(&mut content) {
                    Some(hashes) => parts.enrolments = hashes,
                    None => break,
                },
                CHANGES => parts.changes = Some(std::mem::take(&mut content.0)),
                _ => break,
            }
        }
        parts
    }
}

/// A builder of fold inputs. Reuses its buffers.
#[derive(Debug, Default)]
pub struct FoldInputBuilder {
    content: Vec<u8>,
    words: Vec<u8>,
}

impl FoldInputBuilder {
    /// Removes all parts.
    pub(crate) fn clear(&mut self) {
        self.content.clear();
    }

    /// Adds a touch: source, medium, campaign, term, content and referrer.
    pub fn add_touch(&mut self, texts: [Option<&str>; TOUCH_TEXTS]) {
        let bit = |(index, text): (usize, &Option<&str>)| u8::from(text.is_some()) << index;
        self.content.extend([TOUCH, texts.iter().enumerate().map(bit).sum()]);
        texts.iter().flatten().for_each(|text| put_sized(&mut self.content, text.as_bytes()));
    }

    /// Adds the `previousId` of an alias.
    pub(crate) fn add_previous_id(&mut self, id: &str) {
        self.content.push(PREVIOUS_ID);
        put_sized(&mut self.content, id.as_bytes());
    }

    /// Adds the times by the client's clock of an event that was received at `received_ms`.
    pub fn add_client_times(&mut self, times: ClientTimes, received_ms: i64) {
        self.add_encoded_times(EncodedTimes::new(times, received_ms));
    }

    fn add_encoded_times(&mut self, times: EncodedTimes) {
        if !times.is_empty() {
            times.encode(&mut self.content);
        }
    }

    /// Adds the phases that an event enrols its ID in, without repetitions and at most [`ENROLMENTS_MAX`] of them.
    pub fn add_enrolments(&mut self, phase_hashes: impl Iterator<Item = u32>) {
        let start = self.content.len();
        self.content.extend([ENROLMENTS, 0]);
        for hash in phase_hashes {
            let added = self.content[start + 2..].as_chunks().0;
            if added.len() < ENROLMENTS_MAX && !added.contains(&hash.to_le_bytes()) {
                self.content.extend_from_slice(&hash.to_le_bytes());
                self.content[start + 1] += 1;
            }
        }
        if self.content[start + 1] == 0 {
            self.content.truncate(start);
        }
    }

    /// Adds the trait changes that `write` appends. They are the last part.
    pub(crate) fn add_changes(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.content.len();
        self.content.push(CHANGES);
        write(&mut self.content);
        if self.content.len() == start + 1 {
            self.content.truncate(start);
        }
    }

    /// Packs the parts.
    pub fn finish(&mut self) -> FoldInput<'_> {
        self.words.clear();
        for content in self.content.chunks(CONTENT_BYTES) {
            self.words.push(0);
            self.words.extend_from_slice(content);
        }
        self.words.resize(FoldInput::packed_length(self.content.len()), 0);
        FoldInput { words: &self.words, length: self.content.len() }
    }
}

/// The parts to remove from a fold input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemovedParts {
    pub previous_id: bool,
    pub enrolments: bool,
}

/// Passes the fold input without some parts to `visit`.
pub(crate) fn without_parts<T>(
    fold_input: FoldInput<'_>,
    removed: RemovedParts,
    visit: impl FnOnce(FoldInput<'_>) -> T,
) -> T {
    let mut content = Vec::new();
    let mut builder = FoldInputBuilder::default();
    fold_input.unpack(&mut content);
    let parts = FoldParts::parse(&content);
    parts.touch.into_iter().for_each(|touch| builder.add_touch(touch.texts()));
    parts.previous_id.filter(|_| !removed.previous_id).into_iter().for_each(|id| builder.add_previous_id(id));
    builder.add_encoded_times(parts.client_times);
    builder.add_enrolments(parts.enrolments.iter().filter(|_| !removed.enrolments));
    parts.changes.into_iter().for_each(|changes| builder.add_changes(|out| out.extend_from_slice(changes)));
    visit(builder.finish())
}
