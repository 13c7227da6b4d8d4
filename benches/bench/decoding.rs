//! From the bytes of a body to its records, again and again.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use parallax::resolve::path::RoutePath;
use parallax::visitors::events::decode::{Call, Judge, Outside, Policy, Sent};
use parallax::visitors::events::document::Reader;
use parallax::visitors::events::endpoint::Endpoint;
use parallax::visitors::events::receipt::Fates;
use parallax::visitors::log::Record;

/// One event of some 500 bytes.
pub const EVENT: &str = r#"{"type":"track","anonymousId":"507f191e-810c-4972-9de8-60ea00000000","messageId":"ajs-022bb90c-bbac-11e4-8dfc-aa07a5b093db","timestamp":"2026-01-05T09:59:58.123Z","event":"Product Viewed","properties":{"path":"/pricing","sku":"G-32","price":18.99,"quantity":1,"category":"Games"},"context":{"locale":"de-DE","library":{"name":"analytics.js","version":"2.11.1"},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}"#;

const CALL: Call<'static> = Call {
    site: "acme",
    tracking_id: "track_acme",
    policy: Policy {
        bots: parallax::visitors::events::decode::Bots::Flag,
        honor_gpc: false,
        ip: parallax::visitors::events::ip::IpPolicy::None,
    },
    received_ms: 1_767_607_200_000,
    preview: false,
    gpc: false,
    referer: None,
    user_agent: None,
    anon_id: None,
    peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
};

struct World(RoutePath);

impl Outside for World {
    fn is_crawler(&mut self, _: &str) -> bool {
        false
    }

    fn page_path(&mut self, value: &str) -> Option<&str> {
        self.0.read(value).ok()?;
        Some(self.0.text())
    }

    fn mint(&mut self) -> [u8; 16] {
        *b"0123456789abcdef"
    }
}

/// One body, and what decodes it.
pub struct Decoding {
    body: String,
    reader: Reader,
    judge: Judge,
    world: World,
    used: Fates,
}

impl Decoding {
    pub fn new(body: String) -> Self {
        let world = World(RoutePath::new());
        Self { body, reader: Reader::new(), judge: Judge::default(), world, used: Fates::default() }
    }

    /// How many records came of it, and bytes of their payloads.
    pub fn decode(&mut self) -> (usize, usize) {
        let Self { body, reader, judge, world, used } = self;
        let document = reader.read(black_box(body)).expect("JSON");
        let sent = Sent::of(&document, Endpoint::Track).expect("events");
        let mut bytes = 0;
        let record = |record: &Record<'_>| bytes += record.payload.len();
        *used = judge.judge(&sent, &CALL, world, std::mem::take(used), record);
        (used.recorded(), bytes)
    }
}
