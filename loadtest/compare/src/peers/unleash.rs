//! Unleash Edge, the most similar product: it decides feature flags for a user from the request's properties.
//!
//! Its flags correspond to the zones of the benchmark site, with the same rules and with a variant's content
//! as payload. The request describes the user, because Unleash Edge stores no users.

use loadtest::exchange::{Response, ask};
use loadtest::process::Server;
use loadtest::servers::{StartError, arguments};
use serde_json::{Value, json};

use super::{PeerContext, PeerError, free_address, wait_until_listening};

const NAME: &str = "unleash-edge";
/// Version of the program, which does not print it.
const VERSION: &str = "19.15.1";
const INSTALL: &str = "cargo install unleash-edge@19.15.1 --locked";
/// Token of the requests. The other token is only needed to start the server.
const TOKEN: &str = "*:development.frontend";
const CLIENT_TOKEN: &str = "*:development.backend";

/// Starts a server whose response has about `bytes` bytes, for requests made by [`request`].
pub fn start(context: &PeerContext, request: &[u8], bytes: usize) -> Result<Server, PeerError> {
    let unpadded = serve(context, request, 0)?.1;
    let (server, response) = serve(context, request, bytes.saturating_sub(unpadded.bytes.len()))?;
    let text = String::from_utf8_lossy(response.body());
    if text.matches(r#""enabled":true,"variant":{"name""#).count() == FLAGS {
        return Ok(server);
    }
    Err(StartError::Failed { name: NAME, reason: format!("unexpected flags: {text}") }.into())
}

/// Number of flags: three zones with rules, and one without.
const FLAGS: usize = 4;

fn serve(context: &PeerContext, request: &[u8], filler: usize) -> Result<(Server, Response), PeerError> {
    let program = context.find(NAME, INSTALL)?;
    let address = free_address()?;
    let file = context.launch.write(NAME, "unleash-features.json", features(filler).to_string())?;
    let mut words =
        arguments(&["--workers", "1", "--interface", "127.0.0.1", "--port", &address.port().to_string()]);
    words.extend(arguments(&[
        "offline",
        "--client-tokens",
        CLIENT_TOKEN,
        "--frontend-tokens",
        TOKEN,
        "--bootstrap-file",
    ]));
    words.push(file.into());
    let mut process = context.launch.start(NAME, &program, &words)?;
    wait_until_listening(&mut process, address)?;
    let wrong = |error: std::io::Error| StartError::Failed { name: NAME, reason: error.to_string() };
    let response = ask(address, request).and_then(Response::require_ok).map_err(wrong)?;
    Ok((Server { name: NAME, version: VERSION.to_owned(), address, processes: vec![process] }, response))
}

/// Returns a request for a user who reads German, is in Sweden, and has plan `p7`.
pub fn request(user: &str) -> Vec<u8> {
    let properties =
        "properties[locale]=de-DE&properties[country]=SE&properties[plan]=p7&properties[device]=desktop";
    format!(
        "GET /api/frontend?userId={user}&{properties} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\nAuthorization: {TOKEN}\r\n\r\n"
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

/// Returns a strategy for all users who meet the constraint, with an equal share for each variant.
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
