//! Responses of running servers match the description.

use serde_json::{Value, json};

use super::Description;
use crate::harness::{Client, Response, Server, cases, example_site, snapshot};

/// A server and its OpenAPI description.
struct DescribedServer {
    server: Server,
    description: Description,
}

impl DescribedServer {
    fn new(server: Server) -> Self {
        let description = Description::of(&server);
        Self { server, description }
    }

    /// Sends a GET and a HEAD to Edge and checks both responses against the description.
    #[track_caller]
    fn get_with(&self, target: &str, fields: &[(&str, &str)], status: u16) -> Response {
        let head = Client::to(self.server.edge).request("HEAD", target, fields);
        self.description.assert_described("HEAD", target, &head);
        let response = self.server.get_with(target, fields);
        assert_eq!((response.status, head.status), (status, status), "{target}: {}", response.text());
        self.description.assert_described("GET", target, &response);
        response
    }

    #[track_caller]
    fn get(&self, target: &str) -> Response {
        self.get_with(target, &[], 200)
    }

    #[track_caller]
    fn post(&self, body: Value) -> Response {
        let response =
            self.server.post("/v1/query", &[("Origin", "https://a.example")], body.to_string().as_bytes());
        assert_eq!(response.status, 200, "{body}: {}", response.text());
        self.description.assert_described("POST", "/v1/query", &response);
        response
    }

    /// Requests an explanation from the admin address.
    #[track_caller]
    fn explain(&self, target: &str) -> Value {
        let target = format!("{target}&explain=1");
        let response = self.server.admin_get(&target);
        assert_eq!(response.status, 200, "{target}: {}", response.text());
        self.description.assert_described("GET", &target, &response);
        response.json()
    }

    /// Requests every page of a list. Returns the number of pages.
    fn pages(&self, target: &str) -> usize {
        let (mut cursor, mut pages) = (String::new(), 0);
        loop {
            let page = self.get(&format!("{target}{cursor}")).json();
            pages += 1;
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return pages,
            }
        }
    }

    /// Requests every route of a site, with all combinations of parameters.
    fn every_route(&self, site: &str) {
        let list = self.get(&format!("/v1/routes?{site}&include=variants")).json();
        for route in list["routes"].as_array().expect("routes") {
            let path = route["path"].as_str().expect("a path").replace([':', '*'], "x");
            let target = format!("{site}&route={path}");
            for variants in route["variants"].as_array().expect("variants").iter().take(8) {
                self.get(&format!("/v1/resolve?{target}&variants={}", variants.as_str().expect("text")));
            }
            self.get(&format!("/v1/variants?{target}&include=combinations"));
            for visitor in
                ["&anonId=v1&locale=de", "&country=NO&userAgent=Googlebot", "&url=/?utm_source=letter"]
            {
                self.get(&format!("/v1/resolve?{target}{visitor}"));
                self.get(&format!("/v1/variants?{target}{visitor}"));
                self.explain(&format!("/v1/resolve?{target}{visitor}"));
                self.explain(&format!("/v1/variants?{target}{visitor}"));
            }
            self.explain(&format!("/v1/resolve?{target}&variants="));
        }
        for redirect in list["redirects"].as_array().expect("redirects") {
            let target = format!("{site}&route={}", redirect["from"].as_str().expect("a path"));
            for more in ["", "&variants=", "&anonId=v1"] {
                self.get(&format!("/v1/resolve?{target}{more}"));
            }
            self.get(&format!("/v1/variants?{target}"));
            self.get(&format!("/v1/variants?{target}&include=combinations"));
            self.explain(&format!("/v1/variants?{target}"));
        }
    }
}

#[test]
fn the_demo_answers_as_described() {
    let demo = DescribedServer::new(Server::demo());
    demo.every_route("trackingId=track_demo");
    for list in
        ["&prefix=/magazine", "&since=1", "&since=7", "&since=0&include=variants&limit=3", "&limit=10000"]
    {
        demo.get(&format!("/v1/routes?site=fjell{list}"));
    }
    assert!(demo.pages("/v1/routes?site=fjell&limit=7") > 10);
    assert!(demo.pages("/v1/query?site=fjell&query=products&limit=3") > 3);
    for query in [
        "latest-articles&params.section=workshop&section=workshop",
        "light&params.grams=900.5",
        "stores-in&params.country=NO",
    ] {
        demo.get(&format!("/v1/query?trackingId=track_demo&query={query}"));
    }
    let body = json!({ "trackingId": "track_demo", "query": "products", "params": { "inStock": true, "maxPrice": 3e9 },
        "limit": 1 });
    let next = demo.post(body.clone()).json()["nextCursor"].clone();
    assert!(next.is_string());
    let mut body = body;
    body["cursor"] = next;
    demo.post(body);
    demo.post(
        json!({ "site": "fjell", "trackingId": null, "query": "featured", "params": null, "cursor": "" }),
    );
}

