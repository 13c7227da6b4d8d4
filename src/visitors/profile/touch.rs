//! What brought a visitor: a campaign, or a link from elsewhere.
//!
//! ```text
//! touch = which of the texts are there:byte | base - at:number | sized text*
//! ```

use super::varint::{Bytes, put_number, put_sized};
use crate::limits::TOUCH_TEXT_BYTES_MAX;

const TEXTS: usize = 7;
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
    /// The page before, on another host.
    pub referrer: Option<&'a str>,
    /// The path of the page.
    pub landing: Option<&'a str>,
    /// When.
    pub at_ms: i64,
}

impl<'a> Touch<'a> {
    fn texts(&self) -> [Option<&'a str>; TEXTS] {
        [self.source, self.medium, self.campaign, self.term, self.content, self.referrer, self.landing]
    }
}

/// A touch as a profile keeps it: its texts are not looked at until they are asked for, and one that stays is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept<'a> {
    pub at_ms: i64,
    there: u8,
    texts: &'a [u8],
}

impl<'a> Kept<'a> {
    /// `buffer` is room for its texts.
    pub(super) fn of(touch: &Touch<'_>, buffer: &'a mut Vec<u8>) -> Self {
        let texts = touch.texts();
        let bit = |(place, text): (usize, &Option<&str>)| u8::from(text.is_some()) << place;
        let there = texts.iter().enumerate().map(bit).sum();
        buffer.clear();
        texts.iter().flatten().for_each(|text| put_sized(buffer, text.as_bytes()));
        Self { at_ms: touch.at_ms, there, texts: buffer }
    }

    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        out.push(self.there);
        put_number(out, base_ms.wrapping_sub(self.at_ms) as u64);
        out.extend_from_slice(self.texts);
    }

    pub(super) fn decode(bytes: &mut Bytes<'a>, base_ms: i64) -> Option<Self> {
        let there = bytes.byte()? & ALL_TEXTS;
        let at_ms = base_ms.wrapping_sub(bytes.number()? as i64);
        let from = bytes.0;
        for _ in 0..there.count_ones() {
            bytes.sized()?;
        }
        Some(Self { at_ms, there, texts: &from[..from.len() - bytes.0.len()] })
    }

    /// `None` where a text is not UTF-8.
    pub(super) fn touch(self) -> Option<Touch<'a>> {
        let (mut bytes, mut texts) = (Bytes(self.texts), [None; TEXTS]);
        for (place, text) in texts.iter_mut().enumerate() {
            if self.there & 1 << place != 0 {
                *text = Some(bytes.text()?);
            }
        }
        let [source, medium, campaign, term, content, referrer, landing] = texts;
        Some(Touch { source, medium, campaign, term, content, referrer, landing, at_ms: self.at_ms })
    }
}

/// As much of a text as a touch keeps.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOUCH_TEXT_BYTES_MAX)]
}
