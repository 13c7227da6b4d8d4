//! The context of a record: device, operating system, browser, country and language, in the encoding of records.

use super::agent::{Browser, Device, Os, UserAgentInfo};
use super::code::Code;

/// Bytes of a context.
pub(crate) const CONTEXT_BYTES: usize = 8;

/// The context of a record. Its values are decoded on demand. A value that no release writes counts as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordContext([u8; CONTEXT_BYTES]);

impl RecordContext {
    /// The context without any known value.
    pub(crate) const UNKNOWN: Self = Self([0; CONTEXT_BYTES]);

    /// Creates a context.
    #[inline]
    pub fn new(agent: UserAgentInfo, country: Option<Code<2>>, language: Option<Code<3>>) -> Self {
        let [c0, c1] = Code::bytes(country);
        let [l0, l1, l2] = Code::bytes(language);
        Self([agent.device as u8, agent.os as u8, agent.browser as u8, c0, c1, l0, l1, l2])
    }

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

    /// Returns the country: two upper-case letters or digits.
    pub fn country(self) -> Option<[u8; 2]> {
        let [_, _, _, first, second, ..] = self.0;
        Code::<2>::new(&[first, second]).map(|_| [first, second])
    }

    /// Returns the primary language, without a region: two or three lower-case letters.
    pub fn language(&self) -> Option<&str> {
        letters(&self.0[5..])
    }

    /// Returns the texts of an export: device, operating system, browser, country and language.
    pub fn texts(&self) -> [Option<&str>; 5] {
        let agent = self.agent();
        let country = letters(&self.0[3..5]);
        [agent.device.name(), agent.os.name(), agent.browser.name(), country, self.language()]
    }
}

/// Returns the letters and digits of a code, which is shorter than its bytes if a zero ends it.
fn letters(code: &[u8]) -> Option<&str> {
    let length = code.iter().position(|letter| *letter == 0).unwrap_or(code.len());
    let is_code = length > 0 && code[..length].iter().all(u8::is_ascii_alphanumeric);
    std::str::from_utf8(&code[..length]).ok().filter(|_| is_code)
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
