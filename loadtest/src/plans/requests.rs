//! The requests of the plans as final bytes, for the benchmark site with its content.

use crate::event;
use crate::fill::VISITOR;
use crate::request::{Expected, ExpectedBody, Template};

/// Placeholder for a digit of a counter. Neither a head nor JSON may contain this character unescaped.
const DIGIT: &str = "\u{1}";
/// Header fields of a browser whose visitor reads German.
const BROWSER: &str = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0\r\n\
                       Accept-Language: de-DE,de;q=0.9,en;q=0.8\r\n";
const GZIP: &str = "Accept-Encoding: gzip\r\n";
const PAGE: &str = "trackingId=track_bench&route=/page-7";
/// Digits of a message number: as many as the greatest 64-bit number has.
const MESSAGE_DIGITS: usize = 20;
/// Digits of the visitors of page views: ten thousand visitors, all known before the measured windows.
const EVENTS_VISITOR_DIGITS: usize = 4;

/// Returns placeholders for this many digits.
pub fn digit_slots(count: usize) -> String {
    DIGIT.repeat(count)
}

/// Returns a request for a page with forced variants.
pub fn forced_page() -> Template {
    get(&format!("/v1/resolve?{PAGE}&variants=hero:de,aside:b"), "", &[r#""variants":"aside:b,hero:de""#])
}

/// Returns the same request, for gzip.
pub fn forced_page_gzip() -> Template {
    let target = format!("/v1/resolve?{PAGE}&variants=hero:de,aside:b");
    get(&target, GZIP, &[r#""variants":"aside:b,hero:de""#])
}

/// Returns a request for a page decided for one known visitor after the other, with visitor numbers of this
/// many digits. All visitors get the same variants of the German and the nordic zone. The arm of the
/// experiment differs.
pub fn decided_page(digits: usize) -> Template {
    get(
        &format!("/v1/resolve?{}", known_visitor_params(digits)),
        BROWSER,
        &[r#""hero":"de""#, r#""aside":"b""#],
    )
}

/// Returns a request for the same page and visitors, forced. It differs only in the parameter `variants`.
pub fn forced_page_of_visitors(digits: usize) -> Template {
    let target = format!("/v1/resolve?{}&variants=hero:de,aside:b", known_visitor_params(digits));
    get(&target, BROWSER, &[r#""hero":"de""#, r#""aside":"b""#])
}

/// Returns a request for the decision alone.
pub fn variants(digits: usize) -> Template {
    get(
        &format!("/v1/variants?{}", known_visitor_params(digits)),
        BROWSER,
        &[r#""hero":"de""#, r#""aside":"b""#],
    )
}

fn known_visitor_params(count: usize) -> String {
    format!("{PAGE}&country=SE&anonId={VISITOR}{}", digit_slots(count))
}

/// Returns a request for the list of the site's routes.
pub fn routes() -> Template {
    get("/v1/routes?trackingId=track_bench", "", &[r#""path":"/page-99""#, r#""nextCursor":null"#])
}

/// Returns a query with precomputed results.
pub fn indexed_query() -> Template {
    query("by-topic&params.topic=topic-7")
}

/// Returns a query that scans every item.
pub fn scan_query() -> Template {
    query("not-under&params.price=1008")
}

fn query(params: &str) -> Template {
    get(
        &format!("/v1/query?trackingId=track_bench&query={params}"),
        "",
        &[r#""total":12,"nextCursor":null}"#],
    )
}

/// Returns a page view of about 500 bytes.
pub fn page_view() -> Template {
    let (visitor, message) = (digit_slots(EVENTS_VISITOR_DIGITS), digit_slots(MESSAGE_DIGITS));
    let body = format!(
        r#"{{"type":"page","trackingId":"track_bench","anonymousId":"507f191e-810c-4972-9de8-60ea0000{visitor}","messageId":"ajs-{message}","timestamp":"2026-01-05T09:59:58.123Z","name":"Pricing","properties":{{"path":"/page-7","url":"https://bench.example/page-7","title":"Page 7","referrer":""}},"context":{{"locale":"de-DE","library":{{"name":"analytics.js","version":"2.11.1"}},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}}}"#
    );
    post("/v1/page", "", &body, ACCEPTED)
}

/// Counts in the receipt of one event.
const ACCEPTED: &str = r#""accepted":1,"duplicates":0,"dropped":0,"rejected":0"#;

/// Returns a body with this many events of 500 bytes, each with an ID of its own.
pub fn batch(events: u16) -> Template {
    let (before, after) = event::event();
    // The event's digits are the message number. A suffix makes the IDs of one request different.
    let message = digit_slots(event::DIGITS);
    let one = |number| format!("{before}{message}-{number}{after}");
    let events_json = (0..events).map(one).collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"trackingId":"track_bench","batch":[{events_json}]}}"#);
    post("/v1/track", "", &body, &format!(r#""accepted":{events},"duplicates":0,"dropped":0,"rejected":0"#))
}

/// Returns a request for a page, by a visitor with this user agent.
pub fn visit(route: &str, visitor: &str, agent: &str) -> Template {
    let target = format!("/v1/resolve?trackingId=track_bench&route={route}&anonId={visitor}");
    get(&target, &user_agent(agent), &[r#""type":"layout""#])
}

/// Returns the page view that follows such a request.
pub fn view(route: &str, visitor: &str, agent: &str, referrer: &str) -> Template {
    let message = format!("ajs-{}", "0".repeat(MESSAGE_DIGITS));
    let properties = serde_json::json!({ "path": route, "referrer": referrer });
    let body = serde_json::json!({ "type": "page", "trackingId": "track_bench", "anonymousId": visitor, "messageId": message,
        "properties": properties, "context": { "userAgent": agent } });
    let counted = format!("ajs-{}", digit_slots(MESSAGE_DIGITS));
    post("/v1/page", &user_agent(agent), &body.to_string().replacen(&message, &counted, 1), ACCEPTED)
}

fn user_agent(agent: &str) -> String {
    format!("User-Agent: {agent}\r\n")
}

fn get(target: &str, fields: &str, contains: &[&str]) -> Template {
    let text = format!("GET {target} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\n{fields}\r\n");
    template(text, contains)
}

fn post(target: &str, fields: &str, body: &str, receipt: &str) -> Template {
    let length = body.len();
    let text = format!(
        "POST {target} HTTP/1.1\r\nHost: edge.example\r\n{fields}Content-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    template(text, &[receipt])
}

/// Finds the placeholders of digits and replaces them by zeros.
fn template(text: String, contains: &[&str]) -> Template {
    let mut counters = Vec::new();
    let mut rest = 0;
    while let Some(from) = text[rest..].find(DIGIT).map(|at| rest + at) {
        let count = text[from..].chars().take_while(|character| DIGIT.contains(*character)).count();
        rest = from + count;
        counters.push(from..rest);
    }
    let contains = contains.iter().map(|&text| text.to_owned()).collect();
    let expected = Expected { status: 200, body: ExpectedBody::Contains(contains) };
    Template { bytes: text.replace(DIGIT, "0").into_bytes(), counters, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &Template) -> &str {
        std::str::from_utf8(&template.bytes).expect("text")
    }

    #[test]
    fn a_known_visitor_has_digits_for_its_number() {
        let decided_page = decided_page(6);
        assert!(text(&decided_page).contains("&anonId=0c9a4e6b-4ed6-4b63-visitor-000000 HTTP/1.1\r\n"));
        let [range] = &decided_page.counters[..] else { panic!("{:?}", decided_page.counters) };
        assert_eq!(&text(&decided_page)[range.clone()], "000000");
        assert!(forced_page().counters.is_empty());
    }

    #[test]
    fn bodies_have_their_content_length_and_about_500_bytes_per_event() {
        let parts = |template: &Template| {
            let (head, body) = text(template)
                .split_once("\r\n\r\n")
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .expect("a head");
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
            serde_json::from_str::<serde_json::Value>(&body).expect("JSON");
            body.len()
        };
        let one = parts(&page_view());
        assert!((450..=550).contains(&one), "{one}");
        let (ten, twenty) = (parts(&batch(10)), parts(&batch(20)));
        assert!((450..=550).contains(&((twenty - ten) / 10)), "{ten} {twenty}");
        parts(&view("/page-1", "v1", "An \"agent\"", "https://a.example/?a=#b"));
    }

    #[test]
    fn the_events_of_a_batch_have_different_ids() {
        let batch = batch(3);
        assert_eq!(batch.counters.len(), 3);
        let ids: Vec<&str> =
            batch.counters.iter().map(|range| &text(&batch)[range.start..range.end + 2]).collect();
        assert_eq!(ids, ["00000000000000000000-0", "00000000000000000000-1", "00000000000000000000-2"]);
    }
}
