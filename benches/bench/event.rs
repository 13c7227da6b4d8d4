//! An event of the size that the goals speak of, some 500 bytes.

/// Digits of its message ID that count.
pub const DIGITS: usize = 20;

/// What stands before these digits, and what behind.
pub fn event() -> (&'static str, &'static str) {
    const EVENT: &str = r#"{"type":"track","trackingId":"track_bench","anonymousId":"507f191e-810c-4972-9de8-60ea00000000","messageId":"ajs-#","timestamp":"2026-01-05T09:59:58.123Z","event":"Product Viewed","properties":{"path":"/pricing","sku":"G-32","price":18.99,"quantity":1,"category":"Games"},"context":{"locale":"de-DE","library":{"name":"analytics.js","version":"2.11.1"},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}"#;
    EVENT.split_once('#').expect("its place")
}