#[test]
fn the_header_fields_of_every_endpoint_are_as_described() {
    let demo = DescribedServer::new(Server::demo());
    let fields = [
        ("Origin", "https://a.example"),
        ("Accept-Encoding", "identity"),
        ("X-Request-Id", "mine"),
        ("X-Debug-Timing", "1"),
    ];
    for target in [
        "/v1/resolve?site=fjell&route=/",
        "/v1/resolve?site=fjell&route=/&variants=",
        "/v1/resolve?site=fjell&route=/&variants=hero:nope,nope:x",
        "/v1/variants?site=fjell&route=/",
        "/v1/variants?site=fjell&route=/&include=combinations",
        "/v1/routes?site=fjell",
        "/v1/routes?site=fjell&since=7&wait=1",
        "/v1/site?site=fjell",
        "/v1/query?site=fjell&query=products",
        "/v1/openapi.json",
        "/v1/parallax.js",
        "/v1/parallax.js?h=0",
        "/v1/problems/missing_route",
    ] {
        demo.get_with(target, &fields, 200);
        let unchanged = demo.get_with(target, &[("If-None-Match", "*")], 304);
        assert!(unchanged.field("etag").is_some(), "{target}");
    }
}

#[test]
fn receipts_are_as_described() {
    let demo = DescribedServer::new(Server::demo());
    let ask = |target: &str, fields: &[(&str, &str)], body: Value, status: u16| {
        let response = demo.server.post(target, fields, body.to_string().as_bytes());
        assert_eq!(response.status, status, "{body}: {}", response.text());
        demo.description.assert_described("POST", target, &response);
        response
    };
    demo.get_with("/v1/projects/track_demo/settings", &[("Origin", "https://a.example")], 200);
    demo.get_with("/v1/health?events=1", &[], 200);
    let event = json!({ "anonId": "v1", "event": "e", "messageId": "m1" });
    let fields = [("Origin", "https://a.example"), ("X-Request-Id", "mine"), ("X-Debug-Timing", "1")];
    ask("/v1/track?site=fjell", &fields, event.clone(), 200);
    ask("/v1/track?site=fjell", &[], event.clone(), 200);
    ask("/v1/track?site=fjell&dryRun=1", &fields, event.clone(), 200);
    ask("/v1/track?site=fjell", &[("Prefer", "return=minimal"), fields[0], fields[2]], event.clone(), 204);
    let dropped = ask("/v1/track?site=fjell", &[("X-Preview", "1")], event.clone(), 200);
    assert_eq!(dropped.field("x-dropped"), Some("preview"));
    for path in ["/v1/page", "/v1/track", "/v1/batch"] {
        let body = &demo.description.operation("post", path)["requestBody"]["content"]["application/json"];
        assert_eq!(ask(path, &[], body["example"].clone(), 200).json()["results"], json!([]), "{path}");
        let batch = json!({ "batch": [event, { "anonId": "v1" }, 7, { "anonId": "v1", "event": "e", "context": { "preview": true } }] });
        ask(&format!("{path}?site=fjell"), &fields, batch, 200);
    }
}

#[test]
fn answers_about_an_unverified_user_id_are_as_described() {
    let site = r#"{"site":"signed","trackingId":"track_signed","name":"S","identity":{"verify":"signed"}}"#;
    let route = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;
    let bytes = snapshot(&[("site.json", site), ("routes/index.json", route)], 1);
    let signed = DescribedServer::new(Server::start(&[("signed.snapshot", &bytes)], &["--explain"]));
    let explained = signed.get("/v1/resolve?site=signed&route=/&userId=u1&explain=1").json();
    assert_eq!(explained["visitor"]["visitor"]["userIdVerified"], json!(false));
    let context = json!({ "userHash": "x" });
    let batch = json!({ "batch": [{ "userId": "u1", "event": "e", "context": context },
        { "anonId": "v1", "userId": "u1", "event": "e", "context": context }] });
    let receipt =
        signed.server.post("/v1/batch?site=signed", &[("X-User-Hash", "x")], batch.to_string().as_bytes());
    signed.description.assert_described("POST", "/v1/batch", &receipt);
    let receipt = receipt.json();
    assert_eq!(
        (&receipt["results"][0]["code"], &receipt["warnings"][0]["code"]),
        (&json!("unverified_user"), &json!("unverified_user"))
    );
}

