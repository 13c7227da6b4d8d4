//! Parallax beside what one would use instead of it, each under the same load by turns.
//!
//! In go the programs that are installed; out comes a report of comparisons, Parallax the first side of each. A peer that is
//! missing is named with what installs it, one that fails with its log, and the rest goes on. Before it is measured each peer is
//! asked once and has to answer as Parallax does, in a body of the same bytes where it is given one.

mod contest;

use std::{fs, iter};

use self::contest::{Contender, Contest, answer, answered, per_second, with_head};
use crate::cli::{Compare, Compared};
use crate::exchange::{Answer, Exchange};
use crate::fill::{VISITOR, fill};
use crate::load::{Pace, counter};
use crate::plans::requests::{decided, forced, page_view};
use crate::plans::stage::Stage;
use crate::process::Server;
use crate::report::{Comparison, Report};
use crate::request::{Body, Expected, Template};
use crate::servers::parallax::{Options, Parallax, has_flag};
use crate::servers::{
    Asked, Place, StartError, floor, h2o, haproxy, nginx, parallax, unleash, webdis, workerd,
};
use crate::site::site;
use crate::turns::Failure;

/// Pages of the site of the goals.
const PAGES: usize = 100;
/// Where only reading is measured.
const READERS: usize = 64;
/// Where a disk is waited for: so many that many events share a sync.
const WRITERS: usize = 256;
/// Fewer of them: how well a server shares a sync between those who wait.
const FEW_WRITERS: usize = 32;
/// Visitors whose answers say which bodies there are: enough that each arm of an experiment has some.
const SAMPLE: u64 = 32;
/// Of what nginx can, for a comparison of latencies.
const HALF: f64 = 0.5;
/// How long Parallax polls before it sleeps, where it is asked to.
const SPIN: [&str; 2] = ["--spin-us", "50"];
const SPINNING: &str = "parallax that spins";

/// Bytes that a visitor may take in memory: it is some 400. And the server's default for all.
const VISITOR_BYTES: u64 = 512;
const VISITORS_BYTES_MIN: u64 = 1 << 30;

/// What the comparisons of a run share.
struct Run<'a> {
    given: &'a Compare,
    stage: Stage<'a>,
    /// Of a visitor's number.
    digits: usize,
}

/// All comparisons, one after the other. One that fails is told, and the run fails in the end.
pub fn compare(given: &Compare) -> Result<Report, Failure> {
    given.check()?;
    let stage = Stage::begin("compare", &given.common)?;
    let run = Run { given, stage, digits: given.visitors().ilog10() as usize };
    let mut comparisons = Vec::new();
    let mut failed = Vec::new();
    for compared in given.comparisons() {
        match run.one(compared) {
            Ok(more) => comparisons.extend(more),
            Err(failure) => {
                run.stage.progress.say(&format!("failed: {failure}"));
                failed.push(failure.to_string());
            }
        }
    }
    let report = run.stage.finish(comparisons)?;
    if failed.is_empty() { Ok(report) } else { Err(failed.join("\n").into()) }
}

