//! `parallax demo-traffic`: invented visitors for the demo site.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use crate::harness::{Client, Server};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.arg("demo-traffic").args(arguments).output().expect("the command runs")
}

fn url(server: &Server) -> String {
    format!("http://{}", server.edge)
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

#[test]
fn invented_visitors_fill_every_view() {
    let server = Server::demo();
    let output = run(&["--to", &url(&server), "--visitors", "300", "--days", "30"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let overview = server.admin_get("/insights/overview?site=fjell").json();
    let number = |name: &str| overview["totals"][name].as_u64().expect("a number");
    assert_eq!(number("visitors"), 300);
    assert!(number("visits") > 350 && number("views") > 600 && number("events") > 60, "{overview}");
    assert!((60..300).contains(&number("personalized")), "{overview}");
    for (of, least) in
        [("page", 50), ("source", 5), ("country", 6), ("device", 3), ("browser", 3), ("event", 4)]
    {
        let top = server.admin_get(&format!("/insights/top?site=fjell&of={of}&limit=1000")).json();
        assert!(top["rows"].as_array().expect("rows").len() >= least, "{of}: {top}");
    }
    // The phase of the experiment begins with the server, after these events.
    let from = &overview["from"].as_str().expect("a time")[..10];
    let target = format!("/insights/experiment?site=fjell&key=slow-front&goal=Order+Placed&from={from}");
    let experiment = server.admin_get(&target).json();
    for arm in experiment["arms"].as_array().expect("arms") {
        assert!(arm["exposed"].as_u64().expect("a number") > 20, "{experiment}");
    }
    assert_eq!(experiment["both"], 0, "{experiment}");
}

/// A server that was started without flags for its directories, as a newcomer does it.
struct FirstServer {
    child: Child,
    public: String,
    admin: String,
    _directory: tempfile::TempDir,
}

impl FirstServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(env!("CARGO_BIN_EXE_parallax"))
            .current_dir(directory.path())
            .envs([("PARALLAX_LISTEN", "127.0.0.1:0"), ("PARALLAX_ADMIN", "127.0.0.1:0")])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let (mut admin, mut public) = (String::new(), String::new());
        for line in lines {
            for (words, url) in [(" admin address url=", &mut admin), (" serving url=", &mut public)] {
                if let Some((_, rest)) = line.split_once(words) {
                    *url = rest.split(' ').next().expect("a word").to_owned();
                }
            }
            if !public.is_empty() {
                break;
            }
        }
        Self { child, public, admin, _directory: directory }
    }
}

impl Drop for FirstServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_experiment_of_the_demo_has_a_phase_with_all_invented_visitors() {
    let server = FirstServer::start();
    let output = run(&["--to", &server.public, "--visitors", "300"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let admin = server.admin.strip_prefix("http://").expect("a URL").parse().expect("an address");
    let target = "/insights/experiment?site=fjell&key=slow-front";
    let result = Client::to(admin).request("GET", target, &[]).json();
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{result}"));
    for arm in result["arms"].as_array().expect("arms") {
        assert!(number(&arm["exposed"]) > 20.0, "{result}");
        assert!((number(&arm["weight"]) - 0.5).abs() < 1e-9, "{result}");
    }
    assert_eq!((&result["exploratory"], &result["earlier"]), (&false.into(), &0.into()), "{result}");
    assert_eq!(result["srm"]["alarm"], false, "{result}");
}

#[test]
fn the_same_seed_gives_the_same_visitors() {
    let server = Server::demo();
    let visitors = || {
        let overview = server.admin_get("/insights/overview?site=fjell").json();
        overview["totals"]["visitors"].clone()
    };
    for (seed, expected) in [("7", 50), ("7", 50), ("8", 100)] {
        let output = run(&["--to", &url(&server), "--visitors", "50", "--days", "20", "--seed", seed]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(visitors(), expected, "{seed}");
    }
}

#[test]
fn numbers_at_their_limits_are_accepted_and_others_refused() {
    let nobody = "http://127.0.0.1:1";
    for (flag, value, is_accepted) in [
        ("--visitors", "0", false),
        ("--visitors", "1", true),
        ("--visitors", "100000", true),
        ("--visitors", "100001", false),
        ("--days", "0", false),
        ("--days", "1", true),
        ("--days", "365", true),
        ("--days", "366", false),
    ] {
        let output = run(&["--to", nobody, flag, value]);
        // An accepted value reaches the address, where nobody answers.
        assert_eq!(output.status.code(), Some(if is_accepted { 3 } else { 2 }), "{flag} {value}");
    }
}

#[test]
fn another_machine_gets_events_only_with_a_flag() {
    for (url, is_refused) in [
        ("http://127.0.0.1:1", false),
        ("http://127.9.9.9:1/", false),
        ("http://[::1]:1", false),
        ("http://LOCALHOST:1", false),
        ("http://192.0.2.1:1", true),
        ("http://192.0.2.1", true),
        ("http://[2001:db8::1]:1", true),
        ("http://0.0.0.0:1", true),
        ("http://127.0.0.1.example:1", true),
        ("http://localhost.example:1", true),
        ("http://www.example", true),
    ] {
        let output = run(&["--to", url]);
        // A receiver on this machine is asked, and nobody answers.
        assert_eq!(output.status.code(), Some(if is_refused { 2 } else { 3 }), "{url}");
        assert_eq!(stderr(&output).contains("add --to-another-machine"), is_refused, "{url}");
    }
    // The resolver knows no name of this top-level domain.
    let output = run(&["--to", "http://nobody.invalid:1", "--to-another-machine"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn errors_name_the_address_and_what_to_do() {
    let server = Server::demo();
    let admin = format!("http://{}", server.admin);
    for (arguments, code, words) in [
        (vec!["--to", "http://127.0.0.1:1"], 3, "start a server with `parallax`"),
        (vec!["--to", "ftp://127.0.0.1:1"], 2, "expected http:// with a host and a port"),
        (vec!["--to", "http://127.0.0.1:1/path"], 2, "expected http:// with a host and a port"),
        (vec!["--to", &url(&server), "--tracking-id", "track_nobody"], 1, "track_nobody"),
        (vec!["--to", &admin], 1, "admin"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}
