//! An import that is killed at random moments, and run again until it is complete.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{assert_sound, command, event_line, lines, run, send, start, stop, text, write_lines};
use crate::dice::Dice;
use crate::harness::{Client, temporary_directory, times};

/// Attempts of a round. A round that needs more makes no progress.
const ATTEMPTS_MAX: usize = 500;

/// The inputs of an import: two files with duplicates and refused lines, and two directories, one with a tombstone.
struct Inputs {
    parent: TempDir,
    args: Vec<String>,
}

impl Inputs {
    fn new(line_count: usize) -> Self {
        let parent = temporary_directory();
        let path = |name: &str| parent.path().join(name);
        let lines_of = |file: usize| {
            let line = |n: usize| match n % 97 {
                96 => json!({ "line": n }),
                _ => {
                    let second = (n * 7919 + file) % 3600;
                    let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", n % 24, second / 60, second % 60);
                    event_line(&time, &format!("m{}", n + file * line_count / 2), &format!("v{}", n % 50))
                }
            };
            (0..line_count).map(line).collect::<Vec<Value>>()
        };
        let files = [0, 1].map(|file| write_lines(&path(&format!("{file}.ndjson")), &lines_of(file)));
        let (erased, other) = (path("erased"), path("other"));
        let server = start(&erased);
        for n in 0..20 {
            let event =
                json!({ "anonId": format!("v{n}"), "event": "Live", "messageId": format!("live-{n}") });
            send(&server, "/v1/track?site=acme", &[], &event);
        }
        let target = "/visitors?site=acme&anonId=v7";
        let response =
            Client::to(server.admin).request("DELETE", target, &[("Authorization", "Bearer open")]);
        assert_eq!(response.status, 200);
        send(
            &server,
            "/v1/track?site=acme",
            &[],
            &json!({ "anonId": "v7", "event": "Back", "messageId": "back" }),
        );
        stop(server);
        run(&["import", text(&files[1]), "-o", text(&other)]).assert(1, &["refused"]);
        let args =
            ["import", text(&files[0]), text(&files[1]), "--merge", text(&other), "--merge", text(&erased)];
        let settings = ["--sort-memory", "65536", "--segment-bytes", "65536"];
        let args = args.into_iter().chain(settings).map(str::to_owned).collect();
        Self { parent, args }
    }

    fn args<'a>(&'a self, target: &'a Path) -> Vec<&'a str> {
        self.args.iter().map(String::as_str).chain(["-o", text(target)]).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }
}

/// Starts the import again and again, and kills it after a random time, until it ends by itself. Returns the number of kills.
fn import_with_kills(inputs: &Inputs, target: &Path, dice: &mut Dice, usual: Duration) -> usize {
    for kills in 0..ATTEMPTS_MAX {
        let child = command(&inputs.args(target))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn();
        let mut child = child.expect("the command starts");
        std::thread::sleep(Duration::from_micros(dice.below(usual.as_micros() as usize) as u64));
        // An error would mean that it has ended.
        let _ = child.kill();
        let status = child.wait().expect("it has ended");
        let is_complete = target.exists() && !target.with_extension("importing").exists();
        match status.code() {
            // Exit code 1: lines were refused. An import that was killed after its last step is complete too.
            Some(1) if is_complete => return kills,
            Some(code) => panic!("exit code {code}"),
            None if is_complete => return kills + 1,
            None => {}
        }
    }
    panic!("the import made no progress in {ATTEMPTS_MAX} attempts");
}

#[test]
fn a_killed_import_continues_and_has_each_record_once() {
    let inputs = Inputs::new(times(1_500, 3_000));
    let whole = inputs.path("whole");
    let begun = Instant::now();
    run(&inputs.args(&whole)).assert(1, &["1 tombstone", "refused lines with the reasons"]);
    let usual = Instant::now() - begun;
    let (expected, refused) =
        (lines(&whole), std::fs::read(inputs.path("whole.refused")).expect("it is there"));
    assert_sound(&whole);
    let mut kills = 0;
    for round in 0..times(5, 200) {
        let target = inputs.path(&format!("target-{round}"));
        kills += import_with_kills(&inputs, &target, &mut Dice(round as u64), usual);
        assert!(lines(&target) == expected, "round {round}: the records are those of an undisturbed import");
        assert_sound(&target);
        let list = inputs.path(&format!("target-{round}.refused"));
        assert!(
            std::fs::read(&list).expect("it is there") == refused,
            "round {round}: so are the refused lines"
        );
        std::fs::remove_dir_all(&target).expect("removed");
    }
    eprintln!("{kills} kills, {usual:?} for an undisturbed import of {} records", expected.len());
    assert!(kills > 0);
}

#[test]
fn an_unfinished_import_continues_only_with_the_same_inputs() {
    let inputs = Inputs::new(1_500);
    let target = inputs.path("target");
    // Kill it until something is left.
    let mut dice = Dice(1);
    while !target.with_extension("importing").join("progress").exists() {
        assert!(!target.exists(), "it was faster than the kill");
        let mut child = command(&inputs.args(&target)).spawn().expect("the command starts");
        std::thread::sleep(Duration::from_micros(dice.below(60_000) as u64));
        let _ = child.kill();
        child.wait().expect("it has ended");
    }
    run(&[&*inputs.args(&target), &["--site", "acme"]].concat())
        .assert(1, &["is of an import with other settings"]);
    let fewer = ["import", &*inputs.args[1], "-o", text(&target)];
    run(&fewer).assert(1, &["is of an import with", "or delete this directory to begin again"]);
    let file = PathBuf::from(&inputs.args[1]);
    let content = std::fs::read(&file).expect("it is there");
    std::fs::write(&file, &content[1..]).expect("written");
    run(&inputs.args(&target)).assert(1, &["an earlier content of"]);
}
