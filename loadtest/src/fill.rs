//! Makes visitors known to a server before the measurement: posts two page views and a trait of each, in
//! batches.
//!
//! A visitor's ID is [`VISITOR`] and a zero-padded number. Visitors with adjacent numbers are far apart in
//! the order of creation, so that requests for one number after the other do not read the server's memory in
//! order.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};

use crate::exchange::{Client, Response};
use crate::progress::Progress;
use crate::servers::parallax::Parallax;

/// Prefix of a visitor's ID, before the number.
pub const VISITOR: &str = "0c9a4e6b-4ed6-4b63-visitor-";
/// Events of each visitor.
const EVENTS_PER_VISITOR: u64 = 3;
/// Visitors per batch. Their events stay below the limits of a body, 512 KiB and 2,500 events.
const VISITORS_PER_BATCH: u64 = 400;
/// Connections: enough that the server can decode a batch while it syncs another.
const CONNECTIONS: u64 = 8;
/// Distance from one posted visitor to the next. A prime, so that every visitor has its turn if their number
/// is a power of ten.
const STRIDE: u64 = 7_919;

/// Makes all visitors with numbers of `digits` digits known, unless the server knows that many already.
pub fn fill(parallax: &Parallax, digits: usize, progress: &Progress) -> io::Result<()> {
    let visitors = 10_u64.pow(digits as u32);
    let known = || parallax.metric("parallax_visitors").map(|number| number as u64);
    if known()? < visitors {
        progress.begin(&format!("posting events of {visitors} visitors"), visitors);
        post(parallax.server.address, digits, visitors, progress)?;
    }
    let known = known()?;
    if known >= visitors {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the server knows {known} visitors instead of {visitors}; raise its --profiles-memory"
    )))
}

fn post(address: SocketAddr, digits: usize, visitors: u64, progress: &Progress) -> io::Result<()> {
    let next = AtomicU64::new(0);
    let now = Timestamp::now();
    let post_batches = || {
        let mut exchange = Client::new(address)?;
        loop {
            let first = next.fetch_add(VISITORS_PER_BATCH, Ordering::Relaxed);
            if first >= visitors {
                return Ok(());
            }
            let batch = first..(first + VISITORS_PER_BATCH).min(visitors);
            let count = batch.end - batch.start;
            let response =
                exchange.ask(&request(batch, digits, visitors, now)).and_then(Response::require_ok)?;
            let accepted = format!(r#""accepted":{},"#, count * EVENTS_PER_VISITOR);
            let receipt = String::from_utf8_lossy(response.body());
            if !receipt.contains(&accepted) {
                return Err(io::Error::other(format!("unexpected receipt: {receipt}")));
            }
            progress.step(count);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(post_batches)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

fn request(batch: Range<u64>, digits: usize, visitors: u64, now: Timestamp) -> Vec<u8> {
    let ago = |hours| (now - SignedDuration::from_hours(hours)).to_string();
    let times = [ago(2), ago(1), ago(0)];
    let events: Vec<String> =
        batch.flat_map(|index| events(index * STRIDE % visitors, digits, &times)).collect();
    let body = format!(r#"{{"trackingId":"track_bench","batch":[{}]}}"#, events.join(","));
    let head = format!(
        "POST /v1/track HTTP/1.1\r\nHost: edge.example\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// Returns two page views, two hours and one hour ago, and a trait set now.
fn events(visitor: u64, digits: usize, times: &[String; 3]) -> [String; 3] {
    let id = format!(r#""anonId":"{VISITOR}{visitor:0digits$}""#);
    let page = |path: &str, time: &str| {
        format!(
            r#"{{"type":"page",{id},"timestamp":"{time}","properties":{{"path":"{path}","title":"A page"}},"context":{{"locale":"de-DE","page":{{"url":"https://bench.example{path}?utm_source=letter"}}}}}}"#
        )
    };
    let (plan, seats, time) = (5 + visitor % 5, visitor % 40, &times[2]);
    let identify = format!(
        r#"{{"type":"identify",{id},"timestamp":"{time}","traits":{{"plan":"p{plan}","seats":{seats}}}}}"#
    );
    [page("/page-1", &times[0]), page(&format!("/page-{}", visitor % 100), &times[1]), identify]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_visitor_has_its_three_events_once() {
        let digits = 4;
        let visitors = 10_u64.pow(4);
        let mut seen = HashSet::new();
        for first in (0..visitors).step_by(VISITORS_PER_BATCH as usize) {
            let request = request(
                first..(first + VISITORS_PER_BATCH).min(visitors),
                digits,
                visitors,
                Timestamp::UNIX_EPOCH,
            );
            assert!(request.len() < 500 * 1024);
            let at = memchr::memmem::find(&request, b"\r\n\r\n").expect("a head") + 4;
            let body: Value = serde_json::from_slice(&request[at..]).expect("JSON");
            for event in body["batch"].as_array().expect("a batch") {
                let id = event["anonId"].as_str().expect("an id").to_owned();
                assert_eq!(id.len(), VISITOR.len() + digits);
                assert!(seen.insert((id, event["timestamp"].to_string())));
            }
        }
        assert_eq!(seen.len() as u64, visitors * EVENTS_PER_VISITOR);
    }
}
