//! Unleash Edge, the closest product: decides flags for a user from what the request says of it.
//!
//! Its flags are the zones of the site of the goals with the same rules, the content of each its variant's payload; its user is
//! described by the request, as it remembers nobody.

use serde_json::{Value, json};

use super::{Place, START_MAX, StartError, arguments, free_address};
use crate::exchange::{Answer, ask};
use crate::process::Server;

const NAME: &str = "unleash-edge";
/// As the program does not say it.
const VERSION: &str = "19.15.1";
const INSTALL: &str = "cargo install unleash-edge@19.15.1 --locked";
/// Of the caller; the other is asked for at the start and opens nothing here.
const TOKEN: &str = "*:development.frontend";
const OTHER_TOKEN: &str = "*:development.backend";

/// Flags whose answer is as long as `bytes`, for requests that [`request`] makes.
pub fn start(place: &Place, request: &[u8], bytes: usize) -> Result<Server, StartError> {
    let bare = serve(place, request, 0)?.1;
    let (server, answer) = serve(place, request, bytes.saturating_sub(bare.bytes.len()))?;
    let text = String::from_utf8_lossy(answer.body());
    if text.matches(r#""enabled":true,"variant":{"name""#).count() == FLAGS {
        return Ok(server);
    }
    Err(StartError::Answer { name: NAME, why: format!("it says {text}") })
}

/// Zones with rules, and one without.
const FLAGS: usize = 4;

fn serve(place: &Place, request: &[u8], filler: usize) -> Result<(Server, Answer), StartError> {
    let program = place.find(NAME, INSTALL)?;
    let address = free_address()?;
    let file = place.write(NAME, "unleash-features.json", features(filler).to_string())?;
    let mut words =
        arguments(&["--workers", "1", "--interface", "127.0.0.1", "--port", &address.port().to_string()]);
    words.extend(arguments(&[
        "offline",
        "--client-tokens",
        OTHER_TOKEN,
        "--frontend-tokens",
        TOKEN,
        "--bootstrap-file",
    ]));
    words.push(file.into());
    let mut process = place.start(NAME, &program, &words)?;
    process.listens(address, START_MAX)?;
    let wrong = |error: std::io::Error| StartError::Answer { name: NAME, why: error.to_string() };
    let answer = ask(address, request).and_then(Answer::good).map_err(wrong)?;
    Ok((Server { name: NAME, version: VERSION.to_owned(), address, processes: vec![process] }, answer))
}

/// For a user who reads German, is in Sweden, and did not buy what others did.
pub fn request(user: &str) -> Vec<u8> {
    let known =
        "properties[locale]=de-DE&properties[country]=SE&properties[plan]=p7&properties[device]=desktop";
    format!(
        "GET /api/frontend?userId={user}&{known} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\nAuthorization: {TOKEN}\r\n\r\n"
    )
    .replace('[', "%5B")
    .replace(']', "%5D")
    .into_bytes()
}

fn features(filler: usize) -> Value {
    let page = "x".repeat(filler);
    json!({ "version": 2, "features": [
        flag("hero", &[
            rule(Some(("plan", "IN", json!(["p4"]))), &[("mobile", "")]),
            rule(Some(("locale", "STR_STARTS_WITH", json!(["de"]))), &[("de", "")]),
            rule(Some(("device", "IN", json!(["mobile"]))), &[("mobile", "")]),
        ]),
        flag("main", &[rule(None, &[("main", &page)])]),
        flag("aside", &[
            rule(Some(("country", "IN", json!(["NO", "SE", "DK", "FI", "IS"]))), &[("b", "")]),
            rule(None, &[("a", ""), ("b", "")]),
        ]),
        flag("foot", &[rule(None, &[("a", ""), ("b", "")])]),
    ] })
}

fn flag(name: &str, strategies: &[Value]) -> Value {
    json!({ "name": name, "type": "release", "enabled": true, "project": "default", "stale": false, "impressionData": false,
        "strategies": strategies, "variants": [] })
}

/// For everybody of whom the constraint holds, in even shares.
fn rule(constraint: Option<(&str, &str, Value)>, variants: &[(&str, &str)]) -> Value {
    let constraints: Vec<Value> = constraint
        .into_iter()
        .map(
            |(name, operator, values)| json!({ "contextName": name, "operator": operator, "values": values }),
        )
        .collect();
    let share = 1_000 / variants.len();
    let variants: Vec<Value> = variants
        .iter()
        .map(|(name, text)| {
            json!({ "name": name, "weight": share, "stickiness": "userId", "overrides": [],
                "payload": { "type": "string", "value": text } })
        })
        .collect();
    json!({ "name": "flexibleRollout", "constraints": constraints, "variants": variants,
        "parameters": { "rollout": "100", "stickiness": "userId", "groupId": "bench" } })
}