impl Run<'_> {
    fn one(&self, compared: Compared) -> Result<Vec<Comparison>, Failure> {
        match compared {
            Compared::Pages => self.pages(),
            Compared::Decided => self.decided().map(|one| vec![one]),
            Compared::Durable => self.durable().map(|one| vec![one]),
            Compared::Events => self.events().map(|one| vec![one]),
        }
    }

    /// A page whose variants are named: who sends bytes, at full load, alone on a connection, and half busy.
    fn pages(&self) -> Result<Vec<Comparison>, Failure> {
        let place = self.place("pages")?;
        let parallax = self.parallax(&place, &[])?;
        let template = forced();
        let answers = [answer(&parallax.server, &template)?];
        let body = answers[0].body();
        let exact = answered(&template, body);
        let asked = Asked { request: &template.bytes, answers: &answers };
        let mut table = Table::new(self, Contender::new(parallax.server, exact.clone()));
        table.add("floor", || {
            floor::start(&place, &answers[0].bytes).map(|server| Contender::new(server, exact.clone()))
        });
        table
            .add("nginx", || nginx::start(&place, asked).map(|server| Contender::new(server, exact.clone())));
        table.add("h2o", || h2o::start(&place, asked).map(|server| Contender::new(server, exact.clone())));
        table.add("haproxy", || {
            haproxy::start(&place, asked).map(|server| Contender::new(server, exact.clone()))
        });
        table.add("webdis", || page_in_webdis(&place, asked, &template));
        let about = "a page of 8 KB whose variants are named, or the same bytes as they are";
        let full = table.contest("pages", about, READERS).measure(&self.stage)?;
        table.add(SPINNING, || self.spinning(&exact));
        let fewer = ["parallax", SPINNING, "floor", "nginx"];
        let about = "the same on one connection: how long one visitor waits";
        let one = table.contest_of(&fewer, "one connection", about, 1).measure(&self.stage)?;
        let mut comparisons = vec![full, one];
        comparisons.extend(self.half_busy(&table, &comparisons[0])?);
        Ok(comparisons)
    }

    /// How long visitors wait where the servers are half busy. None without nginx, whose half it is.
    fn half_busy(&self, table: &Table<'_>, full: &Comparison) -> Result<Option<Comparison>, Failure> {
        let Some(most) = per_second(full, "nginx") else { return Ok(None) };
        let per_second = (most * HALF).round();
        let about =
            format!("the same, {per_second} requests a second on a fixed schedule, half of what nginx can");
        let mut contest = table.contest_of(&["parallax", "floor", "nginx"], "half busy", &about, READERS);
        contest.pace = Pace::Open { per_second };
        contest.measure(&self.stage).map(Some)
    }

    /// A page decided for known visitors, beside who decides too, and who sends its bytes.
    fn decided(&self) -> Result<Comparison, Failure> {
        let place = self.place("decided")?;
        let memory = (self.given.visitors() * VISITOR_BYTES).max(VISITORS_BYTES_MIN).to_string();
        let parallax = self.parallax(&place, &["--profiles-memory", &memory])?;
        fill(&parallax, self.digits, &self.stage.progress)?;
        let template = decided(self.digits);
        let answers = bodies(&parallax.server, &template)?;
        let asked = Asked { request: &template.bytes, answers: &answers };
        let exact = answered(&template, answers[0].body());
        let mut table = Table::new(self, Contender::new(parallax.server, template.clone()));
        table.add("floor", || {
            floor::start(&place, &answers[0].bytes).map(|server| Contender::new(server, exact.clone()))
        });
        let sends = Asked { answers: &answers[..1], ..asked };
        table.add("nginx", || nginx::start(&place, sends).map(|server| Contender::new(server, exact)));
        table.add("workerd", || {
            workerd::start(&place, asked).map(|server| Contender::new(server, template.clone()))
        });
        let flags = flags(self.digits);
        let decides = || unleash::start(&place, &flags.bytes, answers[0].bytes.len());
        table.add("unleash-edge", || decides().map(|server| Contender::new(server, flags.clone())));
        let about = format!(
            "a page of 8 KB decided for one of {} known visitors after the other",
            self.given.visitors()
        );
        let mut contest = table.contest("decided", &about, READERS);
        contest
            .notes
            .push("floor and nginx decide nothing; unleash-edge and workerd know no visitor".to_owned());
        contest.measure(&self.stage)
    }

    /// An event, answered once it is on disk, beside the bare server, which writes nothing.
    fn durable(&self) -> Result<Comparison, Failure> {
        let place = self.place("durable")?;
        let parallax = self.parallax(&place, &[])?;
        let template = page_view();
        let receipt = answer(&parallax.server, &template)?;
        let same = answered(&template, receipt.body());
        let mut table = Table::new(self, Contender::new(parallax.server, template));
        table
            .add("floor", || floor::start(&place, &receipt.bytes).map(|server| Contender::new(server, same)));
        let about = "POST of an event of 500 bytes, answered once it is on disk; the floor writes nothing";
        table.contest("durable", about, WRITERS).measure(&self.stage)
    }

    /// The same beside a store that syncs each command before it answers.
    fn events(&self) -> Result<Comparison, Failure> {
        let place = self.place("events")?;
        let parallax = self.parallax(&place, &[])?;
        let template = page_view();
        let push = with_head(&template, |body| webdis::put(webdis::EVENT_TARGET, body), r#""RPUSH":"#);
        let mut table = Table::new(self, Contender::new(parallax.server, template.clone()));
        table.add("webdis", || webdis::start(&place).map(|server| Contender::new(server, push)));
        let about = "POST of an event of 500 bytes, on disk before it is answered, on 32 connections";
        let mut contest = table.contest("events", about, FEW_WRITERS);
        contest
            .notes
            .push("the store appends it to a list; it checks nothing and knows no duplicates".to_owned());
        contest.measure(&self.stage)
    }

    fn place(&self, name: &str) -> Result<Place, Failure> {
        let programs = self.given.programs.clone();
        self.stage.place_kept(&format!("servers-{name}"), programs)
    }

    fn parallax(&self, place: &Place, more: &[&str]) -> Result<Parallax, Failure> {
        let site = self.stage.author(&site(PAGES))?;
        let data = place.scratch.join("data");
        fs::create_dir_all(&data)?;
        let driver = self.given.common.driver.iter().flat_map(|driver| ["--driver", driver]);
        let more: Vec<String> = more.iter().copied().chain(driver).map(str::to_owned).collect();
        Ok(parallax::start(
            place,
            &Options { program: &self.stage.program, site: &site, data: &data, more: &more },
        )?)
    }

    /// Parallax that polls before it sleeps.
    fn spinning(&self, template: &Template) -> Result<Contender, Failure> {
        if !has_flag(&self.stage.program, SPIN[0]) {
            return Err(format!("it has no {}", SPIN[0]).into());
        }
        let parallax = self.parallax(&self.place("pages-spinning")?, &SPIN)?;
        let contender = Contender::new(parallax.server, template.clone());
        Ok(Contender { name: SPINNING.to_owned(), ..contender })
    }
}

