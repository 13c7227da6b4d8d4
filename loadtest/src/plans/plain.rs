//! Plans that load one server with one or more kinds of requests. Each kind is a side. One more side is the
//! bare server, which sends the same bytes.

use std::fs;

use serde_json::Value;

use super::blog;
use super::plan_run::{PlanRun, run};
use super::requests::{
    self, batch, decided_page, forced_page, forced_page_gzip, forced_page_of_visitors, indexed_query,
    page_view, scan_query,
};
use crate::cli::{BatchArgs, CommonArgs, MixedArgs, ReferenceServer, VisitorArgs};
use crate::content::site_with_content;
use crate::exchange::{Response, ask};
use crate::fill::fill;
use crate::process::Server;
use crate::report::{Comparison, Report, Side, group_digits};
use crate::request::{Expected, ExpectedBody, Template};
use crate::servers::parallax::Parallax;
use crate::site::site;
use crate::turns::{RunError, Turn, run_interleaved};

/// Pages of the benchmark site.
const PAGES: usize = 100;
/// Connections of a plan that reads. With fewer, a worker would sometimes have nothing to do and sleep.
const READ_CONNECTIONS: usize = 64;
/// Connections of a plan that waits for the disk.
const WRITE_CONNECTIONS: usize = 256;
/// Connections that send batches. Together their batches have over a thousand events.
const BATCH_CONNECTIONS: usize = 16;
/// Memory limit per visitor, in bytes. A profile takes about 400.
const VISITOR_BYTES: u64 = 512;
/// The server's default memory limit for profiles, in bytes.
const PROFILES_MEMORY_BYTES_MIN: u64 = 1 << 30;
/// Pipelined requests of the plan that compares with pipelining.
const PIPELINE_DEPTH: usize = 16;

/// A plan: a site and its workloads.
pub struct Plan<'a> {
    pub name: &'static str,
    pub about: String,
    pub site: Vec<(String, Value)>,
    pub visitor_args: Option<&'a VisitorArgs>,
    pub connections: usize,
    /// Workloads. The others are compared with the first.
    pub workloads: Vec<Workload>,
    pub notes: Vec<String>,
}

/// Requests to Parallax that form one side of the plan.
pub struct Workload {
    pub name: String,
    pub templates: Vec<Template>,
    /// Requests per send. `None` uses `--depth`.
    pub depth: Option<usize>,
    /// True if all responses have one length, so that the bare server can send the same.
    pub has_floor: bool,
}

impl Workload {
    fn new(name: &str, template: Template) -> Self {
        Self { name: name.to_owned(), templates: vec![template], depth: None, has_floor: true }
    }

    fn on<'a>(&'a self, server: &'a Server) -> SideLoad<'a> {
        SideLoad { name: &self.name, server, templates: &self.templates, depth: self.depth }
    }
}

impl<'a> Plan<'a> {
    fn for_reads(name: &'static str, about: &str, workloads: Vec<Workload>) -> Self {
        let (site, about) = (site(PAGES), about.to_owned());
        Self {
            name,
            about,
            site,
            visitor_args: None,
            connections: READ_CONNECTIONS,
            workloads,
            notes: Vec::new(),
        }
    }

    fn for_writes(name: &'static str, about: &str, workload: Workload) -> Self {
        Self { connections: WRITE_CONNECTIONS, ..Self::for_reads(name, about, vec![workload]) }
    }
}

pub fn resolve_forced(common: &CommonArgs) -> Result<Report, RunError> {
    let about = "GET /v1/resolve of a page of 8 KB with forced variants";
    measure(Plan::for_reads("resolve-forced", about, vec![Workload::new("parallax", forced_page())]), common)
}

pub fn resolve_decided(args: &VisitorArgs) -> Result<Report, RunError> {
    let digits = digits(args.visitors);
    let about = format!(
        "GET /v1/resolve of a page of 8 KB decided for {} known visitors, one after the other",
        group_digits(args.visitors)
    );
    let workloads = vec![
        Workload::new("decided", decided_page(digits)),
        Workload::new("forced", forced_page_of_visitors(digits)),
    ];
    measure(
        Plan { visitor_args: Some(args), ..Plan::for_reads("resolve-decided", &about, workloads) },
        &args.common,
    )
}

