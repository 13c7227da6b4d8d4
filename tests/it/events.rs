//! Requests become records: every member, every refusal, and every limit of section 10 of the interface.

mod bounds;
mod context;
mod examples;
mod ignored;
mod json;
mod kinds;
mod pages;
mod receipts;
mod recorded;
mod refusals;
mod signed;
mod times;
mod touches;
mod tree;
mod visitors;

use std::net::{IpAddr, Ipv4Addr};

use parallax::testing::events::decode::EventValidator;
use parallax::testing::events::document::JsonParser;
use parallax::testing::events::endpoint::EventEndpoint;
use parallax::testing::events::export;
use parallax::testing::events::receipt::{EventResults, RejectedRequest, StoreOutcome};
use parallax::testing::events::refusal::{OwnedActual, Refusal};
use parallax::testing::events::request::{Environment, Policy, RequestFacts};
use parallax::testing::events::submission::Submission;
use parallax::testing::identity_keys::UserRule;
use parallax::testing::log::{Ack, RecordResult};
use parallax::testing::problem::{self, Detail};
use parallax::testing::record::{Browser, Device, Os, UserAgentInfo};
use parallax::testing::resolve::path::RoutePath;
use parallax::testing::url::is_ignored_referrer;
use proptest::prelude::ProptestConfig;
use serde_json::{Value, json};

use self::tree::Tree;
use crate::harness::times;

/// 2026-01-05T10:00:00Z.
const NOW_MS: i64 = 1_767_607_200_000;

/// The context of a request to a site with the default policy.
const REQUEST: RequestFacts<'static> = RequestFacts {
    site: "acme",
    tracking_id: "track_acme",
    policy: Policy {
        bots: parallax::testing::events::request::BotPolicy::Flag,
        honor_gpc: false,
        ip: parallax::testing::events::ip::IpPolicy::None,
    },
    received_ms: NOW_MS,
    is_preview: false,
    gpc: false,
    referer: None,
    user_agent: None,
    language: None,
    country: None,
    anon_id: None,
    user_rule: UserRule::Any,
    peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77)),
};

/// An environment with the route syntax of the server, one crawler, and counted message IDs.
struct TestEnvironment {
    path: RoutePath,
    /// The hosts that the site lists.
    hosts: Vec<&'static str>,
    /// The hosts whose referrers the site ignores.
    ignored_referrers: Vec<&'static str>,
    ignores_providers: bool,
    /// The categories of a consent manager under which the site measures.
    measure_categories: Vec<&'static str>,
    generated: u64,
}

impl Environment for TestEnvironment {
    fn parse_user_agent(&mut self, user_agent: &str) -> UserAgentInfo {
        match user_agent.contains("Googlebot") {
            true => UserAgentInfo { is_crawler: true, device: Device::Bot, ..UserAgentInfo::default() },
            false => UserAgentInfo {
                device: Device::Mobile,
                os: Os::Ios,
                browser: Browser::Safari,
                is_crawler: false,
            },
        }
    }

    fn site_hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().copied()
    }

    fn is_ignored_referrer(&self, host: &str) -> bool {
        is_ignored_referrer(host, self.ignored_referrers.iter().copied(), self.ignores_providers)
    }

    fn measure_categories(&self) -> impl Iterator<Item = &str> {
        self.measure_categories.iter().copied()
    }

    fn page_path(&mut self, value: &str) -> Option<&str> {
        self.path.parse(value).ok()?;
        Some(self.path.text())
    }

    fn phase_hash(&self, _experiment_key: &str, _arm: &str) -> Option<u32> {
        None
    }

    fn generate_message_id(&mut self) -> [u8; 16] {
        self.generated += 1;
        format!("{:016x}", self.generated).into_bytes().try_into().expect("16 digits")
    }
}

/// The results of one request body.
struct Outcome {
    results: Result<EventResults, Refusal>,
    /// The exported lines, in order.
    lines: Vec<String>,
    duplicate_keys: Vec<u128>,
    surrogates: usize,
    tracking_id: Option<String>,
    site: Option<String>,
}

fn post(path: &str, body: impl AsRef<[u8]>) -> Outcome {
    post_as(&REQUEST, path, body)
}

fn post_as(request: &RequestFacts<'_>, path: &str, body: impl AsRef<[u8]>) -> Outcome {
    Server::new().post(request, path, body.as_ref())
}

/// The parts of the server that handle event requests. One value handles many requests in sequence.
struct Server {
    parser: JsonParser,
    validator: EventValidator,
    environment: TestEnvironment,
}