/// Who takes part in a comparison, and why somebody does not.
struct Table<'a> {
    run: &'a Run<'a>,
    contenders: Vec<Contender>,
    /// By the server that they are about.
    notes: Vec<(String, String)>,
}

impl<'a> Table<'a> {
    fn new(run: &'a Run<'a>, parallax: Contender) -> Self {
        Self { run, contenders: vec![parallax], notes: Vec::new() }
    }

    /// Starts a server, if it is to take part. One that does not start is told.
    fn add<E: ToString>(&mut self, name: &str, start: impl FnOnce() -> Result<Contender, E>) {
        if !self.run.given.takes(name) {
            return;
        }
        match start() {
            Ok(contender) => self.contenders.push(contender),
            Err(error) => {
                let note = format!("without {name}: {}", error.to_string());
                self.run.stage.progress.say(&note);
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
            window: self.run.given.window(),
            rounds: self.run.given.rounds(),
            contenders,
            notes: self.notes.iter().map(|(_, note)| note.clone()).collect(),
        }
    }

    fn contest_of(&self, names: &[&str], plan: &'static str, about: &str, connections: usize) -> Contest<'_> {
        let mut contest = self.contest(plan, about, connections);
        contest.contenders.retain(|contender| names.contains(&contender.name.as_str()));
        let about_them = self.notes.iter().filter(|(name, _)| names.contains(&name.as_str()));
        contest.notes = about_them.map(|(_, note)| note.clone()).collect();
        contest
    }
}

/// The page in webdis, behind a request of its own.
fn page_in_webdis(place: &Place, asked: Asked<'_>, template: &Template) -> Result<Contender, StartError> {
    let get = webdis::get(webdis::PAGE_TARGET);
    let (server, body) = webdis::start_with_page(place, asked, &get)?;
    let template = answered(template, &body);
    Ok(Contender::new(server, Template { bytes: get, ..template }))
}

/// Answers of Parallax in all the bodies that visitors get, the first to the request as it stands.
fn bodies(parallax: &Server, template: &Template) -> Result<Vec<Answer>, Failure> {
    let mut exchange = Exchange::new(parallax.address)?;
    let mut answers: Vec<Answer> = Vec::new();
    for visitor in 0..SAMPLE {
        let mut request = template.bytes.clone();
        for place in &template.counters {
            counter::write(visitor, &mut request[place.clone()]);
        }
        let answer = exchange.ask(&request).and_then(Answer::good)?;
        if answers.iter().all(|other| other.body() != answer.body()) {
            answers.push(answer);
        }
    }
    Ok(answers)
}

/// A request for the flags of one user after the other, whose numbers have so many digits.
fn flags(digits: usize) -> Template {
    let bytes = unleash::request(&format!("{VISITOR}{}", "0".repeat(digits)));
    let number = bytes.windows(VISITOR.len()).position(|window| window == VISITOR.as_bytes());
    let number = number.map_or(0, |at| at + VISITOR.len());
    let decided = [r#""name":"de""#, r#""name":"aside""#].map(str::to_owned).to_vec();
    let expected = Expected { status: 200, body: Body::Contains(decided) };
    Template { bytes, counters: iter::once(number..number + digits).collect(), expected }
}
