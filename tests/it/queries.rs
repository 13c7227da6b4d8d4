//! Content queries: found items, their order, pages, and the cost limits.
//!
//! The tests run in process, from the authored files to response bytes, so that thousands of collections are
//! quick.

mod agreement;
mod bounds;
mod collections;
mod oracle;
mod order;
mod template;

use std::sync::{Arc, LazyLock};

use parallax::testing::api::{Handler, Service, Settings};
use parallax::testing::http::request::{ParseOutcome, parse};
use parallax::testing::resolve::user_agent::UserAgentParser;
use parallax::testing::site::catalog::catalog::{Catalog, CurrentCatalog};
use parallax::testing::site::catalog::versions::Versions;
use parallax::testing::site::snapshot::format::ArchivedQuery;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use serde_json::{Map, Value as Json, json};

use crate::harness::{LOCALHOST, request_meta, snapshot};

static AGENTS: LazyLock<Arc<UserAgentParser>> = LazyLock::new(|| Arc::new(UserAgentParser::new()));

/// A published site `acme` and a handler that serves it.
struct PublishedSite {
    snapshot: Arc<Snapshot>,
    handler: Handler,
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: Json,
}

impl PublishedSite {
    /// Publishes `queries` over the collection `c`.
    fn new(items: &Json, queries: &Json) -> Self {
        let about = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
        let (items, queries) = (items.to_string(), queries.to_string());
        Self::of(&[("site.json", about), ("content/c.json", &items), ("queries.json", &queries)])
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let bytes = snapshot(files, 1);
        std::io::Write::write_all(&mut file, &bytes).expect("written");
        std::io::Seek::rewind(&mut file).expect("rewinding works");
        let opened = Snapshot::open_file(&mut file, bytes.len() as u64, &SnapshotBudget::new(u64::MAX));
        let snapshot = Arc::new(opened.expect("a compiled snapshot opens"));
        let current = CurrentCatalog::default();
        let versions = Versions::default().with_snapshot(&snapshot);
        current.swap(Catalog::new(std::iter::once((Arc::clone(&snapshot), versions))));
        let settings = Settings::default();
        let handler = Handler::new(settings, &current, Arc::clone(&AGENTS));
        Self { snapshot, handler }
    }

    /// Returns a query as it was compiled.
    fn query(&self, key: &str) -> &ArchivedQuery {
        self.snapshot.site().queries.iter().find(|query| query.key == *key).expect("a query of this name")
    }

    /// Sends a POST. `members` are added to the site and the query.
    fn post(&mut self, query: &str, members: Json) -> Answer {
        let mut body = json!({ "site": "acme", "query": query });
        body.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        let body = body.to_string();
        let length = body.len();
        self.answer(&format!("POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"))
    }

    /// Sends a GET that is equivalent to [`Self::post`].
    fn get(&mut self, query: &str, members: &Json) -> Answer {
        let mut target = format!("/v1/query?site=acme&query={query}");
        for (name, value) in members.as_object().expect("an object") {
            match value {
                Json::Null => {}
                Json::Object(params) => target.extend(
                    params.iter().map(|(name, value)| format!("&params.{name}={}", percent_encoded(value))),
                ),
                value => target.push_str(&format!("&{name}={}", percent_encoded(value))),
            }
        }
        self.answer(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    fn answer(&mut self, request: &str) -> Answer {
        let mut out = Vec::new();
        match parse(request.as_bytes(), None) {
            ParseOutcome::Complete(mut head, bytes) => {
                head.body = &request.as_bytes()[bytes..];
                self.handler.handle(&head, &request_meta(LOCALHOST), &mut out);
            }
            other => panic!("{other:?} of {request}"),
        }
        let text = String::from_utf8(out).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("a status");
        Answer { status, body: serde_json::from_str(body).expect("JSON") }
    }
}

impl Answer {
    /// Returns the status and the code of a problem.
    fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }

    fn ids(&self) -> Vec<&str> {
        let items = self.body["items"].as_array().unwrap_or_else(|| panic!("no items: {self:?}"));
        items.iter().map(|item| item["id"].as_str().expect("an ID")).collect()
    }
}

/// Percent-encodes every byte of a value. `null` is an empty text.
fn percent_encoded(value: &Json) -> String {
    if value.is_null() {
        return String::new();
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn item(id: &str, fields: Json) -> Json {
    json!({ "id": id, "type": "t", "fields": fields })
}

fn object(members: impl IntoIterator<Item = (String, Json)>) -> Json {
    Json::Object(members.into_iter().collect::<Map<_, _>>())
}
