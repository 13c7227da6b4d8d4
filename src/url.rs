//! The URL of a page as rules and profiles use it: path, query parameters, campaign, host. The test for an
//! external referrer.
//!
//! URLs are decoded into reused buffers, and only when a rule or a profile needs them.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;

use crate::limits::{URL_BYTES_MAX, URL_PARAMS_MAX};
use crate::{nfc, percent, providers};

/// A decoded page URL, absolute or starting with its path. Parts that are not UTF-8 are treated as absent.
#[derive(Debug)]
pub(crate) struct PageUrl {
    decoded: Vec<u8>,
    /// The path in form C, if the URL spells it differently. A buffer.
    normalized: String,
    path: Range<usize>,
    params: Vec<(Range<usize>, Range<usize>)>,
}

impl PageUrl {
    /// Creates an empty URL with buffers that fit any URL.
    pub(crate) fn new() -> Self {
        Self {
            decoded: Vec::with_capacity(URL_BYTES_MAX),
            normalized: String::new(),
            path: 0..0,
            params: Vec::with_capacity(URL_PARAMS_MAX),
        }
    }

    /// Replaces the content by `url`. Only its first [`URL_BYTES_MAX`] bytes are read.
    pub(crate) fn parse(&mut self, url: Option<&[u8]>) {
        self.decoded.clear();
        self.params.clear();
        self.path = 0..0;
        let Some(url) = url else { return };
        let url = &url[..url.len().min(URL_BYTES_MAX)];
        let (url, _) = split_at_byte(url, b'#');
        let (path, query) = split_at_byte(url, b'?');
        let path = skip_authority(path);
        self.path = self.append(path, percent::decode);
        self.normalize_path();
        for pair in query.split(|b| *b == b'&').take(URL_PARAMS_MAX) {
            let (name, value) = split_at_byte(pair, b'=');
            let name = self.append(name, percent::decode_form);
            let value = self.append(value, percent::decode_form);
            self.params.push((name, value));
        }
    }

    /// Writes the path in form C, in which routes and conditions have it.
    fn normalize_path(&mut self) {
        let path = &self.decoded[self.path.clone()];
        if path.is_ascii() {
            return;
        }
        let Some(path) = std::str::from_utf8(path).ok().filter(|path| !nfc::is_normalized(path)) else {
            return;
        };
        self.normalized.clear();
        nfc::append(&mut self.normalized, path);
        self.decoded.truncate(self.path.start);
        self.decoded.extend_from_slice(self.normalized.as_bytes());
        self.path.end = self.decoded.len();
    }

    fn append(&mut self, text: &[u8], decode: impl Fn(&[u8], &mut Vec<u8>)) -> Range<usize> {
        let from = self.decoded.len();
        decode(text, &mut self.decoded);
        from..self.decoded.len()
    }

    /// Returns the path without its trailing slash; `None` if there is no URL.
    pub(crate) fn path(&self) -> Option<&str> {
        let path = self.str_at(&self.path)?;
        let trimmed = path.strip_suffix('/').filter(|rest| !rest.is_empty());
        Some(trimmed.unwrap_or(path)).filter(|p| !p.is_empty())
    }

    /// Returns the first value of a query parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let (_, value) = self.params.iter().find(|(n, _)| &self.decoded[n.clone()] == name.as_bytes())?;
        self.str_at(value)
    }

    /// Returns whether the URL names a campaign: one of the five `utm_` parameters is not empty.
    pub(crate) fn has_campaign(&self) -> bool {
        UTM_PARAMS.iter().any(|name| self.param(name).is_some_and(|value| !value.is_empty()))
    }

    /// Returns all query parameters that are UTF-8.
    pub(crate) fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        self.params.iter().filter_map(|(name, value)| Some((self.str_at(name)?, self.str_at(value)?)))
    }

    fn str_at(&self, range: &Range<usize>) -> Option<&str> {
        std::str::from_utf8(&self.decoded[range.clone()]).ok()
    }
}

impl Default for PageUrl {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the host of an absolute URL in lower case, without user, port and final dot.
pub(crate) fn normal_host(url: &str) -> Option<Cow<'_, str>> {
    let host = host(url)?;
    let has_upper = host.bytes().any(|byte| byte.is_ascii_uppercase());
    Some(if has_upper { host.to_ascii_lowercase().into() } else { host.into() })
}

