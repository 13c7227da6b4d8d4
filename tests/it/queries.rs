//! Content queries: what they find, in which order, page by page, and how much a query may ask.
//!
//! In process, from the authored files to response bytes, so that thousands of collections are quick.

mod agreement;
mod bounds;
mod collections;
mod oracle;
mod order;
mod template;

use std::sync::{Arc, LazyLock};

use parallax::api::{Desk, Settings};
use parallax::http::request::{Parsed, parse};
use parallax::resolve::user_agent::Agents;
use parallax::site::catalog::catalog::{Catalog, Current};
use parallax::site::catalog::versions::Versions;
use parallax::site::snapshot::format::ArchivedQuery;
use parallax::site::snapshot::open::{Budget, Snapshot};
use serde_json::{Map, Value as Json, json};

use crate::harness::{LOCALHOST, arrival, snapshot};

static AGENTS: LazyLock<Arc<Agents>> = LazyLock::new(|| Arc::new(Agents::new()));

/// A published site `acme` and a desk that answers for it.
struct Published {
    snapshot: Arc<Snapshot>,
    desk: Desk,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: Json,
}

impl Published {
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
        std::io::Seek::rewind(&mut file).expect("it is a file");
        let opened = Snapshot::open_file(&mut file, bytes.len() as u64, &Budget::new(u64::MAX));
        let snapshot = Arc::new(opened.expect("what compile writes can be opened"));
        let current = Current::default();
        let versions = Versions::default().and(&snapshot);
        current.swap(Catalog::new(std::iter::once((Arc::clone(&snapshot), versions))));
        let settings = Settings::default();
        let desk = Desk::new(settings, &current, Arc::clone(&AGENTS));
        Self { snapshot, desk }
    }

    /// A query as it was compiled.
    fn query(&self, key: &str) -> &ArchivedQuery {
        self.snapshot.site().queries.iter().find(|query| query.key == *key).expect("a query of this name")
    }

    /// Asks by POST; `members` stand beside the site and the query.
    fn post(&mut self, query: &str, members: Json) -> Answer {
        let mut body = json!({ "site": "acme", "query": query });
        body.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        let body = body.to_string();
        let length = body.len();
        self.answer(&format!("POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"))
    }

    /// Asks by GET for the same that [`Self::post`] would.
    fn get(&mut self, query: &str, members: &Json) -> Answer {
        let mut target = format!("/v1/query?site=acme&query={query}");
        for (name, value) in members.as_object().expect("an object") {
            match value {
                Json::Null => {}
                Json::Object(params) => target
                    .extend(params.iter().map(|(name, value)| format!("&params.{name}={}", escaped(value)))),
                value => target.push_str(&format!("&{name}={}", escaped(value))),
            }
        }
        self.answer(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    fn answer(&mut self, request: &str) -> Answer {
        let mut out = Vec::new();
        match parse(request.as_bytes(), None) {
            Parsed::Whole(mut head, bytes) => {
                head.content = &request.as_bytes()[bytes..];
                self.desk.answer(&head, &arrival(LOCALHOST), &mut out);
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
    /// Status and code of a refusal.
    fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }

    fn ids(&self) -> Vec<&str> {
        let items = self.body["items"].as_array().unwrap_or_else(|| panic!("no items: {self:?}"));
        items.iter().map(|item| item["id"].as_str().expect("an id")).collect()
    }
}

/// A value as it stands in a URL.
fn escaped(value: &Json) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn item(id: &str, fields: Json) -> Json {
    json!({ "id": id, "type": "t", "fields": fields })
}

fn object(members: impl IntoIterator<Item = (String, Json)>) -> Json {
    Json::Object(members.into_iter().collect::<Map<_, _>>())
}
