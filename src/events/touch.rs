//! The touch of a page event: its campaign, and its referrer if that is external.
//!
//! A page event is a touch if it has a campaign, in its context or else in its URL, or an external referrer. A referrer
//! that the site ignores, such as a payment page, is not external.

use super::event::Event;
use super::request::{Environment, RequestFacts};
use crate::limits::TOUCH_TEXT_BYTES_MAX;
use crate::url::{PageUrl, is_external};

/// The members of `context.campaign`, and the URL parameters of a campaign, in the order of the texts.
const CAMPAIGN_MEMBERS: [&str; 5] = ["source", "medium", "name", "term", "content"];
const CAMPAIGN_PARAMS: [&str; 5] = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"];

/// Returns source, medium, campaign, term, content and referrer of the touch of a page event, if it is one.
/// `url_buffer` is a reusable buffer for the URL of the page.
pub(super) fn find<'e>(
    event: &Event<'e>,
    request: &RequestFacts<'e>,
    environment: &mut impl Environment,
    url_buffer: &'e mut PageUrl,
) -> Option<[Option<&'e str>; 6]> {
    let page_url = event.page_text("url").or(request.referer);
    let is_ignored = |host: &str| environment.is_ignored_referrer(host);
    let referrer = event
        .page_text("referrer")
        .filter(|referrer| is_external(referrer, page_url, environment.site_hosts(), is_ignored));
    let campaign = event.context.campaign;
    let mut parts = CAMPAIGN_MEMBERS.map(|name| campaign.get_str(name));
    if parts.iter().all(Option::is_none)
        && let Some(page_url) = page_url.filter(|url| url.contains('?'))
    {
        url_buffer.parse(Some(page_url.as_bytes()));
        let url: &'e PageUrl = url_buffer;
        parts = CAMPAIGN_PARAMS.map(|name| url.param(name).filter(|value| !value.is_empty()));
    }
    let [source, medium, campaign, term, content] = parts;
    let texts = [source, medium, campaign, term, content, referrer];
    texts.iter().any(Option::is_some).then(|| texts.map(|text| text.map(truncate)))
}

/// Truncates a text to `TOUCH_TEXT_BYTES_MAX`, at a character boundary.
pub(super) fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOUCH_TEXT_BYTES_MAX)]
}
