//! Publishing under load: no request fails, and no response mixes two versions (R10).
//!
//! Every version of the site names itself in all parts of a response: in the name of the route parameter and
//! in the selected key (both written per request), in the text of the page, in the texts of a personalized
//! zone and of a zone inside it, and in the header `X-Version`.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;

use crate::harness::{Client, Response, Server, eventually, snapshot, times, under_load};

fn site(version: u64) -> Vec<u8> {
    let v = format!("v{version}v");
    // Long enough to be compressed.
    let filler = "lorem ipsum ".repeat(200);
    let node = |id: &str, zones: &str| {
        format!(r#"[{{"id":"{id}","type":"Text","props":{{"text":"{v}","filler":"{filler}"}}{zones}}}]"#)
    };
    let always = format!(r#""rules":[{{"when":{{"visitor.isNew":true}},"variant":"{v}"}}]"#);
    let inner = format!(
        r#","zones":{{"inner":{{"default":[],"variants":{{"{v}":{}}},{always}}}}}"#,
        node("inner", "")
    );
    let outer = format!(r#"{{"default":[],"variants":{{"{v}":{}}},{always}}}"#, node("outer", &inner));
    let page = format!(
        r#"{{"path":"/p/:{v}","layout":{{"root":{{"props":{{"title":"{v}"}}}},"zones":{{
            "outer":{outer},"plain":{}}}}}}}"#,
        node("plain", "")
    );
    let about = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
    snapshot(&[("site.json", about), ("routes/p.json", &page)], version)
}

/// Mentions of the version in a resolve response: one in the pattern, one in the params, two in the
/// variants, two in selected, one in the title, and three in nodes.
const MENTIONS: usize = 10;

fn body(response: &Response) -> String {
    let mut text = String::new();
    match response.field("content-encoding") {
        Some("gzip") => drop(GzDecoder::new(&response.body[..]).read_to_string(&mut text).expect("gzip")),
        _ => text.push_str(response.text()),
    }
    text
}

/// Returns the version of a response. Panics if it mentions two.
fn version(response: &Response) -> u64 {
    assert_eq!(response.status, 200, "{}", response.text());
    let text = body(response);
    let version = response.field("x-version").expect("a version");
    let mention = format!("v{version}v");
    assert_eq!(text.matches(&mention).count(), MENTIONS, "of {version}: {text}");
    let any = text.split(|c: char| !c.is_ascii_alphanumeric());
    let is_mention = |word: &str| {
        let digits = word.strip_prefix('v').and_then(|w| w.strip_suffix('v'));
        digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    };
    assert_eq!(any.filter(|word| is_mention(word)).count(), MENTIONS, "mixed: {text}");
    assert_eq!(response.field("x-variants"), Some(&*format!("inner:{mention},outer:{mention}")));
    version.parse().expect("a number")
}

#[test]
fn publishing_under_load_fails_no_request_and_mixes_no_versions() {
    let publications = times(20, 60);
    let pause = Duration::from_millis(times(100, 1000) as u64);
    let server = Server::start(&[("acme.snapshot", &site(1))], &[]);
    let gzipped = AtomicUsize::new(0);
    let newest_seen = AtomicUsize::new(0);
    let ask = |client: &mut Client| {
        // A connection never sees an older version after a newer one.
        let mut newest = 0;
        for coding in ["gzip", "identity", "gzip"] {
            let target = "/v1/resolve?trackingId=track_acme&route=/p/x&anonId=visitor";
            let response = client.request("GET", target, &[("Accept-Encoding", coding)]);
            assert_eq!(response.field("content-encoding"), (coding == "gzip").then_some("gzip"));
            gzipped.fetch_add(usize::from(coding == "gzip"), Ordering::Relaxed);
            let version = version(&response);
            assert!(version >= newest, "version {version} after {newest}");
            newest = version;
            newest_seen.fetch_max(version as usize, Ordering::Relaxed);
        }
    };
    let ((), rounds) = under_load(server.edge, 4, ask, || {
        for version in 2..publications as u64 + 2 {
            let start = Instant::now();
            server.publish("acme.snapshot", &site(version));
            eventually("the version is served", || {
                (newest_seen.load(Ordering::Relaxed) as u64 == version).then_some(())
            });
            thread::park_timeout(pause.saturating_sub(start.elapsed()));
        }
    });
    assert_eq!(gzipped.load(Ordering::Relaxed), 2 * rounds);
    assert!(rounds > 2 * publications, "only {rounds} rounds of requests");
}
