//! The events of any body are recorded, dropped or refused, and a recorded payload equals the sent event.

use std::net::{IpAddr, Ipv4Addr};

use parallax::testing::events::decode::EventValidator;
use parallax::testing::events::document::JsonParser;
use parallax::testing::events::endpoint::{EventEndpoint, PATHS};
use parallax::testing::events::export;
use parallax::testing::events::ip::IpPolicy;
use parallax::testing::events::receipt::{EventResults, RejectedRequest, StoreOutcome};
use parallax::testing::events::refusal::Refusal;
use parallax::testing::events::request::{BotPolicy, Environment, Policy, RequestFacts};
use parallax::testing::events::submission::Submission;
use parallax::testing::identity_keys::UserRule;
use parallax::testing::log::{Ack, RecordResult, Request};
use parallax::testing::record::{Record, UserAgentInfo};
use parallax::testing::resolve::path::RoutePath;
use parallax::testing::url::is_ignored_referrer;
use serde_json::Value;
use serde_json::value::RawValue;

/// 2026-01-05T10:00:00Z.
const RECEIVED_MS: i64 = 1_767_607_200_000;

/// An environment with the server's route paths, one kind of crawler and one message ID.
struct TestEnvironment(RoutePath);

impl Environment for TestEnvironment {
    fn parse_user_agent(&mut self, user_agent: &str) -> UserAgentInfo {
        UserAgentInfo { is_crawler: user_agent.contains("bot"), ..UserAgentInfo::default() }
    }

    fn site_hosts(&self) -> impl Iterator<Item = &str> {
        std::iter::once("acme.example")
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

/// Posts a body to an event endpoint. The first byte modulo the number of paths is the path. The bits of the
/// quotient are options: bit 0 the IP policy, bit 1 the bot policy, bit 2 an anon ID outside the body, bit 3 a site
/// that verifies user IDs.
pub fn event(bytes: &[u8]) {
    let Some((options, body)) = bytes.split_first() else { return };
    let Ok(body) = std::str::from_utf8(body) else { return };
    let (endpoint, options) =
        (PATHS[usize::from(*options) % PATHS.len()].1, usize::from(*options) / PATHS.len());
    let mut payloads = Vec::new();
    match record_events(endpoint, options, body, &mut payloads) {
        Ok(results) => answer(&results, payloads.len()),
        Err(refusal) => refuse(&RejectedRequest::Event(&refusal)),
    }
    if let Ok(sent) = serde_json::from_str::<Value>(body) {
        let has_users = options >> 3 & 1 == 0;
        assert_kept(&sent, &payloads, has_users);
    }
}

/// Validates the events of a body and adds the payloads of the recorded ones to `payloads`.
fn record_events(
    endpoint: EventEndpoint,
    options: usize,
    body: &str,
    payloads: &mut Vec<String>,
) -> Result<EventResults, Refusal> {
    let mut parser = JsonParser::default();
    let document = parser.parse(body)?;
    let sent = Submission::parse(&document, endpoint)?;
    let call = RequestFacts {
        site: "acme",
        tracking_id: "track_acme",
        policy: Policy {
            bots: [BotPolicy::Flag, BotPolicy::Drop][options >> 1 & 1],
            honor_gpc: false,
            ip: [IpPolicy::None, IpPolicy::Full][options & 1],
        },
        received_ms: RECEIVED_MS,
        is_preview: false,
        gpc: false,
        referer: Some("https://a.example/b?c"),
        language: None,
        country: None,
        user_agent: None,
        anon_id: (options >> 2 & 1 == 1).then_some("visitor"),
        user_rule: match options >> 3 & 1 {
            0 => UserRule::Any,
            _ => UserRule::Signed { keys: &[], header_hash: None },
        },
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    sent.check_site(&call)?;
    let mut records = Request::new(0);
    let mut pushed = 0;
    let results = EventValidator::default().validate(
        &sent,
        &call,
        &mut TestEnvironment(RoutePath::new()),
        EventResults::default(),
        |record| {
            round_trip(record);
            payloads.push(record.payload.to_owned());
            pushed += usize::from(records.push(record).is_ok());
        },
    );
    assert_eq!(results.recorded_count(), payloads.len());
    assert_eq!(records.records().count(), pushed);
    assert!(records.records().zip(&*payloads).all(|(record, payload)| record.payload == payload));
    Ok(results)
}

/// Asserts that a record survives encoding and decoding, and that its export is one line of JSON.
fn round_trip(record: &Record<'_>) {
    let mut bytes = Vec::new();
    // The merged context of a batch can make a record too large to encode. `push` checks the size again.
    if record.encode(&mut bytes).is_ok() {
        assert_eq!(Record::decode(&bytes), Some((*record, bytes.len())));
    }
    let mut line = Vec::new();
    export::write_line(&mut line, u64::MAX, record);
    let line = String::from_utf8(line).expect("UTF-8");
    assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
    // `RawValue` accepts numbers of any size.
    serde_json::from_str::<&RawValue>(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
}

fn answer(results: &EventResults, recorded: usize) {
    if let Some(refused) = results.problem() {
        refuse(&refused);
    }
    let answers: Vec<RecordResult> = (1..=recorded as u64)
        .map(|seq| if seq % 3 == 0 { RecordResult::Duplicate } else { RecordResult::Accepted(seq) })
        .collect();
    for stored in [StoreOutcome::DryRun, StoreOutcome::Stored(&answers, Ack::Disk, None)] {
        let mut receipt = Vec::new();
        results.write_receipt(stored, &mut receipt);
        serde_json::from_slice::<Value>(&receipt).expect("JSON");
    }
}

fn refuse(refused: &RejectedRequest<'_>) {
    assert!((400..500).contains(&refused.kind().status));
    let mut problem = Vec::new();
    refused.write_problem(Some("id"), &mut problem);
    let problem: Value = serde_json::from_slice(&problem).expect("JSON");
    assert_eq!(problem["code"], refused.kind().code);
}

/// Asserts that the payloads are sent events, in order, and none has the hash of a user ID. `has_users` says whether they
/// have their user IDs. Members that name the site and the IP address are not compared. The context is not compared if a
/// batch has one, because it is merged into its events.
fn assert_kept(sent: &Value, payloads: &[String], has_users: bool) {
    let batch = sent["batch"].as_array();
    let has_context = batch.is_some() && sent["context"].is_object();
    let mut events = batch.map_or(std::slice::from_ref(sent), Vec::as_slice).iter();
    for payload in payloads {
        let kept: Value = serde_json::from_str(payload).expect("JSON");
        let has_user = !kept["userId"].is_null() && kept["userId"] != "";
        assert!(kept["context"]["userHash"].is_null() && (has_users || !has_user), "{payload}");
        let kept = comparable(&kept, has_context, has_users);
        assert!(events.any(|event| comparable(event, has_context, has_users) == kept), "{payload}");
    }
}

fn comparable(event: &Value, without_context: bool, with_user: bool) -> Value {
    let mut event = event.clone();
    let Some(members) = event.as_object_mut() else { return event };
    members.retain(|name, _| match name.as_str() {
        "trackingId" | "writeKey" => false,
        "userId" => with_user,
        _ => true,
    });
    if without_context {
        members.remove("context");
    } else if let Some(Value::Object(context)) = members.get_mut("context") {
        context.remove("ip");
        context.remove("userHash");
    }
    event
}
