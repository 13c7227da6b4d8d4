//! Compares Parallax with other servers, all under the same load, by turns.
//!
//! Produces a report of comparisons. Parallax is the first side of each. If a peer is not installed, the run
//! prints the command that installs it. If a peer fails, the run prints its log. In both cases the comparison
//! continues without it. Before the measurement each peer gets one request and must respond as Parallax does.
//! Peers that serve Parallax's body must send exactly its bytes.

use std::path::Path;
use std::process::Command;
use std::{fs, iter};

use loadtest::exchange::{Client, Response};
use loadtest::fill::{VISITOR, fill};
use loadtest::load::{Pace, counter};
use loadtest::plans::plan_run::PlanRun;
use loadtest::plans::requests::{decided_page, forced_page, page_view};
use loadtest::process::Server;
use loadtest::report::{Comparison, Report};
use loadtest::request::{Expected, ExpectedBody, Template};
use loadtest::servers::parallax::{Options, Parallax};
use loadtest::servers::{LaunchContext, floor, parallax};
use loadtest::site::site;
use loadtest::turns::RunError;

use crate::args::{CompareArgs, ComparisonKind};
use crate::contest::{Contender, Contest, ask_once, expect_body, per_second, with_request_head};
use crate::peers::{
    PeerContext, PeerError, ReferenceResponses, h2o, haproxy, nginx, unleash, webdis, workerd,
};
use crate::{html, prepared};

/// Pages of the benchmark site.
const PAGES: usize = 100;
/// Connections of comparisons that only read.
const READ_CONNECTIONS: usize = 64;
/// Connections of comparisons that wait for the disk: so many that many events share a sync.
const WRITE_CONNECTIONS: usize = 256;
/// A smaller number of writing connections, to see how well a server shares a sync between them.
const FEW_WRITE_CONNECTIONS: usize = 32;
/// Sampled visitors, whose responses give the different bodies: enough that every arm of an experiment has
/// some.
const SAMPLE_VISITORS: u64 = 32;
/// Share of nginx's maximum rate, for the comparison of latencies.
const HALF_LOAD: f64 = 0.5;
/// Flag and microseconds of Parallax's busy polling before it sleeps.
const BUSY_POLL_FLAGS: [&str; 2] = ["--busy-poll-us", "50"];
const BUSY_POLLING: &str = "parallax busy polling";

/// Memory limit per visitor, in bytes (a profile takes about 400), and the server's default limit for all of
/// them.
const VISITOR_BYTES: u64 = 512;
const PROFILES_MEMORY_BYTES_MIN: u64 = 1 << 30;

/// The state that the comparisons of a run share.
struct CompareRun<'a> {
    args: &'a CompareArgs,
    plan_run: PlanRun<'a>,
    /// Digits of a visitor's number.
    digits: usize,
}

/// Runs the comparisons one after the other. If one fails, prints its error and runs the others. Then returns
/// the errors.
pub fn compare(args: &CompareArgs) -> Result<Report, RunError> {
    args.validate()?;
    let plan_run = PlanRun::begin("compare", &args.common)?;
    let run = CompareRun { args, plan_run, digits: args.visitors().ilog10() as usize };
    let mut comparisons = Vec::new();
    let mut errors = Vec::new();
    for kind in args.comparisons() {
        match run.run_comparison(kind) {
            Ok(more) => comparisons.extend(more),
            Err(failure) => {
                run.plan_run.progress.print(&format!("failed: {failure}"));
                errors.push(failure.to_string());
            }
        }
    }
    let out = run.plan_run.out.clone();
    let report = run.plan_run.finish(comparisons)?;
    for (name, text) in html::files(&report) {
        let path = out.join(name);
        fs::write(&path, text)?;
        eprintln!("wrote {}", path.display());
    }
    if errors.is_empty() { Ok(report) } else { Err(errors.join("\n").into()) }
}

