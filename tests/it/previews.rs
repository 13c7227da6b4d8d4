//! Preview sites on the wire (interface, section 12): no cache keeps their responses, and their events are dropped.

use crate::command_line::Workspace;
use crate::harness::Server;

const PAGE: &str = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{"hero":{"default":[],"variants":{"b":[]},
    "rules":[{"when":{"country":"DE"},"variant":"b"}]}}}}"#;

/// Starts a server with the site `acme`, which sets cache times, and its preview `draft`.
fn serve_site_and_preview() -> Server {
    let workspace = Workspace::new();
    let about = r#"{"site":"acme","trackingId":"track_acme","name":"Acme","cache":{"resolve":{"sMaxAge":7},"query":{"sMaxAge":8}}}"#;
    workspace.write("site/site.json", about);
    workspace.write("site/routes/index.json", PAGE);
    workspace.write("site/content/c.json", "[]");
    workspace.write("site/queries.json", r#"{"q":{"collection":"c"}}"#);
    workspace.run(&["compile", "site", "-o", "site.snapshot"]).assert_exit(0, &[]);
    workspace.run(&["compile", "site", "-o", "draft.snapshot", "--preview", "draft"]).assert_exit(0, &[]);
    let read = |name: &str| std::fs::read(workspace.path(name)).expect("a snapshot");
    Server::start(
        &[("site.snapshot", &read("site.snapshot")), ("draft.snapshot", &read("draft.snapshot"))],
        &[],
    )
}

#[test]
fn all_cache_times_of_a_preview_are_0() {
    let server = serve_site_and_preview();
    let cache_control = |site: &str, target: &str| {
        let response = server.get(&format!("/v1/{target}&site={site}"));
        response.field("cache-control").expect("a field").to_owned()
    };
    for (target, of_site) in [
        ("resolve?route=/&variants=", "s-maxage=7"),
        ("resolve?route=/&variants=hero:nope", "s-maxage=5"),
        ("resolve?route=/nowhere&variants=", "s-maxage=10"),
        ("routes?prefix=/", "s-maxage=60"),
        ("variants?route=/&include=combinations", "s-maxage=60"),
        ("query?query=q", "s-maxage=8"),
        ("site?", "s-maxage=60"),
    ] {
        assert!(cache_control("acme", target).contains(of_site), "{target}");
        let of_preview = cache_control("acme--draft", target);
        assert!(of_preview.starts_with("public, "), "{target}: {of_preview}");
        let times = of_preview.split(", ").filter_map(|part| part.split_once('='));
        assert!(
            times.clone().count() > 0 && times.clone().all(|(_, time)| time == "0"),
            "{target}: {of_preview}"
        );
    }
}

#[test]
fn the_settings_of_a_preview_have_its_name() {
    let server = serve_site_and_preview();
    assert_eq!(server.get("/v1/site?site=acme--draft").json()["preview"], "draft");
    assert_eq!(server.get("/v1/site?site=acme").json()["preview"], serde_json::Value::Null);
}

#[test]
fn events_of_a_preview_are_dropped() {
    let server = serve_site_and_preview();
    let track = |tracking_id: &str, query: &str| {
        let body = format!(r#"{{"trackingId":"{tracking_id}","anonId":"v1","event":"Viewed"}}"#);
        server.post(&format!("/v1/track{query}"), &[], body.as_bytes())
    };
    for query in ["", "?dryRun=1"] {
        let dropped = track("track_acme--draft", query);
        assert_eq!((dropped.status, dropped.field("x-dropped")), (200, Some("preview")));
        assert_eq!(dropped.json()["results"][0]["reason"], "preview");
        assert_eq!(track("track_acme", query).json()["accepted"], 1);
    }
}

#[test]
fn a_preview_ends_when_its_file_is_deleted() {
    let server = serve_site_and_preview();
    let status = || server.get("/v1/resolve?site=acme--draft&route=/").status;
    assert_eq!(status(), 200);
    std::fs::remove_file(server.path("draft.snapshot")).expect("removed");
    crate::harness::eventually("the preview ends", || (status() == 404).then_some(()));
    assert_eq!(server.get("/v1/resolve?site=acme&route=/").status, 200);
}
