//! A benchmark that decodes one body to its records, repeatedly.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use parallax::testing::events::decode::EventValidator;
use parallax::testing::events::document::JsonParser;
use parallax::testing::events::endpoint::EventEndpoint;
use parallax::testing::events::receipt::EventResults;
use parallax::testing::events::request::{Environment, Policy, RequestFacts};
use parallax::testing::events::submission::Submission;
use parallax::testing::identity_keys::UserRule;
use parallax::testing::record::{Record, UserAgentInfo};
use parallax::testing::resolve::path::RoutePath;
use parallax::testing::url::is_ignored_referrer;

/// One event of about 500 bytes.
pub const EVENT: &str = r#"{"type":"track","anonymousId":"507f191e-810c-4972-9de8-60ea00000000","messageId":"ajs-022bb90c-bbac-11e4-8dfc-aa07a5b093db","timestamp":"2026-01-05T09:59:58.123Z","event":"Product Viewed","properties":{"path":"/pricing","sku":"G-32","price":18.99,"quantity":1,"category":"Games"},"context":{"locale":"de-DE","library":{"name":"analytics.js","version":"2.11.1"},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}"#;

const CONTEXT: RequestFacts<'static> = RequestFacts {
    site: "acme",
    tracking_id: "track_acme",
    policy: Policy {
        bots: parallax::testing::events::request::BotPolicy::Flag,
        honor_gpc: false,
        ip: parallax::testing::events::ip::IpPolicy::None,
    },
    received_ms: 1_767_607_200_000,
    is_preview: false,
    gpc: false,
    referer: None,
    user_agent: None,
    language: None,
    country: None,
    anon_id: None,
    user_rule: UserRule::Any,
    peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
};

struct StubEnvironment(RoutePath);

impl Environment for StubEnvironment {
    fn parse_user_agent(&mut self, _: &str) -> UserAgentInfo {
        UserAgentInfo::default()
    }

    fn site_hosts(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    fn is_ignored_referrer(&self, host: &str) -> bool {
        is_ignored_referrer(host, std::iter::empty(), true)
    }

    fn measure_categories(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    fn page_path(&mut self, value: &str) -> Option<&str> {
        self.0.parse(value).ok()?;
        Some(self.0.text())
    }

    fn phase_hash(&self, _experiment_key: &str, _arm: &str) -> Option<u32> {
        None
    }

    fn generate_message_id(&mut self) -> [u8; 16] {
        *b"0123456789abcdef"
    }
}

/// A body and the buffers for decoding it.
pub struct DecodeBench {
    body: String,
    endpoint: EventEndpoint,
    reader: JsonParser,
    judge: EventValidator,
    world: StubEnvironment,
    used: EventResults,
}

impl DecodeBench {
    /// Prepares the decoding of a body that was sent to `endpoint`.
    pub fn new(body: String, endpoint: EventEndpoint) -> Self {
        let world = StubEnvironment(RoutePath::new());
        Self {
            body,
            endpoint,
            reader: JsonParser::default(),
            judge: EventValidator::default(),
            world,
            used: EventResults::default(),
        }
    }

    /// Decodes the body. Returns the number of records and the bytes of their payloads.
    pub fn decode(&mut self) -> (usize, usize) {
        let Self { body, endpoint, reader, judge, world, used } = self;
        let document = reader.parse(black_box(body)).expect("JSON");
        let sent = Submission::parse(&document, *endpoint).expect("events");
        let mut bytes = 0;
        let record = |record: &Record<'_>| bytes += record.payload.len();
        *used = judge.validate(&sent, &CONTEXT, world, std::mem::take(used), record);
        (used.recorded_count(), bytes)
    }
}
