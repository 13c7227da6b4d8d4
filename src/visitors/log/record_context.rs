//! The context of a record: device, operating system, browser, country and language, in the encoding of records.

use super::agent::{Browser, Device, Os, UserAgentInfo};
use super::record::{Code, Record};

/// Bytes of a context.
pub(crate) const CONTEXT_BYTES: usize = 8;

/// The context of a record. Its values are decoded on demand. A value that no release writes counts as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordContext([u8; CONTEXT_BYTES]);

impl RecordContext {
    /// The context without any known value.
    pub(crate) const UNKNOWN: Self = Self([0; CONTEXT_BYTES]);

    /// Reads the bytes that [`to_bytes`](Self::to_bytes) returned.
    pub(crate) fn from_bytes(bytes: [u8; CONTEXT_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub(crate) fn to_bytes(self) -> [u8; CONTEXT_BYTES] {
        self.0
    }

    /// Returns whether any value is known.
    pub(crate) fn has_known(self) -> bool {
        self.0 != [0; CONTEXT_BYTES]
    }

    /// Returns whether any value of the User-Agent is known.
    pub(crate) fn has_agent(self) -> bool {
        self.0[..3] != [0; 3]
    }

    /// Returns device, operating system and browser.
    pub(crate) fn agent(self) -> UserAgentInfo {
        let [device, os, browser, ..] = self.0;
        let device = Device::from_byte(device).unwrap_or_default();
        UserAgentInfo {
            is_crawler: device == Device::Bot,
            device,
            os: Os::from_byte(os).unwrap_or_default(),
            browser: Browser::from_byte(browser).unwrap_or_default(),
        }
    }

    /// Returns the country: two upper-case letters.
    pub fn country(self) -> Option<[u8; 2]> {
        let [_, _, _, first, second, ..] = self.0;
        Code::<2>::new(&[first, second]).map(|_| [first, second])
    }

    /// Returns the primary language, without a region.
    pub(crate) fn language(&self) -> Option<&str> {
        let letters = &self.0[5..];
        let length = letters.iter().position(|letter| *letter == 0).unwrap_or(letters.len());
        std::str::from_utf8(&letters[..length]).ok().filter(|language| !language.is_empty())
    }
}

impl Record<'_> {
    /// Returns the context of the record.
    pub(crate) fn context(&self) -> RecordContext {
        let (country, language) = (Code::bytes(self.country), Code::bytes(self.language));
        RecordContext([
            self.device as u8,
            self.os as u8,
            self.browser as u8,
            country[0],
            country[1],
            language[0],
            language[1],
            language[2],
        ])
    }
}

/// Returns the primary language of a language tag (RFC 5646) in lower case: `de` of `de-DE`. Languages have two
/// or three letters.
pub(crate) fn primary_language(tag: &str) -> Option<Code<3>> {
    let mut code = [0; 3];
    let mut length = 0;
    for byte in tag.bytes().take_while(|byte| !matches!(byte, b'-' | b'_')) {
        *code.get_mut(length)? = Some(byte.to_ascii_lowercase()).filter(u8::is_ascii_lowercase)?;
        length += 1;
    }
    if length >= 2 { Code::new(&code[..length]) } else { None }
}
