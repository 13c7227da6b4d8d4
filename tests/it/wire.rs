//! Tests of the HTTP interface, byte by byte, on the public address and the admin address.
//!
//! Sites are compiled in memory. The tests of one topic share a server.

mod audiences;
mod audit;
mod basics;
mod browser_script;
mod combinations;
mod console;
mod context;
mod cors;
mod each;
mod embedding;
mod events;
mod experiments;
mod explain;
mod exposures;
mod fields;
mod forced;
mod gzip;
mod histories;
mod items;
mod journeys;
mod known;
mod library_settings;
mod listing;
mod naming;
mod operator;
mod overrides;
mod owners;
mod parsing;
mod past;
mod paths;
mod publications;
mod query;
mod records;
mod redirects;
mod refused;
mod rules;
mod signed_users;
mod site_settings;
mod sites;
mod slow;
mod spelling;
mod unpersonalized;
mod user_ids;
mod validators;
mod zones;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use crate::harness::{Response, Server, snapshot};

/// A server that tests share while any of them runs, so that a topic costs about one server start.
///
/// The thread of each test that asked for the server holds it until the thread ends, so no process outlives
/// the tests.
struct SharedServer {
    running: Mutex<Weak<Server>>,
    start: fn() -> Server,
}

impl SharedServer {
    const fn new(start: fn() -> Server) -> Self {
        Self { running: Mutex::new(Weak::new()), start }
    }

    fn get(&self) -> Arc<Server> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let server = running.upgrade().unwrap_or_else(|| Arc::new((self.start)()));
        *running = Arc::downgrade(&server);
        HELD_SERVERS.with_borrow_mut(|servers| {
            if !servers.iter().any(|other| Arc::ptr_eq(other, &server)) {
                servers.push(Arc::clone(&server));
            }
        });
        server
    }
}

thread_local! {
    static HELD_SERVERS: RefCell<Vec<Arc<Server>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the `site.json` of site `id` with the members of `more` added.
fn site_file(id: &str, more: Value) -> String {
    let mut site = json!({ "site": id, "trackingId": format!("track_{id}"), "name": id });
    let more = more.as_object().expect("an object").clone();
    site.as_object_mut().expect("an object").extend(more);
    site.to_string()
}

/// Compiles the snapshot of a site with this `site.json` and these route files.
fn compile_site(site: &str, routes: &[String], version: u64) -> Vec<u8> {
    let names: Vec<String> = (0..routes.len()).map(|i| format!("routes/{i}.json")).collect();
    let mut files = vec![("site.json", site)];
    files.extend(names.iter().map(String::as_str).zip(routes.iter().map(String::as_str)));
    snapshot(&files, version)
}

/// Compiles version 1 of the site `acme` with these route files.
fn acme_snapshot(routes: &[String]) -> Vec<u8> {
    compile_site(&site_file("acme", json!({})), routes, 1)
}

/// Starts a server for the site `acme` with these route files.
fn start_server(routes: &[String]) -> Server {
    Server::start(&[("acme.snapshot", &acme_snapshot(routes))], &[])
}

/// Returns a route file in which `path` has a layout with these zones.
fn page(path: &str, zones: Value) -> String {
    json!({ "path": path, "layout": { "root": { "props": {} }, "zones": zones } }).to_string()
}

/// Returns a route file in which `path` redirects to `to`.
fn redirect(path: &str, to: &str, status: u16) -> String {
    json!({ "path": path, "redirect": { "to": to, "status": status } }).to_string()
}

/// Returns a personalized zone. Each variant contains one node with the key of the variant as its ID.
fn zone(variants: &[&str], rules: Value) -> Value {
    let nodes = variants.iter().map(|key| ((*key).to_owned(), json!([node(key)])));
    json!({
        "default": [node("default")],
        "variants": nodes.collect::<serde_json::Map<_, _>>(),
        "rules": rules,
    })
}

fn node(id: &str) -> Value {
    json!({ "id": id, "type": "Text", "props": {} })
}

/// Percent-encodes every byte of `text` except unreserved characters (RFC 3986, section 2.3).
fn percent_encode(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Returns the target that resolves `route` of acme, percent-encoded, followed by the parameters in `more`.
fn resolve_target(route: &str, more: &str) -> String {
    format!("/v1/resolve?site=acme&route={}{more}", percent_encode(route))
}

/// Removes the fields that differ on each request, `Date` and `X-Request-Id`.
fn comparable(mut response: Response) -> Response {
    response.fields.retain(|(name, _)| name != "date" && name != "x-request-id");
    response
}

/// Returns the status and the code of a problem.
fn problem(response: &Response) -> (u16, String) {
    (response.status, response.code())
}
