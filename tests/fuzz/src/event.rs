//! Whatever a body holds, its events are recorded, dropped or refused, and what is recorded is what was sent.

use std::net::{IpAddr, Ipv4Addr};

use parallax::resolve::path::RoutePath;
use parallax::visitors::events::decode::{Bots, Call, Judge, Outside, Policy, Sent};
use parallax::visitors::events::document::Reader;
use parallax::visitors::events::endpoint::{Endpoint, PATHS};
use parallax::visitors::events::export;
use parallax::visitors::events::ip::IpPolicy;
use parallax::visitors::events::receipt::{Answer, Durable, Fates, Refused, Stored};
use parallax::visitors::events::refusal::Refusal;
use parallax::visitors::log::{Record, Request};
use serde_json::Value;
use serde_json::value::RawValue;

/// 2026-01-05T10:00:00Z.
const RECEIVED_MS: i64 = 1_767_607_200_000;

/// Routes as the server writes them, one crawler, one message ID.
struct World(RoutePath);

impl Outside for World {
    fn is_crawler(&mut self, user_agent: &str) -> bool {
        user_agent.contains("bot")
    }

    fn page_path(&mut self, value: &str) -> Option<&str> {
        self.0.read(value).ok()?;
        Some(self.0.text())
    }

    fn mint(&mut self) -> [u8; 16] {
        *b"0123456789abcdef"
    }
}

/// The first byte says where the others are posted to, and how: in what is left of it by the number of paths, bit 0 is the IP
/// policy, bit 1 a crawler's fate, bit 2 an anon ID beside the body.
pub fn event(bytes: &[u8]) {
    let Some((how, body)) = bytes.split_first() else { return };
    let Ok(body) = std::str::from_utf8(body) else { return };
    let (endpoint, how) = (PATHS[usize::from(*how) % PATHS.len()].1, usize::from(*how) / PATHS.len());
    let mut payloads = Vec::new();
    match judge(endpoint, how, body, &mut payloads) {
        Ok(fates) => answer(&fates, payloads.len()),
        Err(refusal) => refuse(&Refused::Event(&refusal)),
    }
    if let Ok(sent) = serde_json::from_str::<Value>(body) {
        assert_kept(&sent, &payloads);
    }
}

/// The payloads of what is recorded are added to `payloads`.
fn judge(endpoint: Endpoint, how: usize, body: &str, payloads: &mut Vec<String>) -> Result<Fates, Refusal> {
    let mut reader = Reader::new();
    let document = reader.read(body)?;
    let sent = Sent::of(&document, endpoint)?;
    let call = Call {
        site: "acme",
        tracking_id: "track_acme",
        policy: Policy {
            bots: [Bots::Flag, Bots::Drop][how >> 1 & 1],
            honor_gpc: false,
            ip: [IpPolicy::None, IpPolicy::Full][how & 1],
        },
        received_ms: RECEIVED_MS,
        preview: false,
        gpc: false,
        referer: Some("https://a.example/b?c"),
        user_agent: None,
        anon_id: (how >> 2 & 1 == 1).then_some("visitor"),
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    sent.check_site(&call)?;
    let mut records = Request::new(0);
    let mut pushed = 0;
    let fates =
        Judge::default().judge(&sent, &call, &mut World(RoutePath::new()), Fates::default(), |record| {
            round_trip(record);
            payloads.push(record.payload.to_owned());
            pushed += usize::from(records.push(record).is_ok());
        });
    assert_eq!(fates.recorded(), payloads.len());
    assert_eq!(records.records().count(), pushed);
    assert!(records.records().zip(&*payloads).all(|(record, payload)| record.payload == payload));
    Ok(fates)
}

/// What the log keeps of a record is the record, and an export of it one line of JSON.
fn round_trip(record: &Record<'_>) {
    let mut bytes = Vec::new();
    // With a batch's context under it a record may be too large, though it is checked once more when it is pushed.
    if record.encode(&mut bytes).is_ok() {
        assert_eq!(Record::decode(&bytes), Some((*record, bytes.len())));
    }
    let mut line = Vec::new();
    export::line(&mut line, u64::MAX, record);
    let line = String::from_utf8(line).expect("UTF-8");
    assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
    // No number is too large for it.
    serde_json::from_str::<&RawValue>(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
}

fn answer(fates: &Fates, recorded: usize) {
    if let Some(refused) = fates.problem() {
        refuse(&refused);
    }
    let answers: Vec<Answer> = (1..=recorded as u64)
        .map(|seq| if seq % 3 == 0 { Answer::Duplicate } else { Answer::Accepted(seq) })
        .collect();
    for stored in [Stored::Nothing, Stored::Answered(&answers, Durable::Disk)] {
        let mut receipt = Vec::new();
        fates.receipt(stored, &mut receipt);
        serde_json::from_slice::<Value>(&receipt).expect("JSON");
    }
}

fn refuse(refused: &Refused<'_>) {
    assert!((400..500).contains(&refused.kind().status));
    let mut problem = Vec::new();
    refused.write(Some("id"), &mut problem);
    let problem: Value = serde_json::from_slice(&problem).expect("JSON");
    assert_eq!(problem["code"], refused.kind().code);
}

/// Each payload is one of the events that were sent, in order, but for what names the site and the address. A batch's context
/// has come under that of its events.
fn assert_kept(sent: &Value, payloads: &[String]) {
    let batch = sent["batch"].as_array();
    let has_context = batch.is_some() && sent["context"].is_object();
    let mut events = batch.map_or(std::slice::from_ref(sent), Vec::as_slice).iter();
    for payload in payloads {
        let kept: Value = serde_json::from_str(payload).expect("JSON");
        let kept = comparable(&kept, has_context);
        assert!(events.any(|event| comparable(event, has_context) == kept), "{payload}");
    }
}

fn comparable(event: &Value, without_context: bool) -> Value {
    let mut event = event.clone();
    let Some(members) = event.as_object_mut() else { return event };
    members.retain(|name, _| !matches!(name.as_str(), "trackingId" | "writeKey"));
    if without_context {
        members.remove("context");
    } else if let Some(Value::Object(context)) = members.get_mut("context") {
        context.remove("ip");
    }
    event
}
