//! The audit log names the client of each request, and has the refused ones.

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::{
    ACCESS, ADMIN_TOKEN, BEHIND_PROXY, PROGRAM, new_token, send, start, start_with_roles, with_token, write,
};
use crate::harness::{Server, eventually, temporary_directory};

/// Returns the lines of the audit log with this action, as soon as there are so many.
pub(super) fn lines(server: &Server, action: &str, count: usize) -> Vec<Value> {
    eventually("the lines are written", || {
        let mut command = Command::new(PROGRAM);
        command.arg("audit").arg(server.data()).args(["--format", "json", "--action", action]);
        let output = command.output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (lines.len() >= count).then_some(lines)
    })
}

#[test]
fn a_line_names_the_token_or_the_person_and_the_address_that_the_proxy_tells() {
    let server = start_with_roles(&BEHIND_PROXY);
    let target = "/visitors?site=acme&anonId=nobody";
    with_token(&server, "GET", target, &ACCESS.1[1]);
    with_token(&server, "GET", target, ADMIN_TOKEN);
    let fields = [("X-Forwarded-Email", "Analyst@example.com"), ("X-Forwarded-For", "203.0.113.7")];
    send(&server, "GET", target, &fields);
    let seen: Vec<Value> =
        lines(&server, "view", 3).iter().map(|line| json!([line["actor"], line["from"]])).collect();
    assert_eq!(
        seen,
        [
            json!([{ "kind": "token", "name": "analyst" }, "127.0.0.1"]),
            json!([{ "kind": "operator" }, "127.0.0.1"]),
            json!([{ "kind": "user", "name": "Analyst@example.com" }, "203.0.113.7"]),
        ]
    );
}

#[test]
fn a_refused_request_is_a_line_without_any_text_of_the_client() {
    let server = start_with_roles(&[]);
    with_token(&server, "DELETE", "/visitors?site=acme&anonId=secret-id", &ACCESS.1[1]);
    with_token(&server, "GET", "/visitors?site=beta&anonId=secret-id", &ACCESS.1[1]);
    with_token(&server, "GET", "/visitors?site=acme&anonId=secret-id", "pxt_wrong");
    send(&server, "GET", "/secret-path", &[]);
    let seen: Vec<Value> = lines(&server, "refuse", 4)
        .iter()
        .map(|line| json!([line["actor"]["kind"], line["detail"], line["site"]]))
        .collect();
    assert_eq!(
        seen,
        [
            json!(["token", "method_not_allowed DELETE /visitors", "acme"]),
            json!(["token", "site_not_found GET /visitors", "beta"]),
            json!(["none", "unauthorized GET /visitors", "acme"]),
            json!(["none", "unauthorized GET (another path)", null]),
        ]
    );
    let refused = lines(&server, "refuse", 4);
    assert!(refused.iter().all(|line| line["outcome"] == "refused"), "{refused:?}");
    let text = json!(refused).to_string();
    assert!(!text.contains("secret") && !text.contains("pxt_"), "{text}");
}

#[test]
fn a_flood_of_refused_requests_has_ten_lines_a_second_and_one_with_the_number_of_the_others() {
    let server = start_with_roles(&[]);
    let began = Instant::now();
    for _ in 0..500 {
        assert_eq!(send(&server, "GET", "/sites", &[]).status, 401);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("a short time") + 2;
    let omitted = |line: &Value| line["detail"].as_str()?.strip_prefix("omitted=")?.parse::<usize>().ok();
    let all = eventually("the last window has ended", || {
        let all = lines(&server, "refuse", 10);
        let omitted: usize = all.iter().filter_map(omitted).sum();
        let written = all.iter().filter(|line| omitted_is_none(line)).count();
        (omitted + written == 500).then_some(written)
    });
    assert!(all <= 10 * seconds, "{all} lines in {seconds} s");
}

#[test]
fn a_flood_by_strangers_hides_no_refused_request_of_a_known_client() {
    let server = start_with_roles(&BEHIND_PROXY);
    for _ in 0..100 {
        assert_eq!(send(&server, "GET", "/sites", &[]).status, 401);
    }
    with_token(&server, "GET", "/visitors/export?site=acme&anonId=a", &ACCESS.1[1]);
    send(&server, "GET", "/sites", &[("X-Forwarded-Email", "stranger@example.com")]);
    let actors = eventually("both lines are written", || {
        let all = lines(&server, "refuse", 12);
        let known: Vec<Value> = all
            .iter()
            .filter(|line| line["actor"]["kind"] != "none")
            .map(|line| line["actor"].clone())
            .collect();
        (known.len() == 2).then_some(known)
    });
    assert_eq!(
        json!(actors),
        json!([{ "kind": "token", "name": "analyst" }, { "kind": "user", "name": "stranger@example.com" }])
    );
}

#[test]
fn a_list_of_visitors_is_a_line() {
    let server = start_with_roles(&[]);
    with_token(&server, "GET", "/insights/visitors?site=acme", &ACCESS.1[1]);
    let line = &lines(&server, "find", 1)[0];
    assert_eq!((&line["site"], &line["detail"]), (&json!("acme"), &json!("list")));
}

#[test]
fn the_start_has_the_digest_of_the_access_file() {
    let directory = temporary_directory();
    let [first, second] = ["viewer", "analyst"].map(|role| super::person("user", "a@b.example", role, &[]));
    let server = start(&write(&directory, &first), &[]);
    let path = write(&directory, &second);
    let server = server.restart(&["--access", path.to_str().expect("UTF-8"), "--admin-token", ADMIN_TOKEN]);
    let digests: Vec<String> = lines(&server, "start", 2)
        .iter()
        .map(|line| {
            line["detail"].as_str().expect("a detail").rsplit_once("access=").expect("a digest").1.to_owned()
        })
        .collect();
    assert!(digests[0].len() == 16 && digests[0] != digests[1], "{digests:?}");
}

fn omitted_is_none(line: &Value) -> bool {
    !line["detail"].as_str().is_some_and(|detail| detail.starts_with("omitted="))
}

#[test]
fn a_change_of_the_access_file_is_a_line() {
    let directory = temporary_directory();
    let (_, entry) = new_token(&["--name", "first", "--role", "viewer"]);
    let server = start(&write(&directory, &entry), &[]);
    write(&directory, &(entry.clone() + &super::person("user", "a@b.example", "viewer", &[])));
    server.wait_for_log("read the access file again");
    write(&directory, "x");
    server.wait_for_log("the access in use stays");
    let other = super::person("user", "a@b.example", "analyst", &[])
        + &super::person("group", "staff", "viewer", &[]);
    write(&directory, &other);
    let all = eventually("the third reading is written", || {
        let all = lines(&server, "access", 3);
        (all.len() == 7).then_some(all)
    });
    let without_digest = |line: &Value| {
        let words = line["detail"].as_str().expect("a detail").split(' ');
        words.filter(|word| !word.starts_with("digest=")).collect::<Vec<_>>().join(" ")
    };
    let seen: Vec<Value> = all.iter().map(|line| json!([line["outcome"], without_digest(line)])).collect();
    assert_eq!(
        seen,
        [
            json!(["done", "access file: tokens=1 users=1 groups=0 changes=1"]),
            json!(["done", "added user a@b.example"]),
            json!(["failed", "access file: refused, the access in use stays"]),
            json!(["done", "access file: tokens=0 users=1 groups=1 changes=3"]),
            json!(["done", "added group staff"]),
            json!(["done", "removed token first"]),
            json!(["done", "changed user a@b.example"]),
        ]
    );
}