pub fn resolve_gzip(common: &CommonArgs) -> Result<Report, RunError> {
    let workloads = vec![Workload::new("gzip", forced_page_gzip()), Workload::new("identity", forced_page())];
    measure(
        Plan::for_reads(
            "resolve-gzip",
            "GET /v1/resolve of a page of 8 KB as gzip, and uncompressed",
            workloads,
        ),
        common,
    )
}

pub fn variants(args: &VisitorArgs) -> Result<Report, RunError> {
    let digits = digits(args.visitors);
    let about =
        format!("GET /v1/variants for {} known visitors, one after the other", group_digits(args.visitors));
    let together = args.common.depth.map_or(PIPELINE_DEPTH, usize::from);
    let workload = |name: &str, depth| Workload {
        depth: Some(depth),
        ..Workload::new(name, requests::variants(digits))
    };
    let workloads = vec![workload("one at a time", 1), workload(&format!("{together} pipelined"), together)];
    measure(Plan { visitor_args: Some(args), ..Plan::for_reads("variants", &about, workloads) }, &args.common)
}

pub fn routes(common: &CommonArgs) -> Result<Report, RunError> {
    let about = "GET /v1/routes of a site of 100 routes";
    measure(Plan::for_reads("routes", about, vec![Workload::new("parallax", requests::routes())]), common)
}

pub fn query(common: &CommonArgs) -> Result<Report, RunError> {
    let workloads =
        vec![Workload::new("precomputed", indexed_query()), Workload::new("scanned", scan_query())];
    let about =
        "GET /v1/query of twelve among 1,020 items, with precomputed results, and with a scan of all items";
    measure(Plan { site: site_with_content(), ..Plan::for_reads("query", about, workloads) }, common)
}

pub fn page(common: &CommonArgs) -> Result<Report, RunError> {
    let about = "POST /v1/page of 500 bytes, acknowledged when it is on disk";
    measure(Plan::for_writes("page", about, Workload::new("parallax", page_view())), common)
}

pub fn track_batch(args: &BatchArgs) -> Result<Report, RunError> {
    let about = format!(
        "POST /v1/track of {} events of 500 bytes each, acknowledged when all are on disk",
        args.events
    );
    let mut plan = Plan::for_writes("track-batch", &about, Workload::new("parallax", batch(args.events)));
    plan.connections = BATCH_CONNECTIONS;
    plan.notes.push(format!("figures are per request of {} events", args.events));
    measure(plan, &args.common)
}

pub fn mixed(args: &MixedArgs) -> Result<Report, RunError> {
    let visits = blog::read_visits(args.cases.as_deref())?;
    let about = format!(
        "{} page views of {} visitors on {} pages of a public blog: a resolve and a page event each",
        visits.templates.len() / 2,
        visits.visitors,
        visits.pages
    );
    let workload = Workload {
        templates: visits.templates,
        has_floor: false,
        ..Workload::new("parallax", forced_page())
    };
    let mut plan = Plan { site: site(visits.pages), ..Plan::for_writes("mixed", &about, workload) };
    plan.notes.push(
        "half of the requests are GETs of 8 KB, half are durable POSTs; the bare server cannot send both"
            .to_owned(),
    );
    measure(plan, &args.common)
}

/// Returns the number of digits of the greatest visitor number.
fn digits(visitors: u64) -> usize {
    visitors.ilog10() as usize
}

/// A server and the requests of one side.
struct SideLoad<'a> {
    name: &'a str,
    server: &'a Server,
    templates: &'a [Template],
    depth: Option<usize>,
}

