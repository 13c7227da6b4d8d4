//! Plans that ask one server for something, in one way or another: each way is a side, and so is a bare server that sends the
//! same bytes.

use std::fs;

use serde_json::Value;

use super::blog;
use super::requests::{self, batch, decided, forced, forced_gzip, forced_known, indexed, page_view, scanned};
use super::stage::{Stage, run};
use crate::cli::{Against, Batch, Common, Known, Mixed};
use crate::content::site_with_content;
use crate::exchange::{Answer, ask};
use crate::fill::fill;
use crate::process::Server;
use crate::report::{Comparison, Report, Side, grouped};
use crate::request::{Body, Expected, Template};
use crate::servers::parallax::Parallax;
use crate::site::site;
use crate::turns::{Failure, Turn, by_turns};

/// Pages of the site of the goals.
const PAGES: usize = 100;
/// Connections of a plan that reads: fewer leave a worker asleep now and then.
const READERS: usize = 64;
/// Connections of a plan that waits for a disk.
const WRITERS: usize = 256;
/// Connections that send batches: all together some thousand events.
const BATCHES: usize = 16;
/// What a visitor is let to take in memory; it is some 400.
const VISITOR_BYTES: u64 = 512;
/// The server's default.
const VISITORS_BYTES_MIN: u64 = 1 << 30;
/// Requests that are sent together where pipelining is the question.
const PIPELINED: usize = 16;

/// What is asked.
pub struct Plan<'a> {
    pub name: &'static str,
    pub about: String,
    pub site: Vec<(String, Value)>,
    pub known: Option<&'a Known>,
    pub connections: usize,
    /// The first is what the others are compared with.
    pub ways: Vec<Way>,
    pub notes: Vec<String>,
}

/// A side of Parallax.
pub struct Way {
    pub name: String,
    pub templates: Vec<Template>,
    /// Requests in one send, where the command line does not decide.
    pub depth: Option<usize>,
    /// Whether all its answers are of one length, so that a bare server can send the same.
    pub has_floor: bool,
}

impl Way {
    fn new(name: &str, template: Template) -> Self {
        Self { name: name.to_owned(), templates: vec![template], depth: None, has_floor: true }
    }

    fn of<'a>(&'a self, server: &'a Server) -> Asked<'a> {
        Asked { name: &self.name, server, templates: &self.templates, depth: self.depth }
    }
}

impl<'a> Plan<'a> {
    fn reading(name: &'static str, about: &str, ways: Vec<Way>) -> Self {
        let (site, about) = (site(PAGES), about.to_owned());
        Self { name, about, site, known: None, connections: READERS, ways, notes: Vec::new() }
    }

    fn writing(name: &'static str, about: &str, way: Way) -> Self {
        Self { connections: WRITERS, ..Self::reading(name, about, vec![way]) }
    }
}

pub fn resolve_forced(common: &Common) -> Result<Report, Failure> {
    let about = "GET /v1/resolve of a page of 8 KB whose variants are named";
    measure(Plan::reading("resolve-forced", about, vec![Way::new("parallax", forced())]), common)
}

pub fn resolve_decided(known: &Known) -> Result<Report, Failure> {
    let digits = digits(known.visitors);
    let about = format!(
        "GET /v1/resolve of a page of 8 KB decided for one of {} known visitors after the other",
        grouped(known.visitors)
    );
    let ways = vec![Way::new("decided", decided(digits)), Way::new("forced", forced_known(digits))];
    measure(Plan { known: Some(known), ..Plan::reading("resolve-decided", &about, ways) }, &known.common)
}

pub fn resolve_gzip(common: &Common) -> Result<Report, Failure> {
    let ways = vec![Way::new("gzip", forced_gzip()), Way::new("identity", forced())];
    measure(
        Plan::reading("resolve-gzip", "GET /v1/resolve of a page of 8 KB as gzip, and as it is", ways),
        common,
    )
}

pub fn variants(known: &Known) -> Result<Report, Failure> {
    let digits = digits(known.visitors);
    let about =
        format!("GET /v1/variants for one of {} known visitors after the other", grouped(known.visitors));
    let together = known.common.depth.map_or(PIPELINED, usize::from);
    let way = |name: &str, depth| Way { depth: Some(depth), ..Way::new(name, requests::variants(digits)) };
    let ways = vec![way("one by one", 1), way(&format!("{together} together"), together)];
    measure(Plan { known: Some(known), ..Plan::reading("variants", &about, ways) }, &known.common)
}

pub fn routes(common: &Common) -> Result<Report, Failure> {
    let about = "GET /v1/routes of a site of 100 routes";
    measure(Plan::reading("routes", about, vec![Way::new("parallax", requests::routes())]), common)
}

pub fn query(common: &Common) -> Result<Report, Failure> {
    let ways = vec![Way::new("known ahead", indexed()), Way::new("looked for", scanned())];
    let about = "GET /v1/query of twelve among 1,020 items, answered ahead, and looked for in all of them";
    measure(Plan { site: site_with_content(), ..Plan::reading("query", about, ways) }, common)
}

pub fn page(common: &Common) -> Result<Report, Failure> {
    let about = "POST /v1/page of 500 bytes, answered once it is on disk";
    measure(Plan::writing("page", about, Way::new("parallax", page_view())), common)
}

