//! A page's URL as rules and profiles see it: path, query parameters, campaign, host.
//!
//! Decoded into buffers that are kept; only where somebody looks at it.

use std::ops::Range;

use memchr::memchr;

use crate::limits::{URL_BYTES_MAX, URL_PARAMS_MAX};
use crate::percent;

/// A URL, absolute or beginning with its path. What cannot be decoded as UTF-8 does not exist.
#[derive(Debug)]
pub struct PageUrl {
    decoded: Vec<u8>,
    path: Range<usize>,
    params: Vec<(Range<usize>, Range<usize>)>,
}

impl PageUrl {
    /// No URL, and room for any.
    pub fn new() -> Self {
        Self {
            decoded: Vec::with_capacity(URL_BYTES_MAX),
            path: 0..0,
            params: Vec::with_capacity(URL_PARAMS_MAX),
        }
    }

    /// Forgets the URL before and takes this one, as far as `URL_BYTES_MAX`.
    pub fn read(&mut self, url: Option<&[u8]>) {
        self.decoded.clear();
        self.params.clear();
        self.path = 0..0;
        let Some(url) = url else { return };
        let url = &url[..url.len().min(URL_BYTES_MAX)];
        let (url, _) = cut(url, b'#');
        let (path, query) = cut(url, b'?');
        let path = behind_authority(path);
        self.path = self.append(path, percent::decode);
        for pair in query.split(|b| *b == b'&').take(URL_PARAMS_MAX) {
            let (name, value) = cut(pair, b'=');
            let name = self.append(name, percent::form_decode);
            let value = self.append(value, percent::form_decode);
            self.params.push((name, value));
        }
    }

    fn append(&mut self, text: &[u8], decode: impl Fn(&[u8], &mut Vec<u8>)) -> Range<usize> {
        let from = self.decoded.len();
        decode(text, &mut self.decoded);
        from..self.decoded.len()
    }

    /// The path, a trailing slash dropped; None without a URL.
    pub fn path(&self) -> Option<&str> {
        let path = self.text(&self.path)?;
        let trimmed = path.strip_suffix('/').filter(|rest| !rest.is_empty());
        Some(trimmed.unwrap_or(path)).filter(|p| !p.is_empty())
    }

    /// The first value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        let (_, value) = self.params.iter().find(|(n, _)| &self.decoded[n.clone()] == name.as_bytes())?;
        self.text(value)
    }

    /// Whether it carries a campaign (any of the five `utm_` parameters).
    pub fn has_campaign(&self) -> bool {
        UTM.iter().any(|name| self.param(name).is_some_and(|value| !value.is_empty()))
    }

    /// Every query parameter that can be read.
    pub fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        self.params.iter().filter_map(|(name, value)| Some((self.text(name)?, self.text(value)?)))
    }

    fn text(&self, place: &Range<usize>) -> Option<&str> {
        std::str::from_utf8(&self.decoded[place.clone()]).ok()
    }
}

impl Default for PageUrl {
    fn default() -> Self {
        Self::new()
    }
}

/// The host of an absolute URL, as it is written: no user, no port.
pub fn host(url: &str) -> Option<&str> {
    let (_, behind) = url.split_once("://")?;
    host_of_authority(behind)
}

/// The host of what begins with an authority.
pub fn host_of_authority(text: &str) -> Option<&str> {
    let find = |text: &str, is: fn(u8) -> bool| text.bytes().position(is);
    let authority = &text[..find(text, |b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(text.len())];
    let address = &authority[authority.bytes().rposition(|b| b == b'@').map_or(0, |at| at + 1)..];
    // The colons of an IPv6 address stand in brackets.
    let end = find(address, |b| b == b']').map_or(0, |bracket| bracket + 1);
    let port = find(&address[end..], |b| b == b':').map_or(address.len(), |colon| end + colon);
    Some(&address[..port]).filter(|host| !host.is_empty())
}

const UTM: [&str; 5] = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"];

/// What stands before the first `byte`, and what stands behind it.
fn cut(text: &[u8], byte: u8) -> (&[u8], &[u8]) {
    memchr(byte, text).map_or((text, &[]), |at| (&text[..at], &text[at + 1..]))
}

/// What follows `scheme://authority`; "/" where nothing does.
fn behind_authority(url: &[u8]) -> &[u8] {
    let Some(scheme_end) = url.windows(3).position(|w| w == b"://") else {
        return url;
    };
    let authority = &url[scheme_end + 3..];
    authority.iter().position(|b| *b == b'/').map_or(b"/", |at| &authority[at..])
}