/// A site with all features of a layout, a rule and an explanation.
fn rich(version: u64, more: &[(&str, &str)]) -> Vec<u8> {
    let mut files = vec![
        (
            "site.json",
            r#"{"site":"rich","trackingId":"track_rich","name":"R","origins":["https://a.example"]}"#,
        ),
        ("audiences.json", r#"{"german":{"when":{"locale":{"$regex":"^de"}}}}"#),
        (
            "routes/index.json",
            r#"{"path":"/","updatedAt":"2026-01-05T10:00:00Z","layout":{"root":{"props":{"n":1.50}},"zones":{
                "hero":{"default":[],"variants":{"b":[{"id":"x","type":"Box","props":{},"zones":{"plain":[],
                    "deep":{"default":[],"variants":{"c":[]},"rules":[{"when":{"country":"NO"},"variant":"c"}]}}}]},
                    "rules":[{"audience":"german","variant":"b"},{"experiment":{"key":"e","variants":["default","b"],
                        "coverage":0.6,"holdout":0.2,"namespace":["n",0,0.7],"seed":"s"},
                        "when":{"device.type":{"$ne":"bot"}}}]}}}}"#,
        ),
        ("routes/any.json", r#"{"path":"/docs/:page/*","layout":{"root":{"props":{}},"zones":{}}}"#),
        ("routes/old.json", r#"{"path":"/old/:page","redirect":{"to":"https://a.example/","status":307}}"#),
    ];
    files.extend(more);
    snapshot(&files, version)
}

#[test]
fn explanations_of_every_experiment_outcome_are_as_described() {
    let rich = DescribedServer::new(Server::start(&[("rich.snapshot", &rich(1, &[]))], &[]));
    rich.every_route("site=rich");
    let mut outcomes = std::collections::BTreeSet::new();
    for n in 0..60 {
        let explanation = rich.explain(&format!("/v1/resolve?site=rich&route=/&anonId=v{n}"));
        let mut decisions = explanation["decisions"].as_array().expect("decisions").iter();
        let hero = decisions.find(|decision| decision["zone"] == "hero").expect("the zone `hero`");
        outcomes.insert(hero["rules"][1]["experiment"]["in"].to_string());
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    rich.explain(
        "/v1/variants?site=rich&route=/&anonId=v1&url=https://a.example/p%3Futm_source%3Dx%26tag%3Dy",
    );
    rich.get("/v1/resolve?site=rich&route=/docs/a/b%2Fc/d&variants=");
    rich.get("/v1/resolve?site=rich&route=/old/a");
    for origin in ["https://a.example", "https://elsewhere.example", "null"] {
        rich.get_with("/v1/resolve?site=rich&route=/", &[("Origin", origin)], 200);
        rich.get_with("/v1/resolve?site=rich", &[("Origin", origin)], 400);
    }
}

#[test]
fn removed_routes_are_listed_as_described() {
    let page = r#"{"path":"/gone","layout":{"root":{"props":{}},"zones":{}}}"#;
    let rich_one =
        DescribedServer::new(Server::start(&[("1.snapshot", &rich(1, &[("routes/gone.json", page)]))], &[]));
    rich_one.server.publish("2.snapshot", &rich(2, &[]));
    let removed = crate::harness::eventually("the second version is served", || {
        let list = rich_one.get("/v1/routes?site=rich&since=1").json();
        (list["version"] == "2").then(|| list["removed"].clone())
    });
    assert_eq!(removed, json!(["/gone"]));
    rich_one.pages("/v1/routes?site=rich&since=1&limit=1");
}

#[test]
fn the_example_site_answers_as_described() {
    let Some(directory) = example_site().filter(|_| cases().is_some()) else { return };
    let files =
        parallax::testing::site::source::files::Files::from_directory(&directory).expect("the example site");
    let (source, mistakes) = parallax::testing::site::source::read::read(&files, &|_, _| {});
    let compiled = parallax::testing::site::compile::compile(&source, mistakes, 1, &|_, _| {});
    let bytes = compiled.unwrap_or_else(|mistakes| panic!("{}", mistakes.report(&files))).bytes;
    let acme = DescribedServer::new(Server::start(&[("acme.snapshot", &bytes)], &[]));
    acme.every_route("trackingId=track_acme");
    assert_eq!(acme.pages("/v1/query?site=acme&query=latest-posts&params.category=guides"), 2);
}
