//! Touches: page events that show the origin of a visitor, a campaign or a link on another host.
//!
//! ```text
//! touch = bit set of the texts that are present:byte | base - at:number | sized text*
//! ```

use super::varint::{Decoder, put_number, put_sized};
use crate::limits::TOUCH_TEXT_BYTES_MAX;
use crate::record::fold_input::TouchTexts;

const TEXTS: usize = 7;
/// The place of the landing page. The texts of a fold input come before it.
const LANDING: usize = 6;
const ALL_TEXTS: u8 = (1 << TEXTS) - 1;

/// A page event with a campaign or an external referrer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch<'a> {
    /// `utm_source`
    pub source: Option<&'a str>,
    /// `utm_medium`
    pub medium: Option<&'a str>,
    /// `utm_campaign`
    pub campaign: Option<&'a str>,
    /// `utm_term`
    pub term: Option<&'a str>,
    /// `utm_content`
    pub content: Option<&'a str>,
    /// The URL of the page before, on another host.
    pub referrer: Option<&'a str>,
    /// The path of the page.
    pub landing: Option<&'a str>,
    /// Time of the event.
    pub at_ms: i64,
}

/// An encoded touch. Its texts are decoded only on demand, and an unchanged touch is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodedTouch<'a> {
    pub at_ms: i64,
    present: u8,
    texts: &'a [u8],
}

impl<'a> EncodedTouch<'a> {
    /// Returns the touch with these texts, which ends at the page `landing_path`. `buffer` holds its texts.
    pub(super) fn new(
        touch_texts: TouchTexts<'_>,
        landing_path: Option<&str>,
        at_ms: i64,
        buffer: &'a mut Vec<u8>,
    ) -> Self {
        buffer.clear();
        buffer.extend_from_slice(touch_texts.bytes);
        if let Some(path) = landing_path {
            put_sized(buffer, truncate(path).as_bytes());
        }
        Self {
            at_ms,
            present: touch_texts.present | u8::from(landing_path.is_some()) << LANDING,
            texts: buffer,
        }
    }

    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        out.push(self.present);
        put_number(out, base_ms.wrapping_sub(self.at_ms) as u64);
        out.extend_from_slice(self.texts);
    }

    pub(super) fn decode(decoder: &mut Decoder<'a>, base_ms: i64) -> Option<Self> {
        let there = decoder.byte()? & ALL_TEXTS;
        let at_ms = base_ms.wrapping_sub(decoder.number()? as i64);
        let from = decoder.0;
        for _ in 0..there.count_ones() {
            decoder.sized()?;
        }
        Some(Self { at_ms, present: there, texts: &from[..from.len() - decoder.0.len()] })
    }

    /// Decodes the touch. `None` if a text is not UTF-8.
    pub(super) fn to_touch(self) -> Option<Touch<'a>> {
        let mut bytes = Decoder(self.texts);
        let mut texts = [None; TEXTS];
        for (place, text) in texts.iter_mut().enumerate() {
            if self.present & 1 << place != 0 {
                *text = Some(bytes.text()?);
            }
        }
        let [source, medium, campaign, term, content, referrer, landing] = texts;
        Some(Touch { source, medium, campaign, term, content, referrer, landing, at_ms: self.at_ms })
    }
}

/// Truncates a text to `TOUCH_TEXT_BYTES_MAX`, at a character boundary.
fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOUCH_TEXT_BYTES_MAX)]
}
