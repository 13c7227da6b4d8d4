//! The plan `idle-10k`: memory of an idle connection, and latency of active connections with and without idle
//! ones.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::plan_run::{PlanRun, run};
use super::requests::forced_page;
use crate::cli::IdleArgs;
use crate::exchange::{Client, Response};
use crate::load::Load;
use crate::outcome::Outcome;
use crate::process::Server;
use crate::progress::Progress;
use crate::report::{Comparison, Report, Side, group_digits};
use crate::servers::parallax::Parallax;
use crate::site::site;
use crate::turns::{RunError, Turn, run_interleaved};

const NAME: &str = "idle-10k";
const PAGES: usize = 100;
const ACTIVE_CONNECTIONS: usize = 64;
/// Descriptors of this process or the server besides the connections.
const OTHER_DESCRIPTORS: u64 = 200;
/// The server's idle timeout. Longer than any window, so that no idle connection is closed during a
/// measurement.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3_600);

pub fn idle_10k(args: &IdleArgs) -> Result<Report, RunError> {
    let (common, count) = (&args.common, args.idle.get());
    check_descriptor_limit(count)?;
    let plan_run = PlanRun::begin(NAME, common)?;
    let idle_timeout_ms = IDLE_TIMEOUT.as_millis().to_string();
    let parallax = plan_run.start_parallax(
        &site(PAGES),
        &plan_run.work_path("data"),
        &["--timeout-idle-ms", &idle_timeout_ms],
    )?;
    let (server, templates) = (&parallax.server, [forced_page()]);
    let mut load = plan_run.load(server, ACTIVE_CONNECTIONS, &templates);
    load.pace = plan_run.half_load_pace(&load, server)?;
    let notes = measure_idle_memory(&parallax, count, &plan_run.progress)?;
    let (progress, with_idle_name) =
        (&plan_run.progress, format!("with {} idle", group_digits(count as u64)));
    let mut turns = [
        Turn { name: with_idle_name, run: Box::new(|| run_with_idle(&load, server, count, progress)) },
        Turn { name: "alone".to_owned(), run: Box::new(|| run(&load, server)) },
    ];
    let outcomes = run_interleaved(&mut turns, common.rounds, progress)?;
    let sides = turns.iter().zip(&outcomes);
    let sides = sides.map(|(turn, outcomes)| Side::new(&turn.name, &server.version, outcomes)).collect();
    drop(turns);
    let about = format!(
        "GET /v1/resolve of a page of 8 KB on {} connections, with {} idle ones and without",
        load.connections,
        group_digits(count as u64)
    );
    plan_run.finish(vec![Comparison { plan: NAME.to_owned(), about, sides, notes }])
}

/// Fails if the hard limit on descriptors does not allow `count` connections.
fn check_descriptor_limit(count: usize) -> Result<(), RunError> {
    let needed = count as u64 + OTHER_DESCRIPTORS;
    match getrlimit(Resource::Nofile).maximum {
        Some(max) if max < needed => Err(format!(
            "{count} idle connections need {needed} descriptors, but the hard limit is {max}; raise it as root \
             (ulimit -Hn {needed}) or lower --idle"
        )
        .into()),
        _ => Ok(()),
    }
}

/// Measures the memory of idle connections. Returns notes for the report.
fn measure_idle_memory(
    parallax: &Parallax,
    count: usize,
    progress: &Progress,
) -> Result<Vec<String>, RunError> {
    let before = parallax.server.resident_bytes();
    let idle = IdleConnections::open(&parallax.server, count, progress)?;
    let each = parallax.server.resident_bytes().saturating_sub(before) / count as u64;
    let open = parallax.metric("parallax_connections")?;
    drop(idle);
    let bound = parallax.metric(r#"parallax_memory_max_bytes{holder="connections"}"#)?;
    let bound = bound / parallax.metric("parallax_connections_max")?;
    Ok(vec![
        format!(
            "an idle connection after one response takes {each} bytes of resident memory; /metrics counts {open} open ones"
        ),
        format!("the server's own limit in /metrics is {bound:.0} bytes per connection"),
    ])
}

/// Runs a window while `count` idle connections are open.
fn run_with_idle(
    load: &Load<'_>,
    server: &Server,
    count: usize,
    progress: &Progress,
) -> Result<Outcome, RunError> {
    let _idle = IdleConnections::open(server, count, progress)?;
    run(load, server)
}

/// Idle connections. Each has had one response.
struct IdleConnections(Vec<Client>);

impl IdleConnections {
    fn open(server: &Server, count: usize, progress: &Progress) -> Result<Self, RunError> {
        let request = forced_page().bytes;
        progress.set_message(format!("opening {count} connections"));
        let mut open = Vec::with_capacity(count);
        for _ in 0..count {
            let mut connection = Client::new(server.address)?;
            connection.ask(&request).and_then(Response::require_ok)?;
            open.push(connection);
        }
        Ok(Self(open))
    }
}

impl Drop for IdleConnections {
    /// Resets the connections. Otherwise so many ports in TIME_WAIT would use up those of this machine.
    fn drop(&mut self) {
        self.0.drain(..).for_each(Client::reset);
    }
}
