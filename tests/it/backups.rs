//! Backups: `cp -r` beside a running server, and a server on a restored copy (R24).

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use parallax::testing::cli::demo::compile_demo;
use serde_json::Value;

use crate::harness::{Client, Server, temporary_directory, times};

/// Small, so that copies meet segments and checkpoints that change.
const FLAGS: [&str; 4] = ["--segment-bytes", "65536", "--checkpoint-bytes", "20000"];
const VISITORS: u64 = 20;

fn run(command: &str, paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parallax")).arg(command).args(paths).output().expect("the command runs")
}

/// Copies the directory of a running server. `cp` may complain about a checkpoint that vanishes meanwhile.
fn copy(data: &Path, to: &Path) {
    Command::new("cp").arg("-r").args([data, to]).output().expect("cp is there");
}

/// A client that sends events one after another.
struct Sender {
    acknowledged: Arc<AtomicU64>,
    is_stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Sender {
    /// Sends events with numbers from `first` on.
    fn start(server: &Server, first: u64) -> Self {
        let (acknowledged, is_stopping) = (Arc::new(AtomicU64::new(first)), Arc::<AtomicBool>::default());
        let (count, stop) = (Arc::clone(&acknowledged), Arc::clone(&is_stopping));
        let mut client = Client::to(server.edge);
        let send = move || {
            while !stop.load(Ordering::Relaxed) {
                let n = count.load(Ordering::Relaxed);
                let event = format!(r#"{{"anonId":"v{}","event":"e{n}","messageId":"m{n}"}}"#, n % VISITORS);
                assert_eq!(client.post("/v1/track?site=fjell", &[], event.as_bytes()).status, 200);
                count.store(n + 1, Ordering::Relaxed);
            }
        };
        Self { acknowledged, is_stopping, thread: thread::spawn(send) }
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until at least `more` events are acknowledged.
    fn wait_for(&self, more: u64) {
        let until = self.acknowledged() + more;
        while self.acknowledged() < until {
            thread::yield_now();
        }
    }

    /// Returns the number of all acknowledged events.
    fn stop(self) -> u64 {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.thread.join().expect("each event is accepted");
        self.acknowledged.load(Ordering::Relaxed)
    }
}

/// Returns the events of each visitor in its profile.
fn counts(server: &Server) -> Vec<u64> {
    let count = |visitor: u64| {
        let profile = server.admin_get(&format!("/visitors?site=fjell&anonId=v{visitor}"));
        profile.json()["profile"]["visitor"]["events"].as_u64().unwrap_or(0)
    };
    (0..VISITORS).map(count).collect()
}

/// Returns the number of exported events of each visitor. Each event is in the export once.
fn exported_counts(directory: &Path) -> Vec<u64> {
    let output = run("export", &[directory]);
    assert!(output.status.success(), "{output:?}");
    let mut counts = vec![0; VISITORS as usize];
    for (n, line) in String::from_utf8(output.stdout).expect("UTF-8").lines().enumerate() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(record["event"], format!("e{n}"));
        counts[n % VISITORS as usize] += 1;
    }
    counts
}

#[test]
fn a_copy_beside_a_running_server_is_a_backup_of_all_that_was_acknowledged_before() {
    let parent = temporary_directory();
    let data = parent.path().join("data");
    let snapshot = compile_demo().1;
    let server = Server::start_with_data(&data, &[("demo.snapshot", &snapshot)], &FLAGS);
    let mut sent = 0;
    for round in 0..times(3, 20) {
        let sender = Sender::start(&server, sent);
        sender.wait_for(500);
        let (backup, restored) =
            (parent.path().join(format!("copy-{round}")), parent.path().join(format!("restored-{round}")));
        let before = sender.acknowledged();
        copy(&data, &backup);
        sent = sender.stop();
        let checked = run("check", &[&backup]);
        assert!(checked.status.success(), "{checked:?}");
        let done = run("restore", &[&backup, &restored]);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(
            fs::read(restored.join("secret")).expect("copied"),
            fs::read(data.join("secret")).expect("made")
        );
        let mut second = Server::start_with_data(&restored, &[("demo.snapshot", &snapshot)], &FLAGS);
        let counts = counts(&second);
        assert!(counts.iter().sum::<u64>() >= before, "{counts:?} of {before}");
        second.signal("TERM");
        assert_eq!(second.exit_code(), 0);
        assert_eq!(exported_counts(&restored), counts, "profiles and records agree");
        assert!(run("check", &[&restored]).status.success());
    }
}
