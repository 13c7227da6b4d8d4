//! What was sent becomes records: every member, every refusal, every bound of section 10 of the interface.

mod bounds;
mod context;
mod examples;
mod json;
mod kinds;
mod pages;
mod receipts;
mod refusals;
mod times;
mod tree;
mod visitors;

use std::net::{IpAddr, Ipv4Addr};

use parallax::problem;
use parallax::resolve::path::RoutePath;
use parallax::visitors::events::decode::{Call, Judge, Outside, Policy, Sent};
use parallax::visitors::events::document::Reader;
use parallax::visitors::events::endpoint::Endpoint;
use parallax::visitors::events::export;
use parallax::visitors::events::receipt::{Answer, Durable, Fates, Refused, Stored};
use parallax::visitors::events::refusal::{Came, Refusal};
use proptest::prelude::ProptestConfig;
use serde_json::{Value, json};

use self::tree::Tree;
use crate::harness::times;

/// 2026-01-05T10:00:00Z.
const NOW_MS: i64 = 1_767_607_200_000;

/// A call to a site with the default policy.
const CALL: Call<'static> = Call {
    site: "acme",
    tracking_id: "track_acme",
    policy: Policy {
        bots: parallax::visitors::events::decode::Bots::Flag,
        honor_gpc: false,
        ip: parallax::visitors::events::ip::IpPolicy::None,
    },
    received_ms: NOW_MS,
    preview: false,
    gpc: false,
    referer: None,
    user_agent: None,
    anon_id: None,
    peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77)),
};

/// Routes as the server writes them, one crawler, and counted message IDs.
struct World {
    path: RoutePath,
    minted: u64,
}

impl Outside for World {
    fn is_crawler(&mut self, user_agent: &str) -> bool {
        user_agent.contains("Googlebot")
    }

    fn page_path(&mut self, value: &str) -> Option<&str> {
        self.path.read(value).ok()?;
        Some(self.path.text())
    }

    fn mint(&mut self) -> [u8; 16] {
        self.minted += 1;
        format!("{:016x}", self.minted).into_bytes().try_into().expect("16 digits")
    }
}

/// What became of a body.
struct Outcome {
    fates: Result<Fates, Refusal>,
    /// Exported lines, in order.
    lines: Vec<String>,
    duplicate_keys: Vec<u128>,
    surrogates: usize,
    tracking_id: Option<String>,
    site: Option<String>,
}

fn post(path: &str, body: impl AsRef<[u8]>) -> Outcome {
    post_as(&CALL, path, body)
}

fn post_as(call: &Call<'_>, path: &str, body: impl AsRef<[u8]>) -> Outcome {
    Server::new().post(call, path, body.as_ref())
}

/// What serves one request after the other.
struct Server {
    reader: Reader,
    judge: Judge,
    world: World,
}

impl Server {
    fn new() -> Self {
        let world = World { path: RoutePath::new(), minted: 0 };
        Self { reader: Reader::new(), judge: Judge::default(), world }
    }

    fn post(&mut self, call: &Call<'_>, path: &str, body: &[u8]) -> Outcome {
        let endpoint = Endpoint::at(path).expect("an event endpoint");
        let mut outcome = Outcome {
            fates: Ok(Fates::default()),
            lines: Vec::new(),
            duplicate_keys: Vec::new(),
            surrogates: 0,
            tracking_id: None,
            site: None,
        };
        outcome.fates = match std::str::from_utf8(body) {
            Ok(text) => self.decode(call, endpoint, text, &mut outcome),
            // As a request's body is refused before it is read.
            Err(_) => {
                let (expected, came) = ("a JSON object in UTF-8", Came::Nothing);
                Err(Refusal { kind: problem::MALFORMED_JSON, pointer: None, expected, came })
            }
        };
        outcome
    }

    fn decode(
        &mut self,
        call: &Call<'_>,
        endpoint: Endpoint,
        body: &str,
        outcome: &mut Outcome,
    ) -> Result<Fates, Refusal> {
        let document = self.reader.read(body)?;
        outcome.surrogates = document.surrogates_mended();
        let sent = Sent::of(&document, endpoint)?;
        outcome.tracking_id = sent.address.tracking_id.map(str::to_owned);
        outcome.site = sent.address.site.map(str::to_owned);
        let Outcome { lines, duplicate_keys, .. } = outcome;
        Ok(self.judge.judge(&sent, call, &mut self.world, Fates::default(), |record| {
            let mut line = Vec::new();
            export::line(&mut line, 1, record);
            lines.push(String::from_utf8(line).expect("UTF-8"));
            duplicate_keys.push(record.key);
        }))
    }
}

impl Outcome {
    /// The exported lines as JSON.
    fn records(&self) -> Vec<Value> {
        self.lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The one record.
    fn record(&self) -> Value {
        assert_eq!(self.lines.len(), 1, "{:?}", self.fates);
        self.records().remove(0)
    }

    /// The payload of the record `index`, numbers as they were sent.
    fn payload(&self, index: usize) -> Tree {
        match Tree::read(&self.lines[index]) {
            Tree::Object(mut members) => members.remove("payload").expect("a payload"),
            other => panic!("{other:?}"),
        }
    }

    /// The problem that refuses the body.
    fn problem(&self) -> Value {
        let refused = match &self.fates {
            Ok(fates) => fates.problem().unwrap_or_else(|| panic!("taken: {:?}", self.lines)),
            Err(refusal) => Refused::Event(refusal),
        };
        let mut out = Vec::new();
        refused.write(None, &mut out);
        serde_json::from_slice(&out).expect("JSON")
    }

    fn code(&self) -> String {
        self.problem()["code"].as_str().expect("a code").to_owned()
    }

    /// The receipt, where every record was accepted, from 1 on.
    fn receipt(&self) -> Value {
        let fates = self.fates.as_ref().expect("a body that is understood");
        let answers: Vec<Answer> = (1..=fates.recorded() as u64).map(Answer::Accepted).collect();
        receipt(fates, Stored::Answered(&answers, Durable::Disk))
    }
}

fn receipt(fates: &Fates, stored: Stored<'_>) -> Value {
    let mut out = Vec::new();
    fates.receipt(stored, &mut out);
    serde_json::from_slice(&out).expect("JSON")
}

/// So many cases; a hundred times as many with `PARALLAX_LONG=1`.
fn cases(quick: u32) -> ProptestConfig {
    let cases = times(quick as usize, 100 * quick as usize) as u32;
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A track event with these members more.
fn track(members: Value) -> String {
    let mut event = json!({"anonId": "v1", "event": "Viewed"});
    merge(&mut event, members);
    event.to_string()
}

/// A page event with these members more.
fn page(members: Value) -> String {
    let mut event = json!({"anonId": "v1"});
    merge(&mut event, members);
    event.to_string()
}

fn merge(event: &mut Value, members: Value) {
    let members = members.as_object().expect("members").clone();
    event.as_object_mut().expect("an object").extend(members);
}
