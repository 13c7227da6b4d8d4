//! A version published each second under load, beside the same load with none: is an answer mixed from two, does one fail, and
//! what does it do to the slowest?
//!
//! Every node of every page says its version, so that a page made of two is found out. The versions are compiled before the load
//! begins: what is measured is a server that takes them, not the compiler beside it on the same processors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::requests::forced;
use super::stage::{Stage, WARM, run};
use crate::cli::Common;
use crate::load::Load;
use crate::outcome::Outcome;
use crate::process::Server;
use crate::report::{Comparison, Report, Side};
use crate::request::{Body, Template};
use crate::servers::parallax::{Parallax, compile};
use crate::site::site;
use crate::turns::{Failure, Turn, by_turns};

const NAME: &str = "reload";
const ABOUT: &str = "GET /v1/resolve of a page of 8 KB while a version of the whole site is published each second, and while none is";
const PAGES: usize = 100;
const CONNECTIONS: usize = 64;
const EVERY: Duration = Duration::from_secs(1);
/// In front of the version in each node.
const MARK: &str = r#""release":"#;
/// Nodes of a page that is shown, and its root.
const MARKS: usize = 5;
/// Snapshots that lie side by side: the one that is served, and the one before it to go back to.
const KEPT: usize = 2;

pub fn reload(common: &Common) -> Result<Report, Failure> {
    let stage = Stage::begin(NAME, common)?;
    let parallax = stage.parallax(&release(1), &stage.path("data"), &[])?;
    let mut releases = Releases::prepare(&stage, &parallax.snapshots)?;
    let templates = [marked()];
    let mut load = stage.load(&parallax.server, CONNECTIONS, &templates);
    load.check_every = 1;
    load.pace = stage.half(&load, &parallax.server)?;
    let mut turns = [
        Turn {
            name: "publishing".to_owned(),
            run: Box::new(|| beside(&load, &parallax.server, &mut releases)),
        },
        Turn { name: "quiet".to_owned(), run: Box::new(|| run(&load, &parallax.server)) },
    ];
    let outcomes = by_turns(&mut turns, common.rounds, &stage.progress)?;
    let names = turns.map(|turn| turn.name);
    let server = &parallax.server;
    let sides = names
        .iter()
        .zip(&outcomes)
        .map(|(name, outcomes)| Side::new(name, &server.version, outcomes))
        .collect();
    let notes = vec![
        taken(&parallax, releases.published)?,
        "every answer was looked at whole: none failed, none was mixed from two versions".to_owned(),
    ];
    stage.finish(vec![Comparison { plan: NAME.to_owned(), about: ABOUT.to_owned(), sides, notes }])
}

/// How many of the versions that were published the server took; an error where it missed more than the last, for which it
/// has a second.
fn taken(parallax: &Parallax, published: usize) -> Result<String, Failure> {
    // The one that it began with counts as well.
    let taken = parallax.metric("parallax_publications_total")? as usize - 1;
    let said = format!(
        "{published} versions were published beneath the load, {taken} of them were taken by its end"
    );
    if taken + 1 < published { Err(said.into()) } else { Ok(said) }
}

/// The page, whose nodes must all be of one version.
fn marked() -> Template {
    let mut template = forced();
    template.expected.body = Body::Alike { mark: MARK.to_owned(), times: MARKS };
    template
}

/// The site of the goals with its version in every node.
fn release(version: u64) -> Vec<(String, Value)> {
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

/// Compiled versions that wait to be published.
struct Releases {
    waiting: std::vec::IntoIter<PathBuf>,
    /// The folder that the server watches.
    snapshots: PathBuf,
    /// Files in it that this put there.
    there: Vec<PathBuf>,
    published: usize,
    /// Versions that a window takes.
    each_window: usize,
}

impl Releases {
    /// The second version and those behind it, for all windows.
    fn prepare(stage: &Stage<'_>, snapshots: &Path) -> Result<Self, Failure> {
        let seconds = WARM.as_secs_f64() + stage.common.seconds;
        let each_window = (seconds / EVERY.as_secs_f64()).ceil() as usize;
        let count = (stage.common.rounds + 1) * each_window;
        stage.progress.begin("compile the versions", count as u64);
        let mut ready = Vec::with_capacity(count);
        for version in (2..).take(count) {
            let (site, file) = (stage.author(&release(version))?, stage.path(&format!("ready-{version}")));
            compile(&stage.program, &site, &file, version)?;
            ready.push(file);
            stage.progress.step(1);
        }
        let snapshots = snapshots.to_owned();
        Ok(Self { waiting: ready.into_iter(), snapshots, there: Vec::new(), published: 0, each_window })
    }

    /// Gives the next one its name among the snapshots, which is what publishing is.
    fn publish(&mut self) -> Result<(), Failure> {
        let next = self.waiting.next().ok_or("there are fewer versions than seconds")?;
        self.published += 1;
        let name = self.snapshots.join(format!("release-{}.snapshot", self.published));
        fs::rename(next, &name)?;
        self.there.push(name);
        if self.there.len() > KEPT {
            fs::remove_file(self.there.remove(0))?;
        }
        Ok(())
    }

    /// One now and one each second, those of one window; waits for its end.
    fn publish_until(&mut self, end: &Receiver<()>) -> Result<(), Failure> {
        for _ in 0..self.each_window {
            self.publish()?;
            if end.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
        }
        // What is still to be answered when the window is over takes longer, and counts no more.
        let _ = end.recv();
        Ok(())
    }
}

/// A window while versions are published.
fn beside(load: &Load<'_>, server: &Server, releases: &mut Releases) -> Result<Outcome, Failure> {
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
    fn every_node_says_the_version() {
        let files = release(17);
        let (_, page) = files.iter().find(|(path, _)| path == "routes/7.json").expect("a page");
        let text = page.to_string();
        // Four zones, three of them with variants, and the root.
        assert_eq!(text.matches(r#""release":17"#).count(), 4 + 2 + 1 + 1 + 1);
        assert_eq!(text.matches(r#""props""#).count(), 9);
    }
}
