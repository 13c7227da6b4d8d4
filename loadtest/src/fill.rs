//! Makes visitors known to a server before it is measured: two pages and a trait of each, posted in batches.
//!
//! Visitors are numbers with zeros in front behind [`VISITOR`]. Those that follow each other in number are far apart in the order
//! in which the server came to know them, so that whoever asks for one after the other does not walk through memory in order.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};

use crate::exchange::{Answer, Exchange};
use crate::progress::Progress;
use crate::servers::parallax::Parallax;

/// In front of a visitor's number.
pub const VISITOR: &str = "0c9a4e6b-4ed6-4b63-visitor-";
/// Of each visitor.
const EVENTS: u64 = 3;
/// Visitors of one batch; with their events it stays under the 512 KiB and the 2,500 events of a body.
const TOGETHER: u64 = 400;
/// Enough that the server has a batch to read while the disk takes another.
const CONNECTIONS: u64 = 8;
/// From one visitor to the next that becomes known. A prime, so that all have their turn where their number is a power of ten.
const STRIDE: u64 = 7_919;

/// Makes visitors known, as many as a number of so many digits tells apart, unless they are already.
pub fn fill(parallax: &Parallax, digits: usize, progress: &Progress) -> io::Result<()> {
    let visitors = 10_u64.pow(digits as u32);
    let known = || parallax.metric("parallax_visitors").map(|number| number as u64);
    if known()? < visitors {
        progress.begin(&format!("{visitors} visitors become known"), visitors);
        post(parallax.server.address, digits, visitors, progress)?;
    }
    let known = known()?;
    if known >= visitors {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{known} visitors are known, not {visitors}: give it more --profiles-memory"
    )))
}

fn post(address: SocketAddr, digits: usize, visitors: u64, progress: &Progress) -> io::Result<()> {
    let next = AtomicU64::new(0);
    let now = Timestamp::now();
    let share = || {
        let mut exchange = Exchange::new(address)?;
        loop {
            let first = next.fetch_add(TOGETHER, Ordering::Relaxed);
            if first >= visitors {
                return Ok(());
            }
            let batch = first..(first + TOGETHER).min(visitors);
            let count = batch.end - batch.start;
            let answer = exchange.ask(&request(batch, digits, visitors, now)).and_then(Answer::good)?;
            let accepted = format!(r#""accepted":{},"#, count * EVENTS);
            let receipt = String::from_utf8_lossy(answer.body());
            if !receipt.contains(&accepted) {
                return Err(io::Error::other(format!("answered {receipt}")));
            }
            progress.step(count);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(share)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

fn request(batch: Range<u64>, digits: usize, visitors: u64, now: Timestamp) -> Vec<u8> {
    let ago = |hours| (now - SignedDuration::from_hours(hours)).to_string();
    let times = [ago(2), ago(1), ago(0)];
    let events: Vec<String> =
        batch.flat_map(|place| events(place * STRIDE % visitors, digits, &times)).collect();
    let body = format!(r#"{{"trackingId":"track_bench","batch":[{}]}}"#, events.join(","));
    let head = format!(
        "POST /v1/track HTTP/1.1\r\nHost: edge.example\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// Two pages two hours and one hour ago, a trait now.
fn events(visitor: u64, digits: usize, times: &[String; 3]) -> [String; 3] {
    let id = format!(r#""anonId":"{VISITOR}{visitor:0digits$}""#);
    let page = |path: &str, time: &str| {
        format!(
            r#"{{"type":"page",{id},"timestamp":"{time}","properties":{{"path":"{path}","title":"A page"}},"context":{{"locale":"de-DE","page":{{"url":"https://bench.example{path}?utm_source=letter"}}}}}}"#
        )
    };
    let (plan, seats, time) = (5 + visitor % 5, visitor % 40, &times[2]);
    let said = format!(
        r#"{{"type":"identify",{id},"timestamp":"{time}","traits":{{"plan":"p{plan}","seats":{seats}}}}}"#
    );
    [page("/page-1", &times[0]), page(&format!("/page-{}", visitor % 100), &times[1]), said]
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
        for first in (0..visitors).step_by(TOGETHER as usize) {
            let request =
                request(first..(first + TOGETHER).min(visitors), digits, visitors, Timestamp::UNIX_EPOCH);
            assert!(request.len() < 500 * 1024);
            let at = memchr::memmem::find(&request, b"\r\n\r\n").expect("a head") + 4;
            let body: Value = serde_json::from_slice(&request[at..]).expect("JSON");
            for event in body["batch"].as_array().expect("a batch") {
                let id = event["anonId"].as_str().expect("an id").to_owned();
                assert_eq!(id.len(), VISITOR.len() + digits);
                assert!(seen.insert((id, event["timestamp"].to_string())));
            }
        }
        assert_eq!(seen.len() as u64, visitors * EVENTS);
    }
}
