//! The requests of the benchmarks, to the benchmark site with its content.

use crate::served::Case;

const FORCED: &str = "/v1/resolve?trackingId=track_bench&route=/page-7&variants=hero:de,aside:b";
const DECIDED: &str = "trackingId=track_bench&route=/page-7&anonId=0c9a4e6b-visitor&country=SE";
const BROWSER: &str = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0\r\n\
                       Accept-Language: de-DE,de;q=0.9,en;q=0.8\r\n";

const INDEXED: &str = "/v1/query?trackingId=track_bench&query=by-topic&params.topic=topic-7";
const SCANNED: &str = "/v1/query?trackingId=track_bench&query=not-under&params.price=1008";

/// Returns the requests of the benchmarks, with the expected responses.
pub fn cases() -> [Case; 8] {
    let gzip = "Accept-Encoding: gzip\r\n";
    [
        Case::new("resolve_forced", FORCED, "", "\"variants\":\"aside:b,hero:de\""),
        Case::new("resolve_forced_gzip", FORCED, gzip, "Content-Encoding: gzip"),
        Case::new(
            "resolve_decided",
            &format!("/v1/resolve?{DECIDED}"),
            BROWSER,
            "X-Variants: aside:b,hero:de",
        ),
        Case::new(
            "resolve_decided_gzip",
            &format!("/v1/resolve?{DECIDED}"),
            &format!("{BROWSER}{gzip}"),
            "Content-Encoding: gzip",
        ),
        Case::new(
            "variants",
            &format!("/v1/variants?{DECIDED}"),
            BROWSER,
            "\"variants\":\"aside:b,hero:de\"",
        ),
        Case::new("query_indexed", INDEXED, "", "\"total\":12,\"nextCursor\":null}"),
        Case::new("query_indexed_gzip", INDEXED, gzip, "Content-Encoding: gzip"),
        Case::new("query_scanned", SCANNED, "", "\"total\":12,\"nextCursor\":null}"),
    ]
}
