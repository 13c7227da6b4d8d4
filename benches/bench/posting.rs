//! A benchmark that posts events to a handler and its log, in one thread: from the bytes of a request to the response
//! that acknowledges its durable record.

use std::sync::Arc;
use std::time::Duration;

use parallax::testing::api::{EventSink, Poll, Service};
use parallax::testing::clock::Clock;
use parallax::testing::http::request::{BufferedRequest, ParseOutcome, parse};
use parallax::testing::log::{self, LogWriter, Options, Records};
use parallax::testing::metrics::EventCounters;
use parallax::testing::storage::disk::RealDisk;
use parallax::testing::visitors::live::ProfileTable;
use tempfile::TempDir;

use crate::event::{DIGITS, event};
use crate::folding::SECRET;
use crate::served::TestHandler;

/// A clock that does not move, so that no timed work of the log writer is due.
pub struct FrozenClock;

impl Clock for FrozenClock {
    fn now_ms(&self) -> i64 {
        1_767_607_200_000
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// A handler, the writer of its log, and an event that it posts with a new message ID each time.
pub struct PostBench {
    served: TestHandler,
    writer: LogWriter,
    request: Vec<u8>,
    /// The offset of the digits of the message ID in the request.
    digits_at: usize,
    posted: usize,
    _dir: TempDir,
}

impl PostBench {
    /// Serves `snapshot`, which has the site of the event, and opens an empty log whose records are folded.
    pub fn new(snapshot: &[u8]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut table = ProfileTable::new(SECRET, u64::MAX).0;
        let consumer = Box::new(move |records: Records<'_>| table.fold(records));
        let (queue, writer, _) =
            log::open(dir.path(), Options::default(), Arc::new(RealDisk), Arc::new(FrozenClock), consumer)
                .expect("it opens");
        let sink = EventSink::new(queue.client(Arc::new(|| {})), EventCounters::default());
        let served = TestHandler::new(snapshot, None).with_event_sink(sink);
        let (before, after) = event();
        let length = before.len() + DIGITS + after.len();
        let head = format!(
            "POST /v1/track HTTP/1.1\r\nHost: edge.example\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let digits_at = head.len() + before.len();
        let request = format!("{head}{before}{:0DIGITS$}{after}", 0).into_bytes();
        Self { served, writer, request, digits_at, posted: 0, _dir: dir }
    }

    /// Posts the event and returns the response.
    pub fn post(&mut self) -> &[u8] {
        let Self { served, writer, request, digits_at, posted, .. } = self;
        *posted += 1;
        let digits = &mut request[*digits_at..][..DIGITS];
        let mut rest = *posted;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let TestHandler { handler, out, meta, .. } = served;
        out.clear();
        let ParseOutcome::Complete(mut parsed, head_bytes) = parse(request, None) else {
            panic!("the head is invalid");
        };
        parsed.body = &request[head_bytes..];
        let Poll::Pending(token) = handler.handle(&parsed, meta, out) else {
            panic!("the event is invalid: {}", out.escape_ascii());
        };
        handler.flush();
        writer.run_once();
        assert_eq!(handler.take_completion(), Some(token));
        handler.finish(token, &BufferedRequest { bytes: request, close: false }, meta, out);
        out
    }
}