pub fn track_batch(given: &Batch) -> Result<Report, Failure> {
    let about =
        format!("POST /v1/track of {} events of 500 bytes each, answered once all are on disk", given.events);
    let mut plan = Plan::writing("track-batch", &about, Way::new("parallax", batch(given.events)));
    plan.connections = BATCHES;
    plan.notes.push(format!("figures are those of a request of {} events", given.events));
    measure(plan, &given.common)
}

pub fn mixed(given: &Mixed) -> Result<Report, Failure> {
    let visits = blog::visits(given.cases.as_deref())?;
    let about = format!(
        "{} page views of {} visitors on {} pages as a public blog had them: a resolve and a page event each",
        visits.templates.len() / 2,
        visits.visitors,
        visits.pages
    );
    let way = Way { templates: visits.templates, has_floor: false, ..Way::new("parallax", forced()) };
    let mut plan = Plan { site: site(visits.pages), ..Plan::writing("mixed", &about, way) };
    plan.notes.push(
        "half of the requests are GETs of 8 KB, half durable POSTs: no bare server sends both".to_owned(),
    );
    measure(plan, &given.common)
}

/// Digits of the greatest visitor's number.
fn digits(visitors: u64) -> usize {
    visitors.ilog10() as usize
}

/// A server, and what it is asked.
struct Asked<'a> {
    name: &'a str,
    server: &'a Server,
    templates: &'a [Template],
    depth: Option<usize>,
}

/// Starts the servers, asks each once, then loads them by turns.
fn measure(mut plan: Plan<'_>, common: &Common) -> Result<Report, Failure> {
    let stage = Stage::begin(plan.name, common)?;
    let parallax = start(&stage, &plan)?;
    for way in &plan.ways {
        plan.notes.push(length(way, &parallax.server)?);
    }
    let floor = Floor::beside(&stage, &plan, &parallax.server)?;
    let mut sides: Vec<Asked<'_>> = plan.ways.iter().map(|way| way.of(&parallax.server)).collect();
    sides.extend(floor.as_ref().map(|floor| Asked { depth: sides[0].depth, ..floor.asked() }));
    let mut turns: Vec<Turn<'_>> = sides.iter().map(|side| turn(side, &stage, plan.connections)).collect();
    let outcomes = by_turns(&mut turns, common.rounds, &stage.progress)?;
    drop(turns);
    let reported = sides.iter().zip(&outcomes);
    let reported = reported.map(|(side, outcomes)| Side::new(side.name, &side.server.version, outcomes));
    let (sides, about) = (reported.collect(), plan.about.clone());
    stage.finish(vec![Comparison { plan: plan.name.to_owned(), about, sides, notes: plan.notes }])
}

fn turn<'a>(side: &Asked<'a>, stage: &'a Stage<'_>, connections: usize) -> Turn<'a> {
    let (server, mut load) = (side.server, stage.load(side.server, connections, side.templates));
    load.depth = side.depth.unwrap_or(load.depth);
    Turn { name: side.name.to_owned(), run: Box::new(move || run(&load, server)) }
}

/// How long its answer is, in words.
fn length(way: &Way, server: &Server) -> Result<String, Failure> {
    let answer = answer(server, &way.templates[0])?;
    Ok(format!("{}: {} bytes an answer, {} of them body", way.name, answer.bytes.len(), answer.body().len()))
}

/// Parallax with the plan's site, and its visitors known.
fn start(stage: &Stage<'_>, plan: &Plan<'_>) -> Result<Parallax, Failure> {
    let Some(known) = plan.known else { return stage.parallax(&plan.site, &stage.path("data"), &[]) };
    let data = match &known.data {
        None => stage.path("data"),
        Some(folder) => {
            fs::create_dir_all(folder)?;
            fs::canonicalize(folder)?
        }
    };
    let memory = (known.visitors * VISITOR_BYTES).max(VISITORS_BYTES_MIN).to_string();
    let parallax = stage.parallax(&plan.site, &data, &["--profiles-memory", &memory])?;
    fill(&parallax, digits(known.visitors), &stage.progress)?;
    Ok(parallax)
}

/// What a server answers to a request as it stands.
fn answer(server: &Server, template: &Template) -> Result<Answer, Failure> {
    Ok(ask(server.address, &template.bytes).and_then(Answer::good)?)
}

/// The bare server, and the same requests as those of the first way, whose answers are these bytes.
struct Floor {
    server: Server,
    templates: Vec<Template>,
}

impl Floor {
    fn asked(&self) -> Asked<'_> {
        Asked { name: "floor", server: &self.server, templates: &self.templates, depth: None }
    }

    /// None where none is wanted.
    fn beside(stage: &Stage<'_>, plan: &Plan<'_>, parallax: &Server) -> Result<Option<Self>, Failure> {
        let way = &plan.ways[0];
        if stage.common.against == Against::None || !way.has_floor {
            return Ok(None);
        }
        let answer = answer(parallax, &way.templates[0])?;
        let expected = Expected { status: 200, body: Body::Same(answer.body().to_vec()) };
        let same = |template: &Template| Template { expected: expected.clone(), ..template.clone() };
        let templates = way.templates.iter().map(same).collect();
        Ok(Some(Self { server: stage.floor(&answer.bytes)?, templates }))
    }
}
