//! `parallax demo-traffic`: invented visitors for the demo site.

use std::process::{Command, Output};

use crate::harness::Server;

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
