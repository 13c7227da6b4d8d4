//! `parallax import`: exports and data directories become a new data directory (offline).

mod columns;
mod erasing;
mod killed;
mod order;
mod refusing;
mod roundtrip;
mod space;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{Server, snapshot};

/// The result of a command.
struct Outcome {
    code: i32,
    out: String,
    err: String,
}

impl Outcome {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts the exit code and that both outputs together have these texts.
    #[track_caller]
    fn assert(&self, code: i32, texts: &[&str]) {
        let all = format!("{}{}", self.out, self.err);
        assert_eq!(self.code, code, "{all}");
        texts.iter().for_each(|text| assert!(all.contains(text), "{text:?} is not in {all}"));
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Outcome {
    Outcome::of(command(args).output().expect("the command runs"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the lines of an export without `seq`.
#[track_caller]
fn lines(directory: &Path) -> Vec<String> {
    let export = run(&["export", text(directory)]);
    export.assert(0, &[]);
    let without_seq = |line: &str| line.split_once(',').expect("more members").1.to_owned();
    export.out.lines().map(without_seq).collect()
}

/// Returns a member of each exported line.
fn column(directory: &Path, name: &str) -> Vec<String> {
    let value = |line: String| {
        let line: Value = serde_json::from_str(&format!("{{{line}")).expect("JSON");
        line[name].as_str().unwrap_or("-").to_owned()
    };
    lines(directory).into_iter().map(value).collect()
}

/// Asserts that every checksum of a data directory is right.
#[track_caller]
fn assert_sound(directory: &Path) {
    run(&["check", text(directory)]).assert(0, &["sound"]);
}

/// Returns the snapshot of a site.
fn site(id: &str, more: &Value) -> Vec<u8> {
    let mut site = json!({ "site": id, "trackingId": format!("track_{id}"), "name": id });
    let members = more.as_object().expect("an object").clone();
    site.as_object_mut().expect("an object").extend(members);
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": {} } });
    snapshot(&[("site.json", &site.to_string()), ("routes/0.json", &page.to_string())], 1)
}

/// Starts a server for the site `acme` on a data directory. Its admin token is `open`.
fn start(data: &Path) -> Server {
    Server::start_with_data(data, &[("acme.snapshot", &site("acme", &json!({})))], &["--admin-token", "open"])
}

/// Stops a server in order.
fn stop(mut server: Server) {
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

/// Sends an event that the server must accept.
#[track_caller]
fn send(server: &Server, target: &str, fields: &[(&str, &str)], event: &Value) {
    let response = server.post(target, fields, event.to_string().as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["accepted"], 1, "{}", response.text());
}

/// Returns a line of a track event of the site `acme` with the columns that an import needs.
fn event_line(received_at: &str, message_id: &str, anon_id: &str) -> Value {
    json!({
        "receivedAt": received_at, "site": "acme", "type": "track", "messageId": message_id, "anonId": anon_id,
        "payload": { "messageId": message_id, "anonId": anon_id, "event": "Seen" },
    })
}

/// Writes lines to a file.
fn write_lines(path: &Path, lines: &[Value]) -> PathBuf {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(path, text).expect("written");
    path.to_owned()
}
