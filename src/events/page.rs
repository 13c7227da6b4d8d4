//! The page path of an event.

use super::event::Event;
use super::request::Environment;
use crate::limits::PAGE_BYTES_MAX;

/// Writes the event's page path into `page_path`, in the form of routes. A path that cannot be a route is
/// truncated to `PAGE_BYTES_MAX` bytes. Returns whether the event has a page.
pub(super) fn write(
    event: &Event<'_>,
    referer: Option<&str>,
    environment: &mut impl Environment,
    page_path: &mut String,
) -> bool {
    let url = || event.page_text("url").or(referer);
    let Some(value) = event.page_text("path").or_else(|| url().map(url_path)) else { return false };
    page_path.clear();
    match environment.page_path(value) {
        Some(path) => page_path.push_str(path),
        None => page_path.push_str(&value[..value.floor_char_boundary(PAGE_BYTES_MAX)]),
    }
    true
}

/// Returns the path of a URL without query and fragment, or "/" if the URL ends after the authority. Returns
/// a text that has no scheme as it is.
fn url_path(url: &str) -> &str {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    if url.starts_with('/') {
        return url;
    }
    let Some((_, authority)) = url.split_once("://") else { return url };
    authority.find('/').map_or("/", |at| &authority[at..])
}
