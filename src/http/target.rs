//! Request targets (RFC 9112 section 3.2): the path and the query of a request.

use wide::u8x16;

use super::authority::is_authority;
use super::request::Method;
use super::short_search;
use crate::problem::{self, Problem};

/// A request target before it is split into path and query. It is plain if it consists of visible ASCII without '#'.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) text: &'a str,
    /// True if the text is plain.
    is_plain: bool,
}

impl<'a> Target<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, is_plain: is_plain(text.as_bytes()) }
    }

    /// Creates a plain target. Returns `None` for other bytes.
    pub(super) fn of_plain(bytes: &'a [u8]) -> Option<Self> {
        // Plain bytes are always UTF-8. This check makes a text of them without unsafe code.
        let text = simdutf8::basic::from_utf8(bytes).ok()?;
        is_plain(bytes).then_some(Self { text, is_plain: true })
    }
}

/// The parts of a request target.
pub(super) struct TargetParts<'a> {
    /// The host and the port of an absolute-form.
    pub(super) authority: Option<&'a str>,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
}

/// Returns the parts of an origin-form, an absolute-form, or `OPTIONS *` (RFC 9112 section 3.2).
pub(super) fn target_parts(target: Target<'_>, method: Method) -> Result<TargetParts<'_>, Problem<'_>> {
    let Target { text: target, is_plain } = target;
    let absolute = if target.starts_with('/') { None } else { after_scheme(target) };
    let (authority, origin_form) = match absolute {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), if end < rest.len() { &rest[end..] } else { "/" })
        }
        None => (None, target),
    };
    // The paths of the endpoints are short.
    let (path, query) = match short_search::position(origin_form.as_bytes(), 0, *b"?") {
        Some(at) => (&origin_form[..at], &origin_form[at + 1..]),
        None => (origin_form, ""),
    };
    let path = if path.is_empty() && absolute.is_some() { "/" } else { path };
    let is_form = path.starts_with('/') || path == "*" && method == Method::Options;
    if is_form && is_plain && authority.is_none_or(|authority| is_authority(authority.as_bytes())) {
        return Ok(TargetParts { authority, path, query });
    }
    let expected = "a request target such as '/path?query' in visible ASCII, without '#'";
    Err(Problem::invalid_value(problem::MALFORMED_REQUEST, expected, target))
}

/// Returns the part of an absolute-form after its scheme, which has no case (RFC 3986 section 3.1).
fn after_scheme(target: &str) -> Option<&str> {
    ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// Returns whether a target is plain.
fn is_plain(target: &[u8]) -> bool {
    let (blocks, rest) = target.as_chunks::<16>();
    let blocks_mask = blocks.iter().fold(!u8x16::ZERO, |mask, block| mask & plain_mask(*block));
    // The last 16 bytes overlap a block, so that no byte of a long target is checked alone.
    let is_rest_plain = match target.last_chunk::<16>() {
        Some(last) => plain_mask(*last).all(),
        None => rest.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#'),
    };
    blocks_mask.all() && is_rest_plain
}

/// Returns a mask of the bytes that are visible ASCII and not '#'.
#[inline]
fn plain_mask(block: [u8; 16]) -> u8x16 {
    let block = u8x16::new(block);
    // A byte is visible if the limits '!' and '~' do not change it.
    let limited = block.max(u8x16::splat(b'!')).min(u8x16::splat(b'~'));
    limited.simd_eq(block) & block.simd_ne(u8x16::splat(b'#'))
}