impl Server {
    fn new() -> Self {
        let environment = TestEnvironment {
            path: RoutePath::new(),
            hosts: Vec::new(),
            ignored_referrers: Vec::new(),
            ignores_providers: true,
            measure_categories: Vec::new(),
            generated: 0,
        };
        Self { parser: JsonParser::default(), validator: EventValidator::default(), environment }
    }

    fn post(&mut self, request: &RequestFacts<'_>, path: &str, body: &[u8]) -> Outcome {
        let endpoint = EventEndpoint::from_path(path).expect("an event endpoint");
        let mut outcome = Outcome {
            results: Ok(EventResults::default()),
            lines: Vec::new(),
            duplicate_keys: Vec::new(),
            surrogates: 0,
            tracking_id: None,
            site: None,
        };
        outcome.results = match std::str::from_utf8(body) {
            Ok(text) => self.decode(request, endpoint, text, &mut outcome),
            // The server refuses a body that is not UTF-8 before it parses the body.
            Err(_) => {
                let (detail, actual) = (Detail::Sentence("The body is not UTF-8."), OwnedActual::Missing);
                Err(Refusal { kind: problem::MALFORMED_JSON, pointer: None, detail, actual })
            }
        };
        outcome
    }

    fn decode(
        &mut self,
        request: &RequestFacts<'_>,
        endpoint: EventEndpoint,
        body: &str,
        outcome: &mut Outcome,
    ) -> Result<EventResults, Refusal> {
        let document = self.parser.parse(body)?;
        outcome.surrogates = document.surrogates_replaced();
        let sent = Submission::parse(&document, endpoint)?;
        outcome.tracking_id = sent.site_ref.tracking_id.map(str::to_owned);
        outcome.site = sent.site_ref.site.map(str::to_owned);
        let Outcome { lines, duplicate_keys, .. } = outcome;
        Ok(self.validator.validate(
            &sent,
            request,
            &mut self.environment,
            EventResults::default(),
            |record| {
                let mut line = Vec::new();
                export::write_line(&mut line, 1, record);
                lines.push(String::from_utf8(line).expect("UTF-8"));
                duplicate_keys.push(record.key);
            },
        ))
    }
}

impl Outcome {
    /// Returns the exported lines as JSON.
    fn records(&self) -> Vec<Value> {
        self.lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Returns the only record.
    fn record(&self) -> Value {
        assert_eq!(self.lines.len(), 1, "{:?}", self.results);
        self.records().remove(0)
    }

    /// Returns the payload of the record `index`, with numbers as they were sent.
    fn payload(&self, index: usize) -> Tree {
        match Tree::read(&self.lines[index]) {
            Tree::Object(mut members) => members.remove("payload").expect("a payload"),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the problem that refuses the body.
    fn problem(&self) -> Value {
        let refused = match &self.results {
            Ok(results) => results.problem().unwrap_or_else(|| panic!("accepted: {:?}", self.lines)),
            Err(refusal) => RejectedRequest::Event(refusal),
        };
        let mut out = Vec::new();
        refused.write_problem(None, &mut out);
        serde_json::from_slice(&out).expect("JSON")
    }

    fn code(&self) -> String {
        self.problem()["code"].as_str().expect("a code").to_owned()
    }

    /// Returns the receipt for a log that accepts every record, from seq 1.
    fn receipt(&self) -> Value {
        let results = self.results.as_ref().expect("the body is valid");
        let answers: Vec<RecordResult> =
            (1..=results.recorded_count() as u64).map(RecordResult::Accepted).collect();
        receipt(results, StoreOutcome::Stored(&answers, Ack::Disk, None))
    }
}

fn receipt(results: &EventResults, stored: StoreOutcome<'_>) -> Value {
    let mut out = Vec::new();
    results.write_receipt(stored, &mut out);
    serde_json::from_slice(&out).expect("JSON")
}

/// Runs `quick` cases, or a hundred times as many with `PARALLAX_LONG=1`.
fn cases(quick: u32) -> ProptestConfig {
    let cases = times(quick as usize, 100 * quick as usize) as u32;
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Returns a track event with these additional members.
fn track(members: Value) -> String {
    let mut event = json!({"anonId": "v1", "event": "Viewed"});
    merge(&mut event, members);
    event.to_string()
}

/// Returns a page event with these additional members.
fn page(members: Value) -> String {
    let mut event = json!({"anonId": "v1"});
    merge(&mut event, members);
    event.to_string()
}

fn merge(event: &mut Value, members: Value) {
    let members = members.as_object().expect("members").clone();
    event.as_object_mut().expect("an object").extend(members);
}