/// Starts the servers, sends one request of each kind, and loads the sides by turns.
fn measure(mut plan: Plan<'_>, common: &CommonArgs) -> Result<Report, RunError> {
    let plan_run = PlanRun::begin(plan.name, common)?;
    let parallax = start(&plan_run, &plan)?;
    for workload in &plan.workloads {
        plan.notes.push(response_size_note(workload, &parallax.server)?);
    }
    let floor = FloorSide::start(&plan_run, &plan, &parallax.server)?;
    let mut sides: Vec<SideLoad<'_>> =
        plan.workloads.iter().map(|workload| workload.on(&parallax.server)).collect();
    sides.extend(floor.as_ref().map(|floor| SideLoad { depth: sides[0].depth, ..floor.load() }));
    let mut turns: Vec<Turn<'_>> = sides.iter().map(|side| turn(side, &plan_run, plan.connections)).collect();
    let outcomes = run_interleaved(&mut turns, common.rounds, &plan_run.progress)?;
    drop(turns);
    let reported = sides.iter().zip(&outcomes);
    let reported = reported.map(|(side, outcomes)| Side::new(side.name, &side.server.version, outcomes));
    let (sides, about) = (reported.collect(), plan.about.clone());
    plan_run.finish(vec![Comparison { plan: plan.name.to_owned(), about, sides, notes: plan.notes }])
}

fn turn<'a>(side: &SideLoad<'a>, plan_run: &'a PlanRun<'_>, connections: usize) -> Turn<'a> {
    let (server, mut load) = (side.server, plan_run.load(side.server, connections, side.templates));
    load.depth = side.depth.unwrap_or(load.depth);
    Turn { name: side.name.to_owned(), run: Box::new(move || run(&load, server)) }
}

/// Returns a note with the size of the workload's response.
fn response_size_note(workload: &Workload, server: &Server) -> Result<String, RunError> {
    let response = ask_once(server, &workload.templates[0])?;
    Ok(format!(
        "{}: response of {} bytes, body of {} bytes",
        workload.name,
        response.bytes.len(),
        response.body().len()
    ))
}

/// Starts Parallax with the plan's site, and makes its visitors known.
fn start(plan_run: &PlanRun<'_>, plan: &Plan<'_>) -> Result<Parallax, RunError> {
    let Some(args) = plan.visitor_args else {
        return plan_run.start_parallax(&plan.site, &plan_run.work_path("data"), &[]);
    };
    let data = match &args.data {
        None => plan_run.work_path("data"),
        Some(directory) => {
            fs::create_dir_all(directory)?;
            fs::canonicalize(directory)?
        }
    };
    let memory = (args.visitors * VISITOR_BYTES).max(PROFILES_MEMORY_BYTES_MIN).to_string();
    let parallax = plan_run.start_parallax(&plan.site, &data, &["--profiles-memory", &memory])?;
    fill(&parallax, digits(args.visitors), &plan_run.progress)?;
    Ok(parallax)
}

/// Sends the unchanged template and returns the response.
fn ask_once(server: &Server, template: &Template) -> Result<Response, RunError> {
    let response = ask(server.address, &template.bytes).and_then(Response::require_ok);
    response.map_err(|error| format!("{}: {error}", server.name).into())
}

/// The bare server with the response of the first workload, and the requests of that workload.
struct FloorSide {
    server: Server,
    templates: Vec<Template>,
}

impl FloorSide {
    fn load(&self) -> SideLoad<'_> {
        SideLoad { name: "floor", server: &self.server, templates: &self.templates, depth: None }
    }

    /// Starts the bare server. Returns `None` if the command line or the workload excludes it.
    fn start(plan_run: &PlanRun<'_>, plan: &Plan<'_>, parallax: &Server) -> Result<Option<Self>, RunError> {
        let workload = &plan.workloads[0];
        if plan_run.common.against == ReferenceServer::None || !workload.has_floor {
            return Ok(None);
        }
        let response = ask_once(parallax, &workload.templates[0])?;
        let expected = Expected { status: 200, body: ExpectedBody::Exact(response.body().to_vec()) };
        let same = |template: &Template| Template { expected: expected.clone(), ..template.clone() };
        let templates = workload.templates.iter().map(same).collect();
        Ok(Some(Self { server: plan_run.start_floor(&response.bytes)?, templates }))
    }
}
