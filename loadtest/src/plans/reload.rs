//! The plan `reload`: publishes a version each second under load, compared with the same load without
//! publishing. It checks that no response mixes two versions and none fails, and shows the effect on the
//! slowest responses.
//!
//! Every node of every page contains its version, so that a mixed page is detected. All versions are compiled
//! before the load begins, so that the measurement contains only the server's work and not the compiler's on
//! the same CPUs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::plan_run::{PlanRun, WARM_UP, run};
use super::requests::forced_page;
use crate::cli::CommonArgs;
use crate::load::Load;
use crate::outcome::Outcome;
use crate::process::Server;
use crate::report::{Comparison, Report, Side};
use crate::request::{ExpectedBody, Template};
use crate::servers::parallax::{Parallax, compile};
use crate::site::site;
use crate::turns::{RunError, Turn, run_interleaved};

const NAME: &str = "reload";
const ABOUT: &str =
    "GET /v1/resolve of a page of 8 KB, with and without publishing a version of the whole site each second";
const PAGES: usize = 100;
const CONNECTIONS: usize = 64;
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// Text before the version in each node.
const MARK: &str = r#""release":"#;
/// Marks in a page at least: its four zones and the root.
const MARKS_MIN: usize = 5;
/// Snapshots kept in the directory: the served one and the one before it.
const SNAPSHOTS_KEPT: usize = 2;

pub fn reload(common: &CommonArgs) -> Result<Report, RunError> {
    let plan_run = PlanRun::begin(NAME, common)?;
    let parallax = plan_run.start_parallax(&site_of_version(1), &plan_run.work_path("data"), &[])?;
    let mut releases = Releases::prepare(&plan_run, &parallax.snapshots)?;
    let templates = [marked_template()];
    let mut load = plan_run.load(&parallax.server, CONNECTIONS, &templates);
    load.check_every = 1;
    load.pace = plan_run.half_load_pace(&load, &parallax.server)?;
    let mut turns = [
        Turn {
            name: "publishing".to_owned(),
            run: Box::new(|| run_while_publishing(&load, &parallax.server, &mut releases)),
        },
        Turn { name: "quiet".to_owned(), run: Box::new(|| run(&load, &parallax.server)) },
    ];
    let outcomes = run_interleaved(&mut turns, common.rounds, &plan_run.progress)?;
    let names = turns.map(|turn| turn.name);
    let server = &parallax.server;
    let sides = names
        .iter()
        .zip(&outcomes)
        .map(|(name, outcomes)| Side::new(name, &server.version, outcomes))
        .collect();
    let notes = vec![
        activation_note(&parallax, releases.published)?,
        "all responses were checked completely: none failed, none mixed two versions".to_owned(),
    ];
    plan_run.finish(vec![Comparison { plan: NAME.to_owned(), about: ABOUT.to_owned(), sides, notes }])
}

/// Returns a note with the number of activated versions. Fails if the server missed more than the last
/// version, which it has only a second to activate.
fn activation_note(parallax: &Parallax, published: usize) -> Result<String, RunError> {
    // The metric includes the first version.
    let activated = parallax.metric("parallax_snapshots_activated_total")? as usize - 1;
    let note = format!(
        "published {published} versions during the load; the server activated {activated} of them by its end"
    );
    if activated + 1 < published { Err(note.into()) } else { Ok(note) }
}

/// Returns the request for a page whose nodes must all be of one version.
fn marked_template() -> Template {
    let mut template = forced_page();
    template.expected.body = ExpectedBody::SameMark { mark: MARK.to_owned(), times: MARKS_MIN };
    template
}

/// Returns the benchmark site with the version in every node.
fn site_of_version(version: u64) -> Vec<(String, Value)> {
    let mut files = site(PAGES);
    files.iter_mut().for_each(|(_, file)| mark(file, version));
    files
}

fn mark(json: &mut Value, version: u64) {
    match json {
        Value::Object(members) => {
            if let Some(Value::Object(props)) = members.get_mut("props") {
                props.insert("release".to_owned(), json!(version));
            }
            members.values_mut().for_each(|value| mark(value, version));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| mark(value, version)),
        _ => {}
    }
}

/// Compiled versions for publishing.
struct Releases {
    pending: std::vec::IntoIter<PathBuf>,
    /// The directory that the server watches.
    snapshots: PathBuf,
    /// Published files that are still in the directory, oldest first.
    published_files: Vec<PathBuf>,
    published: usize,
    /// Versions per window.
    per_window: usize,
}

impl Releases {
    /// Compiles the second version and all later ones, for all windows.
    fn prepare(plan_run: &PlanRun<'_>, snapshots: &Path) -> Result<Self, RunError> {
        let seconds = WARM_UP.as_secs_f64() + plan_run.common.seconds;
        let each_window = (seconds / PUBLISH_INTERVAL.as_secs_f64()).ceil() as usize;
        let count = (plan_run.common.rounds + 1) * each_window;
        plan_run.progress.begin("compiling versions", count as u64);
        let mut ready = Vec::with_capacity(count);
        for version in (2..).take(count) {
            let (site, file) = (
                plan_run.write_site(&site_of_version(version))?,
                plan_run.work_path(&format!("ready-{version}")),
            );
            compile(&plan_run.program, &site, &file, version)?;
            ready.push(file);
            plan_run.progress.step(1);
        }
        let snapshots = snapshots.to_owned();
        Ok(Self {
            pending: ready.into_iter(),
            snapshots,
            published_files: Vec::new(),
            published: 0,
            per_window: each_window,
        })
    }

    /// Publishes the next version by renaming it into the directory. Deletes the oldest file of more than
    /// two.
    fn publish(&mut self) -> Result<(), RunError> {
        let next = self.pending.next().ok_or("all compiled versions are already published")?;
        self.published += 1;
        let name = self.snapshots.join(format!("release-{}.snapshot", self.published));
        fs::rename(next, &name)?;
        self.published_files.push(name);
        if self.published_files.len() > SNAPSHOTS_KEPT {
            fs::remove_file(self.published_files.remove(0))?;
        }
        Ok(())
    }

    /// Publishes a version now and one each second, up to those of one window. Then waits for the end of the
    /// window.
    fn publish_until(&mut self, end: &Receiver<()>) -> Result<(), RunError> {
        for _ in 0..self.per_window {
            self.publish()?;
            if end.recv_timeout(PUBLISH_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
        }
        // After the window, outstanding responses take some more time. They are not counted.
        let _ = end.recv();
        Ok(())
    }
}

/// Runs a window while versions are published.
fn run_while_publishing(
    load: &Load<'_>,
    server: &Server,
    releases: &mut Releases,
) -> Result<Outcome, RunError> {
    std::thread::scope(|scope| {
        let (end, ended) = channel();
        let publisher = scope.spawn(move || releases.publish_until(&ended));
        let outcome = run(load, server);
        drop(end);
        publisher.join().expect("it does not panic")?;
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_contains_the_version() {
        let files = site_of_version(17);
        let (_, page) = files.iter().find(|(path, _)| path == "routes/7.json").expect("a page");
        let text = page.to_string();
        // Four zones, three of them with variants, and the root.
        assert_eq!(text.matches(r#""release":17"#).count(), 4 + 2 + 1 + 1 + 1);
        assert_eq!(text.matches(r#""props""#).count(), 9);
    }
}
