//! The page that an event happened on.

use super::decode::Outside;
use super::event::Event;
use crate::limits::PAGE_BYTES_MAX;

/// Writes the page of an event into `page`, as routes are written; what cannot be is cut at `PAGE_BYTES_MAX`. Whether there is
/// one.
pub(super) fn write(
    event: &Event<'_>,
    referer: Option<&str>,
    outside: &mut impl Outside,
    page: &mut String,
) -> bool {
    let properties = event.properties.as_ref();
    let property = |name: &str| properties.and_then(|all| all.find(name)?.string());
    let context = event.context.page;
    let path = property("path").or_else(|| context.string_in("path"));
    let url = || property("url").or_else(|| context.string_in("url")).or(referer);
    let Some(value) = path.or_else(|| url().map(path_of)) else { return false };
    page.clear();
    match outside.page_path(value) {
        Some(path) => page.push_str(path),
        None => page.push_str(&value[..value.floor_char_boundary(PAGE_BYTES_MAX)]),
    }
    true
}

/// The path of a URL, query and fragment cut; "/" where nothing follows the authority. A URL without one is its own path.
fn path_of(url: &str) -> &str {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    if url.starts_with('/') {
        return url;
    }
    let Some((_, authority)) = url.split_once("://") else { return url };
    authority.find('/').map_or("/", |at| &authority[at..])
}
