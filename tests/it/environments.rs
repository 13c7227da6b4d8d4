//! Staging and production from one site directory, with the files and the commands of `docs/environments.md`. Neither server
//! accepts the snapshot of the other environment.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::command_line::Workspace;
use crate::harness::{Response, Server, eventually};
use crate::publishing::site;

const PAGE: &str = include_str!("../../docs/environments.md");

/// An environment of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Environment {
    Staging,
    Production,
}

use Environment::{Production, Staging};

impl Environment {
    fn tracking_id(self) -> &'static str {
        match self {
            Staging => "track_my-site-staging",
            Production => "track_my-site",
        }
    }

    fn other(self) -> Self {
        match self {
            Staging => Production,
            Production => Staging,
        }
    }

    /// Starts the server of the environment, with a snapshot.
    fn start(self, snapshot: (&str, &[u8])) -> Server {
        Server::start(&[snapshot], &["--tracking-id", self.tracking_id(), "--rescan-ms", "20"])
    }
}

/// Returns a workspace with the site of the page.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.run(&["init", "my-site"]).assert_exit(0, &[]);
    let settings = PAGE.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    workspace.write("my-site/site.json", settings.expect("the page has site.json"));
    workspace
}

/// Compiles the site for an environment, with further arguments. Returns the snapshot.
fn compile(workspace: &Workspace, environment: Environment, version: &str, more: &[&str]) -> Vec<u8> {
    let output = format!("build/{environment:?}.snapshot");
    let mut arguments = vec!["compile", "my-site", "--version", version, "-o", &output];
    if environment == Staging {
        arguments.extend(["--tracking-id", Staging.tracking_id()]);
    }
    arguments.extend(more);
    fs::create_dir_all(workspace.path("build")).expect("created");
    workspace.run(&arguments).assert_exit(0, &[&format!("version {version}")]);
    fs::read(workspace.path(&output)).expect("a snapshot")
}

/// Returns the tracking IDs and versions that a server serves.
fn served(server: &Server) -> Vec<(String, String)> {
    let list = server.admin_get("/sites").json();
    let text = |site: &Value, member: &str| site[member].as_str().expect("a text").to_owned();
    let sites = list["sites"].as_array().expect("a list").iter();
    sites.map(|site| (text(site, "trackingId"), text(site, "version"))).collect()
}

/// Waits until a file of the snapshots directory has a state with a reason, and returns the reason.
fn wait_for_reason(server: &Server, name: &str, state: &str) -> String {
    eventually(&format!("{name} is {state} with a reason"), || {
        let list = server.admin_get("/sites").json();
        let file = list["files"].as_array()?.iter().find(|file| file["name"] == name)?.clone();
        (file["state"] == state).then(|| file["reason"].as_str().map(str::to_owned))?
    })
}

fn wait_until_served(server: &Server, environment: Environment, version: &str) {
    let expected = (environment.tracking_id().to_owned(), version.to_owned());
    eventually(&format!("version {version} is served"), || served(server).contains(&expected).then_some(()));
}

fn resolve(server: &Server, tracking_id: &str) -> Response {
    server.get(&format!("/v1/resolve?trackingId={tracking_id}&route=/"))
}

