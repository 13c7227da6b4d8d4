//! An event of about 500 bytes, the size in the performance goals.

/// Digits of the message ID that are counted up.
pub const DIGITS: usize = 20;

/// Returns the event's text before and after these digits.
pub fn event() -> (&'static str, &'static str) {
    const EVENT: &str = r#"{"type":"track","trackingId":"track_bench","anonymousId":"507f191e-810c-4972-9de8-60ea00000000","messageId":"ajs-#","timestamp":"2026-01-05T09:59:58.123Z","event":"Product Viewed","properties":{"path":"/pricing","sku":"G-32","price":18.99,"quantity":1,"category":"Games"},"context":{"locale":"de-DE","library":{"name":"analytics.js","version":"2.11.1"},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}"#;
    EVENT.split_once('#').expect("the mark of the digits")
}
