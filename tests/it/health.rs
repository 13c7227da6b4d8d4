//! `GET /v1/health` for load balancers, and `parallax health` for containers.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use parallax::testing::cli::demo::compile_demo;

use crate::harness::{Client, Response, Server, eventually, temporary_directory};
use crate::publishing::acme;

const OK: (u16, &str) = (200, r#"{"status":"ok"}"#);
const UNAVAILABLE: (u16, &str) = (503, r#"{"status":"unavailable"}"#);

fn answer(response: &Response) -> (u16, String) {
    (response.status, response.text().to_owned())
}

fn health(server: &Server, query: &str) -> (u16, String) {
    answer(&server.get(&format!("/v1/health{query}")))
}

fn owned((status, text): (u16, &str)) -> (u16, String) {
    (status, text.to_owned())
}

#[test]
fn a_server_is_healthy_while_a_site_is_published() {
    let server = Server::start(&[], &["--rescan-ms", "20"]);
    assert_eq!(health(&server, ""), owned(UNAVAILABLE));
    server.publish("acme.snapshot", &acme(1, "one"));
    eventually("the site is published", || (health(&server, "") == owned(OK)).then_some(()));
    assert_eq!(health(&server, "?events=1"), owned(OK));
    let head = Client::to(server.edge).request("HEAD", "/v1/health", &[]);
    assert_eq!((head.status, head.field("cache-control"), head.body.len()), (200, Some("no-store"), 0));
    assert_eq!(server.post("/v1/health", &[], b"{}").code(), "method_not_allowed");
    assert_eq!(server.admin_get("/v1/health").code(), "unknown_endpoint");
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    eventually("no site is published", || (health(&server, "") == owned(UNAVAILABLE)).then_some(()));
}

#[test]
fn a_server_that_cannot_record_is_unhealthy_only_for_events() {
    let parent = temporary_directory();
    let data = parent.path().join("data");
    let server = Server::start_with_data(&data, &[("demo.snapshot", &compile_demo().1)], &[]);
    assert_eq!(health(&server, "?events=1"), owned(OK));
    // A thread of the server can create a file meanwhile.
    eventually("the directory is removed", || fs::remove_dir_all(&data).ok());
    eventually("no event is recorded", || (health(&server, "?events=1") == owned(UNAVAILABLE)).then_some(()));
    for query in ["", "?events=0", "?events=10"] {
        assert_eq!(health(&server, query), owned(OK), "{query}");
    }
}

#[test]
fn both_public_addresses_have_it() {
    let server = Server::start(&[("demo.snapshot", &compile_demo().1)], &["--events-listen", "127.0.0.1:0"]);
    let events = eventually("the server logs the events address", || {
        let log = server.log();
        let rest = log.split("listening on the events address url=http://").nth(1)?;
        rest.split_whitespace().next()?.parse::<SocketAddr>().ok()
    });
    assert_eq!(answer(&Client::to(events).request("GET", "/v1/health", &[])), owned(OK));
    assert_eq!(health(&server, ""), owned(OK));
}

#[test]
fn it_has_no_rate_limit_and_no_line_in_the_access_log() {
    let flags = ["--rate-limit-per-ip", "1", "--trusted-proxy", "127.0.0.1", "--access-log"];
    let server = Server::start(&[("demo.snapshot", &compile_demo().1)], &flags);
    let client = [("X-Forwarded-For", "192.0.2.1")];
    for _ in 0..10 {
        assert_eq!(answer(&server.get_with("/v1/health", &client)), owned(OK));
    }
    // The log keeps the order of the requests: lines of the earlier ones would be before this one.
    assert_eq!(server.get_with("/v1/routes?site=fjell", &client).status, 200);
    server.wait_for_log("/v1/routes");
    assert!(!server.log().contains("/v1/health"), "{}", server.log());
}

#[test]
fn a_draining_server_is_unhealthy() {
    let mut server = Server::demo();
    let mut client = Client::to(server.edge);
    client.send(b"GET /v1/health HTTP/1.1\r\nHos");
    // A response on another connection of each worker shows that the worker has read the earlier bytes.
    (0..20).for_each(|_| assert_eq!(server.get("/v1/routes?site=fjell").status, 200));
    server.signal("TERM");
    eventually("the server accepts no connections any more", || TcpStream::connect(server.edge).err());
    client.send(b"t: a\r\n\r\n");
    assert_eq!(answer(&client.response(false)), owned(UNAVAILABLE));
    assert_eq!(server.exit_code(), 0);
}

/// Runs `parallax health`. Returns its exit code and its output.
fn run_health(args: &[&str]) -> (i32, String) {
    let command = Command::new(env!("CARGO_BIN_EXE_parallax")).arg("health").args(args).output();
    let output = command.expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("an exit code"), String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn the_command_exits_with_the_readiness_of_the_server() {
    let server = Server::start(&[], &["--rescan-ms", "20"]);
    let admin = server.admin.to_string();
    let (code, text) = run_health(&["--admin", &admin]);
    assert_eq!((code, &*text), (1, "parallax: the server is not ready: unpublished\n"));
    server.publish("acme.snapshot", &acme(1, "one"));
    eventually("the site is published", || (server.admin_get("/readyz").status == 200).then_some(()));
    assert_eq!(run_health(&["--admin", &admin, "--events"]), (0, "ready\n".to_owned()));
    let everywhere = format!("0.0.0.0:{}", server.admin.port());
    assert_eq!(run_health(&["--admin", &everywhere]).0, 0, "a container listens on all addresses");
    let (code, text) = run_health(&["--admin", &server.edge.to_string()]);
    assert!(code == 1 && text.contains("is this the admin address of a Parallax server?"), "{text}");
}

#[test]
fn the_command_reads_the_admin_address_from_the_settings_file() {
    let server = Server::demo();
    let directory = temporary_directory();
    let file = directory.path().join("parallax.toml");
    let config = file.to_str().expect("UTF-8");
    fs::write(&file, format!("listen = \"127.0.0.1:1\"\nadmin = \"{}\"\n", server.admin)).expect("written");
    assert_eq!(run_health(&["--config", config]).0, 0);
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let (code, text) = run_health(&["--config", config, "--admin", &free.to_string()]);
    assert!(code == 3 && text.contains("does not answer"), "--admin has priority: {text}");
    fs::write(&file, "admin = 7\n").expect("written");
    let (code, text) = run_health(&["--config", config]);
    assert!(code == 2 && text.contains("parallax.toml:1:1: `admin` is the number 7"), "{text}");
}