impl CompareRun<'_> {
    fn run_comparison(&self, kind: ComparisonKind) -> Result<Vec<Comparison>, RunError> {
        match kind {
            ComparisonKind::Pages => self.compare_pages(),
            ComparisonKind::Decided => self.compare_decided().map(|one| vec![one]),
            ComparisonKind::Durable => self.compare_durable().map(|one| vec![one]),
            ComparisonKind::Events => self.compare_events().map(|one| vec![one]),
        }
    }

    /// Compares a page with forced variants: at full load, on one connection, and at half load.
    fn compare_pages(&self) -> Result<Vec<Comparison>, RunError> {
        let context = self.peer_context("pages")?;
        let parallax = self.start_parallax(&context, &[])?;
        let template = forced_page();
        let responses = [ask_once(&parallax.server, &template)?];
        let body = responses[0].body();
        let exact = expect_body(&template, body);
        let reference = ReferenceResponses { request: &template.bytes, responses: &responses };
        let mut contenders = Contenders::new(self, Contender::new(parallax.server, exact.clone()));
        contenders.add("floor", || {
            floor::start(&context.launch, &responses[0].bytes)
                .map(|server| Contender::new(server, exact.clone()))
        });
        contenders.add("nginx", || {
            nginx::start(&context, reference).map(|server| Contender::new(server, exact.clone()))
        });
        contenders.add("h2o", || {
            h2o::start(&context, reference).map(|server| Contender::new(server, exact.clone()))
        });
        contenders.add("haproxy", || {
            haproxy::start(&context, reference).map(|server| Contender::new(server, exact.clone()))
        });
        contenders.add("webdis", || page_in_webdis(&context, reference, &template));
        let about = "a page of 8 KB with forced variants, or the same bytes as a fixed response";
        let full = contenders.contest("pages", about, READ_CONNECTIONS).measure(&self.plan_run)?;
        contenders.add(BUSY_POLLING, || self.start_busy_polling(&exact));
        let fewer = ["parallax", BUSY_POLLING, "floor", "nginx"];
        let about = "the same on one connection: the latency of a single client";
        let one = contenders.contest_with(&fewer, "one connection", about, 1).measure(&self.plan_run)?;
        let mut comparisons = vec![full, one];
        comparisons.extend(self.compare_half_load(&contenders, &comparisons[0])?);
        Ok(comparisons)
    }

    /// Compares latencies at half of nginx's maximum rate. Returns `None` without nginx.
    fn compare_half_load(
        &self,
        contenders: &Contenders<'_>,
        full: &Comparison,
    ) -> Result<Option<Comparison>, RunError> {
        let Some(max) = per_second(full, "nginx") else { return Ok(None) };
        let per_second = (max * HALF_LOAD).round();
        let about = format!(
            "the same at {per_second} requests per second on a fixed schedule, half of nginx's maximum"
        );
        let mut contest =
            contenders.contest_with(&["parallax", "floor", "nginx"], "half load", &about, READ_CONNECTIONS);
        contest.pace = Pace::Open { per_second };
        contest.measure(&self.plan_run).map(Some)
    }

    /// Compares a page decided for known visitors with servers that decide too, and with servers of fixed
    /// bytes.
    fn compare_decided(&self) -> Result<Comparison, RunError> {
        let context = self.peer_context("decided")?;
        let memory = (self.args.visitors() * VISITOR_BYTES).max(PROFILES_MEMORY_BYTES_MIN).to_string();
        let parallax = self.start_parallax(&context, &["--profiles-memory", &memory])?;
        fill(&parallax, self.digits, &self.plan_run.progress)?;
        let template = decided_page(self.digits);
        let responses = distinct_responses(&parallax.server, &template)?;
        let reference = ReferenceResponses { request: &template.bytes, responses: &responses };
        let exact = expect_body(&template, responses[0].body());
        let mut contenders = Contenders::new(self, Contender::new(parallax.server, template.clone()));
        contenders.add("floor", || {
            floor::start(&context.launch, &responses[0].bytes)
                .map(|server| Contender::new(server, exact.clone()))
        });
        contenders.add("prepared", || {
            prepared::start(&context.launch, &responses[0].bytes, self.args.common.driver.as_deref())
                .map(|server| Contender::new(server, exact.clone()))
        });
        let sends = ReferenceResponses { responses: &responses[..1], ..reference };
        contenders.add("nginx", || nginx::start(&context, sends).map(|server| Contender::new(server, exact)));
        contenders.add("workerd", || {
            workerd::start(&context, reference).map(|server| Contender::new(server, template.clone()))
        });
        let flags = flags_template(self.digits);
        let start = || unleash::start(&context, &flags.bytes, responses[0].bytes.len());
        contenders.add("unleash-edge", || start().map(|server| Contender::new(server, flags.clone())));
        let about = format!(
            "a page of 8 KB decided for {} known visitors, one after the other",
            self.args.visitors()
        );
        let mut contest = contenders.contest("decided", &about, READ_CONNECTIONS);
        contest.notes.push(
            "floor, prepared and nginx send fixed bytes; unleash-edge and workerd have no visitor profiles"
                .to_owned(),
        );
        contest.notes.push("prepared has the runtime of Parallax and no routing".to_owned());
        contest.measure(&self.plan_run)
    }

    /// Compares a durable event with the bare server, which writes nothing.
    fn compare_durable(&self) -> Result<Comparison, RunError> {
        let context = self.peer_context("durable")?;
        let parallax = self.start_parallax(&context, &[])?;
        let template = page_view();
        let receipt = ask_once(&parallax.server, &template)?;
        let same = expect_body(&template, receipt.body());
        let mut contenders = Contenders::new(self, Contender::new(parallax.server, template));
        contenders.add("floor", || {
            floor::start(&context.launch, &receipt.bytes).map(|server| Contender::new(server, same))
        });
        let about = "POST of an event of 500 bytes, acknowledged when it is on disk; floor writes nothing";
        contenders.contest("durable", about, WRITE_CONNECTIONS).measure(&self.plan_run)
    }

    /// Compares a durable event with a store that syncs each command before it responds.
    fn compare_events(&self) -> Result<Comparison, RunError> {
        let context = self.peer_context("events")?;
        let parallax = self.start_parallax(&context, &[])?;
        let template = page_view();
        let push =
            with_request_head(&template, |body| webdis::put(webdis::EVENT_TARGET, body), r#""RPUSH":"#);
        let mut contenders = Contenders::new(self, Contender::new(parallax.server, template.clone()));
        contenders.add("webdis", || webdis::start(&context).map(|server| Contender::new(server, push)));
        let about = "POST of an event of 500 bytes, acknowledged when it is on disk, on 32 connections";
        let mut contest = contenders.contest("events", about, FEW_WRITE_CONNECTIONS);
        contest.notes.push(
            "redis-server appends the event to a list, without validation and deduplication".to_owned(),
        );
        contest.measure(&self.plan_run)
    }

    /// Returns a launch context whose configuration files stay beside the report, in `servers-<name>`.
    fn peer_context(&self, name: &str) -> Result<PeerContext, RunError> {
        let name = format!("servers-{name}");
        let (config_dir, scratch_dir) = (self.plan_run.out.join(&name), self.plan_run.work_path(&name));
        fs::create_dir_all(&config_dir)?;
        fs::create_dir_all(&scratch_dir)?;
        let processor = self.args.common.server_cpu;
        let launch = LaunchContext { config_dir, scratch_dir, processor };
        Ok(PeerContext { launch, programs: self.args.programs.clone() })
    }

    fn start_parallax(&self, context: &PeerContext, more: &[&str]) -> Result<Parallax, RunError> {
        let site = self.plan_run.write_site(&site(PAGES))?;
        let data = context.launch.scratch_dir.join("data");
        fs::create_dir_all(&data)?;
        let driver = self.args.common.driver.iter().flat_map(|driver| ["--driver", driver]);
        let more: Vec<String> = more.iter().copied().chain(driver).map(str::to_owned).collect();
        Ok(parallax::start(
            &context.launch,
            &Options { program: &self.plan_run.program, site: &site, data: &data, more: &more },
        )?)
    }

    /// Starts Parallax with busy polling.
    fn start_busy_polling(&self, template: &Template) -> Result<Contender, RunError> {
        if !has_flag(&self.plan_run.program, BUSY_POLL_FLAGS[0]) {
            return Err(format!("the program has no flag {}", BUSY_POLL_FLAGS[0]).into());
        }
        let parallax = self.start_parallax(&self.peer_context("pages-busy-polling")?, &BUSY_POLL_FLAGS)?;
        let contender = Contender::new(parallax.server, template.clone());
        Ok(Contender { name: BUSY_POLLING.to_owned(), ..contender })
    }
}

