//! What brought a visitor: a campaign, or a link from elsewhere.
//!
//! ```text
//! touch = which of the texts are there:byte | base - at:number | sized text*
//! ```

use super::bytes::{Bytes, put_number, put_sized};
use crate::limits::TOUCH_TEXT_BYTES_MAX;

const TEXTS: usize = 7;

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

    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        let texts = self.texts();
        let bit = |(place, text): (usize, &Option<&str>)| u8::from(text.is_some()) << place;
        out.push(texts.iter().enumerate().map(bit).sum());
        put_number(out, base_ms.wrapping_sub(self.at_ms) as u64);
        texts.iter().flatten().for_each(|text| put_sized(out, text.as_bytes()));
    }

    pub(super) fn decode(bytes: &mut Bytes<'a>, base_ms: i64) -> Option<Self> {
        let there = bytes.byte()?;
        let at_ms = base_ms.wrapping_sub(bytes.number()? as i64);
        let mut texts = [None; TEXTS];
        for (place, text) in texts.iter_mut().enumerate() {
            if there & 1 << place != 0 {
                *text = Some(bytes.text()?);
            }
        }
        let [source, medium, campaign, term, content, referrer, landing] = texts;
        Some(Self { source, medium, campaign, term, content, referrer, landing, at_ms })
    }
}

/// As much of a text as a touch keeps.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOUCH_TEXT_BYTES_MAX)]
}
