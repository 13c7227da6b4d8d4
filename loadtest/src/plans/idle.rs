//! Active connections beside many idle ones, and without them: what an idle one takes in memory, and whether it slows the others.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::requests::forced;
use super::stage::{Stage, run};
use crate::cli::Idle;
use crate::exchange::{Answer, Exchange};
use crate::load::Load;
use crate::outcome::Outcome;
use crate::process::Server;
use crate::progress::Progress;
use crate::report::{Comparison, Report, Side, grouped};
use crate::servers::parallax::Parallax;
use crate::site::site;
use crate::turns::{Failure, Turn, by_turns};

const NAME: &str = "idle-10k";
const PAGES: usize = 100;
const ACTIVE: usize = 64;
/// Descriptors that either process has beside its connections.
const DESCRIPTORS_BESIDE: u64 = 200;
/// Longer than any window: an idle connection is not to be closed while it is measured.
const IDLE: Duration = Duration::from_secs(3_600);

pub fn idle_10k(given: &Idle) -> Result<Report, Failure> {
    let (common, count) = (&given.common, given.idle.get());
    allowed(count)?;
    let stage = Stage::begin(NAME, common)?;
    let patience = IDLE.as_millis().to_string();
    let parallax = stage.parallax(&site(PAGES), &stage.path("data"), &["--timeout-idle-ms", &patience])?;
    let (server, templates) = (&parallax.server, [forced()]);
    let mut load = stage.load(server, ACTIVE, &templates);
    load.pace = stage.half(&load, server)?;
    let notes = memory(&parallax, count, &stage.progress)?;
    let (progress, beside_name) = (&stage.progress, format!("beside {} idle", grouped(count as u64)));
    let mut turns = [
        Turn { name: beside_name, run: Box::new(|| beside(&load, server, count, progress)) },
        Turn { name: "alone".to_owned(), run: Box::new(|| run(&load, server)) },
    ];
    let outcomes = by_turns(&mut turns, common.rounds, progress)?;
    let sides = turns.iter().zip(&outcomes);
    let sides = sides.map(|(turn, outcomes)| Side::new(&turn.name, &server.version, outcomes)).collect();
    drop(turns);
    let about = format!(
        "GET /v1/resolve of a page of 8 KB on {} connections beside {} idle ones, and alone",
        load.connections,
        grouped(count as u64)
    );
    stage.finish(vec![Comparison { plan: NAME.to_owned(), about, sides, notes }])
}

/// Whether this process and the server may have so many connections.
fn allowed(count: usize) -> Result<(), Failure> {
    let needed = count as u64 + DESCRIPTORS_BESIDE;
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < needed => Err(format!(
            "{count} idle connections need {needed} descriptors; the hard limit is {most}: raise it (ulimit -Hn {needed}, as \
             root) or ask for fewer (--idle)"
        )
        .into()),
        _ => Ok(()),
    }
}

/// What idle connections take, in words.
fn memory(parallax: &Parallax, count: usize, progress: &Progress) -> Result<Vec<String>, Failure> {
    let before = parallax.server.resident_bytes();
    let idle = Connections::open(&parallax.server, count, progress)?;
    let each = parallax.server.resident_bytes().saturating_sub(before) / count as u64;
    let open = parallax.metric("parallax_connections")?;
    drop(idle);
    let bound = parallax.metric(r#"parallax_memory_max_bytes{holder="connections"}"#)?;
    let bound = bound / parallax.metric("parallax_connections_max")?;
    Ok(vec![
        format!(
            "an idle connection that was answered once takes {each} bytes of resident memory; {open} are open, by /metrics"
        ),
        format!("the server's own bound is {bound:.0} bytes a connection, by /metrics"),
    ])
}

/// A window beside idle connections.
fn beside(load: &Load<'_>, server: &Server, count: usize, progress: &Progress) -> Result<Outcome, Failure> {
    let _idle = Connections::open(server, count, progress)?;
    run(load, server)
}

/// Idle connections, each of which was answered once.
struct Connections(Vec<Exchange>);

impl Connections {
    fn open(server: &Server, count: usize, progress: &Progress) -> Result<Self, Failure> {
        let request = forced().bytes;
        progress.now(format!("opening {count} connections"));
        let mut open = Vec::with_capacity(count);
        for _ in 0..count {
            let mut connection = Exchange::new(server.address)?;
            connection.ask(&request).and_then(Answer::good)?;
            open.push(connection);
        }
        Ok(Self(open))
    }
}

impl Drop for Connections {
    /// By a reset: waiting for the last packets of so many connections would use up the ports of this machine.
    fn drop(&mut self) {
        self.0.drain(..).for_each(Exchange::reset);
    }
}