/// The contenders of a comparison, and notes about servers that do not take part.
struct Contenders<'a> {
    run: &'a CompareRun<'a>,
    contenders: Vec<Contender>,
    /// Server names and notes about them.
    notes: Vec<(String, String)>,
}

impl<'a> Contenders<'a> {
    fn new(run: &'a CompareRun<'a>, parallax: Contender) -> Self {
        Self { run, contenders: vec![parallax], notes: Vec::new() }
    }

    /// Starts a server if it is selected. If the start fails, prints why and keeps the text as a note.
    fn add<E: ToString>(&mut self, name: &str, start: impl FnOnce() -> Result<Contender, E>) {
        if !self.run.args.includes(name) {
            return;
        }
        match start() {
            Ok(contender) => self.contenders.push(contender),
            Err(error) => {
                let note = format!("{name} does not take part: {}", error.to_string());
                self.run.plan_run.progress.print(&note);
                self.notes.push((name.to_owned(), note));
            }
        }
    }

    fn contest(&self, plan: &'static str, about: &str, connections: usize) -> Contest<'_> {
        let contenders = self.contenders.iter().collect();
        Contest {
            plan,
            about: about.to_owned(),
            connections,
            pace: Pace::Closed,
            window: self.run.args.window(),
            rounds: self.run.args.rounds(),
            contenders,
            notes: self.notes.iter().map(|(_, note)| note.clone()).collect(),
        }
    }

    fn contest_with(
        &self,
        names: &[&str],
        plan: &'static str,
        about: &str,
        connections: usize,
    ) -> Contest<'_> {
        let mut contest = self.contest(plan, about, connections);
        contest.contenders.retain(|contender| names.contains(&contender.name.as_str()));
        let about_them = self.notes.iter().filter(|(name, _)| names.contains(&name.as_str()));
        contest.notes = about_them.map(|(_, note)| note.clone()).collect();
        contest
    }
}