/// Returns the host of an absolute URL as it is written, without user, port and final dot.
pub(crate) fn host(url: &str) -> Option<&str> {
    let (_, behind) = url.split_once("://")?;
    host_of_authority(behind)
}

/// Returns the host of a text that begins with an authority.
pub(crate) fn host_of_authority(text: &str) -> Option<&str> {
    let find = |text: &str, is: fn(u8) -> bool| text.bytes().position(is);
    let authority = &text[..find(text, |b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(text.len())];
    let address = &authority[authority.bytes().rposition(|b| b == b'@').map_or(0, |at| at + 1)..];
    // The colons of an IPv6 address are in brackets.
    let end = find(address, |b| b == b']').map_or(0, |bracket| bracket + 1);
    let port = find(&address[end..], |b| b == b':').map_or(address.len(), |colon| end + colon);
    let host = &address[..port];
    // A final dot only says that the name is complete.
    Some(host.strip_suffix('.').unwrap_or(host)).filter(|host| !host.is_empty())
}

/// Returns a host without a leading `www.`.
pub(crate) fn without_www(host: &str) -> &str {
    let has_www = host.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www."));
    if has_www { &host[4..] } else { host }
}

/// Returns whether a referrer is external: its host differs from that of the page and from all hosts of the
/// site, and the site does not ignore it. Without any known host of the site no referrer is external. A leading
/// `www.` and a final dot do not count.
///
/// `site_hosts` have no leading `www.`. The host `*.acme.example` is `acme.example` with all subdomains. `is_ignored`
/// gets a host without a leading `www.`.
pub(crate) fn is_external<'h>(
    referrer: &str,
    page_url: Option<&str>,
    mut site_hosts: impl Iterator<Item = &'h str>,
    is_ignored: impl FnOnce(&str) -> bool,
) -> bool {
    let Some(other) = host(referrer).map(without_www) else { return false };
    let page_host = page_url.and_then(host).map(without_www);
    let mut has_known_host = page_host.is_some();
    let is_listed = site_hosts.any(|own| {
        has_known_host = true;
        is_covered(other, own)
    });
    has_known_host && !is_listed && !page_host.is_some_and(|own| is_covered(other, own)) && !is_ignored(other)
}

/// Returns whether a site ignores referrers on a host without a leading `www.`: the host is one of the site's `ignored_referrers`, or that of a
/// provider if `ignores_providers`.
pub fn is_ignored_referrer<'h>(
    host: &str,
    mut ignored_referrers: impl Iterator<Item = &'h str>,
    ignores_providers: bool,
) -> bool {
    ignores_providers && providers::contains(host)
        || ignored_referrers.any(|ignored| is_covered(host, ignored))
}

/// Returns whether `pattern`, a host or `*.` and a domain, covers `host`.
pub(crate) fn is_covered(host: &str, pattern: &str) -> bool {
    let Some(domain) = pattern.strip_prefix("*.") else { return pattern.eq_ignore_ascii_case(host) };
    let subdomain_bytes = host.len().checked_sub(domain.len());
    let end = subdomain_bytes.and_then(|at| Some((host.get(..at)?, host.get(at..)?)));
    end.is_some_and(|(before, end)| {
        end.eq_ignore_ascii_case(domain) && (before.is_empty() || before.ends_with('.'))
    })
}

const UTM_PARAMS: [&str; 5] = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"];

/// Splits `text` at the first `byte`. Without one, the second part is empty.
fn split_at_byte(text: &[u8], byte: u8) -> (&[u8], &[u8]) {
    memchr(byte, text).map_or((text, &[]), |at| (&text[..at], &text[at + 1..]))
}

/// Returns the part of `url` after `scheme://authority`, or "/" if it is empty. A URL without a scheme is
/// returned as it is.
fn skip_authority(url: &[u8]) -> &[u8] {
    let Some(scheme_end) = url.windows(3).position(|w| w == b"://") else {
        return url;
    };
    let authority = &url[scheme_end + 3..];
    authority.iter().position(|b| *b == b'/').map_or(b"/", |at| &authority[at..])
}