fn send_page(server: &Server, tracking_id: &str) -> Response {
    let body =
        format!(r#"{{"trackingId":"{tracking_id}","anonId":"visitor-1","properties":{{"path":"/"}}}}"#);
    server.post("/v1/page", &[], body.as_bytes())
}

/// Asserts that a server answers for its own tracking ID, and for that of the other environment with 404.
fn assert_answers_only_for(server: &Server, environment: Environment) {
    let (own, other) = (environment.tracking_id(), environment.other().tracking_id());
    assert_eq!(resolve(server, own).status, 200);
    assert_eq!(send_page(server, own).status, 200);
    for response in [resolve(server, other), send_page(server, other)] {
        assert_eq!((response.status, response.code()), (404, "site_not_found".to_owned()));
        let detail = format!("No published site has tracking ID '{other}'.");
        assert_eq!(response.json()["detail"].as_str(), Some(&*detail));
    }
}

#[test]
fn neither_server_accepts_the_snapshot_of_the_other_environment() {
    let workspace = workspace();
    for environment in [Staging, Production] {
        let (own, other) = (environment.tracking_id(), environment.other().tracking_id());
        let server = environment.start(("my-site-1.snapshot", &compile(&workspace, environment, "1", &[])));
        assert_answers_only_for(&server, environment);
        server.publish("my-site-2.snapshot", &compile(&workspace, environment.other(), "2", &[]));
        let reason = wait_for_reason(&server, "my-site-2.snapshot", "refused");
        assert_eq!(
            reason,
            format!("its tracking ID is {other}, and this server serves only {own} (--tracking-id)")
        );
        assert_eq!(served(&server), [(own.to_owned(), "1".to_owned())]);
        assert_answers_only_for(&server, environment);
        server.wait_for_log(&format!("my-site-2.snapshot: {reason}"));
        assert!(server.admin_get("/metrics").text().contains("\nparallax_snapshots_refused 1\n"));
        server.publish("my-site-3.snapshot", &compile(&workspace, environment, "3", &[]));
        wait_until_served(&server, environment, "3");
    }
}

#[test]
fn a_file_of_the_other_environment_does_not_replace_the_served_one() {
    let workspace = workspace();
    let server = Production.start(("my-site.snapshot", &compile(&workspace, Production, "1", &[])));
    server.publish("my-site.snapshot", &compile(&workspace, Staging, "2", &[]));
    wait_for_reason(&server, "my-site.snapshot", "served");
    assert_eq!(served(&server), [("track_my-site".to_owned(), "1".to_owned())]);
    assert_answers_only_for(&server, Production);
    // A new process has never seen the content before.
    let server = server.restart(&["--tracking-id", Production.tracking_id(), "--rescan-ms", "20"]);
    wait_for_reason(&server, "my-site.snapshot", "refused");
    assert!(served(&server).is_empty());
    let ready = server.admin_get("/readyz");
    assert_eq!((ready.status, ready.json()["status"].as_str()), (503, Some("unpublished")));
}

#[test]
fn a_server_accepts_the_previews_of_its_environment() {
    let workspace = workspace();
    let server = Staging.start(("my-site.snapshot", &compile(&workspace, Staging, "1", &[])));
    server.publish("production.snapshot", &compile(&workspace, Production, "2", &["--preview", "draft"]));
    wait_for_reason(&server, "production.snapshot", "refused");
    server.publish("staging.snapshot", &compile(&workspace, Staging, "2", &["--preview", "draft"]));
    let preview = ("track_my-site-staging--draft".to_owned(), "2".to_owned());
    eventually("the preview is served", || served(&server).contains(&preview).then_some(()));
    assert_eq!(served(&server).len(), 2);
}

#[test]
fn a_server_of_several_sites_names_all_of_them() {
    let (a, b, c) =
        (site("a", "track_a", 1, "a"), site("b", "track_b", 1, "b"), site("c", "track_c", 1, "c"));
    let snapshots = [("a.snapshot", &*a), ("b.snapshot", &*b), ("c.snapshot", &*c)];
    let server = Server::start(&snapshots, &["--tracking-id", "track_a,track_b"]);
    assert_eq!(resolve(&server, "track_a").status, 200);
    assert_eq!(resolve(&server, "track_b").status, 200);
    assert_eq!(resolve(&server, "track_c").code(), "site_not_found");
    let reason = wait_for_reason(&server, "c.snapshot", "refused");
    assert!(reason.contains("serves only track_a, track_b"), "{reason}");
}

#[test]
fn without_the_setting_staging_replaces_production() {
    let workspace = workspace();
    let snapshot = compile(&workspace, Production, "1", &[]);
    let server = Server::start(&[("my-site-1.snapshot", &snapshot)], &["--rescan-ms", "20"]);
    server.publish("my-site-2.snapshot", &compile(&workspace, Staging, "2", &[]));
    wait_until_served(&server, Staging, "2");
    assert_answers_only_for(&server, Staging);
}

#[test]
fn visitors_get_the_same_arms_in_both_environments() {
    let workspace = workspace();
    let servers = [Staging, Production].map(|environment| {
        (environment, environment.start(("my-site.snapshot", &compile(&workspace, environment, "1", &[]))))
    });
    let mut arms = BTreeSet::new();
    for visitor in 0..100 {
        let [staging, production] = servers.each_ref().map(|(environment, server)| {
            let id = environment.tracking_id();
            let response =
                server.get(&format!("/v1/variants?trackingId={id}&route=/&anonId=visitor-{visitor}"));
            assert_eq!(response.status, 200, "{}", response.text());
            response.json()["experiments"].as_str().expect("a text").to_owned()
        });
        assert_eq!(staging, production, "visitor-{visitor}");
        arms.insert(staging);
    }
    assert_eq!(arms.len(), 2, "{arms:?}");
}

#[test]
fn compile_replaces_only_the_tracking_id() {
    let workspace = workspace();
    compile(&workspace, Staging, "43", &[]);
    let shown = workspace.run(&["inspect", "build/Staging.snapshot"]);
    shown.assert_exit(0, &["site         my-site (track_my-site-staging), My site", "version      43,"]);
    let source = fs::read_to_string(workspace.path("my-site/site.json")).expect("site.json");
    assert!(source.contains("\"trackingId\": \"track_my-site\""), "the source stays as it is");
    for wrong in ["", "my-site", "track_", "track_a b", "track_a,track_b"] {
        let flag = format!("--tracking-id={wrong}");
        workspace.run(&["compile", "my-site", &flag]).assert_exit(2, &["--tracking-id", "track_"]);
    }
    for wrong in ["my-site", "track_a,", "track_a b"] {
        let flag = format!("--tracking-id={wrong}");
        workspace.run(&["serve", &flag]).assert_exit(2, &["--tracking-id", "track_"]);
    }
}