/// Starts webdis with the page. It needs a request of its own.
fn page_in_webdis(
    context: &PeerContext,
    reference: ReferenceResponses<'_>,
    template: &Template,
) -> Result<Contender, PeerError> {
    let get = webdis::get(webdis::PAGE_TARGET);
    let (server, body) = webdis::start_with_page(context, reference, &get)?;
    let template = expect_body(template, &body);
    Ok(Contender::new(server, Template { bytes: get, ..template }))
}

/// Returns responses of Parallax with all different bodies that visitors get. The unchanged template has the ID
/// of visitor 0, so the first response is that of visitor 0.
fn distinct_responses(parallax: &Server, template: &Template) -> Result<Vec<Response>, RunError> {
    let mut exchange = Client::new(parallax.address)?;
    let mut responses: Vec<Response> = Vec::new();
    for visitor in 0..SAMPLE_VISITORS {
        let mut request = template.bytes.clone();
        for range in &template.counters {
            counter::write_digits(visitor, &mut request[range.clone()]);
        }
        let response = exchange.ask(&request).and_then(Response::require_ok)?;
        if responses.iter().all(|other| other.body() != response.body()) {
            responses.push(response);
        }
    }
    Ok(responses)
}

/// Returns a request for the flags of one user after the other, with user numbers of this many digits.
fn flags_template(digits: usize) -> Template {
    let bytes = unleash::request(&format!("{VISITOR}{}", "0".repeat(digits)));
    let number = bytes.windows(VISITOR.len()).position(|window| window == VISITOR.as_bytes());
    let number = number.map_or(0, |at| at + VISITOR.len());
    let decided_page = [r#""name":"de""#, r#""name":"aside""#].map(str::to_owned).to_vec();
    let expected = Expected { status: 200, body: ExpectedBody::Contains(decided_page) };
    Template { bytes, counters: iter::once(number..number + digits).collect(), expected }
}

/// Returns whether the program's `serve` has this flag.
fn has_flag(program: &Path, flag: &str) -> bool {
    let output = Command::new(program).args(["serve", "--help"]).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == flag)
    })
}
