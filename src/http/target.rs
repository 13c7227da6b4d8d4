//! Request targets (RFC 9112 section 3.2): the path and the query of a request.

use wide::u8x16;

use super::authority::is_authority;
use super::request::Method;
use crate::problem::{self, Problem};

/// A request target that is not split yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) text: &'a str,
    /// True if the text consists of visible ASCII without '#'.
    is_plain: bool,
}

impl<'a> Target<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, is_plain: is_plain(text.as_bytes()) }
    }

    /// Creates a target of visible ASCII without '#'. Returns `None` for other bytes.
    pub(super) fn of_plain(bytes: &'a [u8]) -> Option<Self> {
        let text = simdutf8::basic::from_utf8(bytes).ok()?;
        is_plain(bytes).then_some(Self { text, is_plain: true })
    }
}

/// Returns the path and the query of an origin-form, an absolute-form, or `OPTIONS *` (RFC 9112 section 3.2).
pub(super) fn target_parts(target: Target<'_>, method: Method) -> Result<(&str, &str), Problem<'_>> {
    let Target { text: target, is_plain } = target;
    let absolute = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
    let (authority, origin_form) = match absolute {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), if end < rest.len() { &rest[end..] } else { "/" })
        }
        None => (None, target),
    };
    let (path, query) = match memchr::memchr(b'?', origin_form.as_bytes()) {
        Some(at) => (&origin_form[..at], &origin_form[at + 1..]),
        None => (origin_form, ""),
    };
    let path = if path.is_empty() && absolute.is_some() { "/" } else { path };
    let is_form = path.starts_with('/') || path == "*" && method == Method::Options;
    if is_form && is_plain && authority.is_none_or(|authority| is_authority(authority.as_bytes())) {
        return Ok((path, query));
    }
    let expected = "a request target such as '/path?query' in visible ASCII, without '#'";
    Err(Problem::invalid_value(problem::MALFORMED_REQUEST, expected, target))
}

/// Returns whether a target consists of visible ASCII without '#'.
fn is_plain(target: &[u8]) -> bool {
    let (blocks, rest) = target.as_chunks();
    let are_plain = |block: &[u8; 16]| {
        let block = u8x16::new(*block);
        let visible = block.max(u8x16::splat(b'!')).min(u8x16::splat(b'~'));
        visible.simd_eq(block) & block.simd_ne(u8x16::splat(b'#'))
    };
    let are_blocks_plain = blocks.iter().fold(!u8x16::ZERO, |plain, block| plain & are_plain(block));
    // The last 16 bytes overlap a block, so that no byte of a long target is checked alone.
    let is_rest_plain = match target.last_chunk() {
        Some(last) => are_plain(last).all(),
        None => rest.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#'),
    };
    are_blocks_plain.all() && is_rest_plain
}
