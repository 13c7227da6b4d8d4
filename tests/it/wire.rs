//! Edge and the operator's address on the wire, against the interface: what is asked and what is
//! answered, byte by byte. Sites are compiled in memory; the tests of a theme share one server.

mod basics;
mod combinations;
mod context;
mod cors;
mod each;
mod embedding;
mod events;
mod experiments;
mod explain;
mod fields;
mod forced;
mod gzip;
mod known;
mod listing;
mod naming;
mod operator;
mod parsing;
mod paths;
mod query;
mod slow;
mod validators;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use crate::harness::{Response, Server, snapshot};

/// A server that tests share while any of them runs, so that a theme costs about one start, and
/// no process outlives the tests: who asked for it, a test's thread, holds it until its end.
struct Shared {
    running: Mutex<Weak<Server>>,
    start: fn() -> Server,
}

impl Shared {
    const fn new(start: fn() -> Server) -> Self {
        Self { running: Mutex::new(Weak::new()), start }
    }

    fn get(&self) -> Arc<Server> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let server = running.upgrade().unwrap_or_else(|| Arc::new((self.start)()));
        *running = Arc::downgrade(&server);
        HELD.with_borrow_mut(|held| {
            if !held.iter().any(|other| Arc::ptr_eq(other, &server)) {
                held.push(Arc::clone(&server));
            }
        });
        server
    }
}

thread_local! {
    static HELD: RefCell<Vec<Arc<Server>>> = const { RefCell::new(Vec::new()) };
}

/// The `site.json` of site `id` with `more` members.
fn site_file(id: &str, more: Value) -> String {
    let mut site = json!({ "site": id, "trackingId": format!("track_{id}"), "name": id });
    let more = more.as_object().expect("an object").clone();
    site.as_object_mut().expect("an object").extend(more);
    site.to_string()
}

/// The snapshot of a site with this `site.json` and these route files.
fn compiled(site: &str, routes: &[String], version: u64) -> Vec<u8> {
    let names: Vec<String> = (0..routes.len()).map(|i| format!("routes/{i}.json")).collect();
    let mut files = vec![("site.json", site)];
    files.extend(names.iter().map(String::as_str).zip(routes.iter().map(String::as_str)));
    snapshot(&files, version)
}

/// The snapshot of site `acme`, as version 1.
fn acme(routes: &[String]) -> Vec<u8> {
    compiled(&site_file("acme", json!({})), routes, 1)
}

/// A server of site `acme` with these routes.
fn serving(routes: &[String]) -> Server {
    Server::start(&[("acme.snapshot", &acme(routes))], &[])
}

/// A route file: `path` shows these zones.
fn page(path: &str, zones: Value) -> String {
    json!({ "path": path, "layout": { "root": { "props": {} }, "zones": zones } }).to_string()
}

/// A route file: `path` leads to `to`.
fn redirect(path: &str, to: &str, status: u16) -> String {
    json!({ "path": path, "redirect": { "to": to, "status": status } }).to_string()
}

/// A personalized zone whose variants hold a node named like them.
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

/// `text` with everything escaped that is not unreserved.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// The target that resolves `route` of acme, escaped as a form would, with `more` parameters.
fn resolve(route: &str, more: &str) -> String {
    format!("/v1/resolve?site=acme&route={}{more}", escaped(route))
}

/// The answer without what differs from request to request.
fn lasting(mut response: Response) -> Response {
    response.fields.retain(|(name, _)| name != "date" && name != "x-request-id");
    response
}

/// Status and code of a problem.
fn problem(response: &Response) -> (u16, String) {
    (response.status, response.code())
}
