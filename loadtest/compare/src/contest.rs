//! A comparison of servers under one load, by turns: its contenders and its measurement.

use std::time::Duration;

use loadtest::exchange::{Response, ask};
use loadtest::load::counter;
use loadtest::load::{Load, Pace};
use loadtest::plans::plan_run::{PlanRun, run};
use loadtest::process::Server;
use loadtest::report::{Comparison, Side};
use loadtest::request::{Expected, ExpectedBody, Template};
use loadtest::turns::{RunError, Turn, run_interleaved};

/// Length of the trial load that each peer must pass before the measurement.
const TRIAL_WINDOW: Duration = Duration::from_millis(300);

/// A server and its requests.
#[derive(Debug)]
pub struct Contender {
    pub name: String,
    pub server: Server,
    pub templates: Vec<Template>,
}

impl Contender {
    pub fn new(server: Server, template: Template) -> Self {
        Self { name: server.name.to_owned(), server, templates: vec![template] }
    }
}

/// A set of contenders and their common load.
#[derive(Debug)]
pub struct Contest<'a> {
    pub plan: &'static str,
    pub about: String,
    pub connections: usize,
    pub pace: Pace,
    pub window: Duration,
    pub rounds: usize,
    /// Contenders. The first is Parallax, with which the others are compared.
    pub contenders: Vec<&'a Contender>,
    pub notes: Vec<String>,
}

impl Contest<'_> {
    /// Measures all contenders that pass the trial load.
    pub fn measure(mut self, plan_run: &PlanRun<'_>) -> Result<Comparison, RunError> {
        plan_run.progress.print(&format!("{}: {}", self.plan, self.about));
        self.exclude_failing(plan_run);
        for contender in &self.contenders {
            let response = ask_once(&contender.server, &contender.templates[0])?;
            let (all, body) = (response.bytes.len(), response.body().len());
            self.notes.push(format!("{}: response of {all} bytes, body of {body} bytes", contender.name));
        }
        let mut turns: Vec<Turn<'_>> =
            self.contenders.iter().map(|contender| self.turn(plan_run, contender)).collect();
        let outcomes = run_interleaved(&mut turns, self.rounds, &plan_run.progress)?;
        drop(turns);
        let sides = self.contenders.iter().zip(&outcomes);
        let sides = sides
            .map(|(contender, outcomes)| Side::new(&contender.name, &contender.server.version, outcomes));
        let sides = sides.collect();
        Ok(Comparison { plan: self.plan.to_owned(), about: self.about, sides, notes: self.notes })
    }

    fn turn<'s>(&'s self, plan_run: &'s PlanRun<'_>, contender: &'s Contender) -> Turn<'s> {
        let load = self.load(plan_run, contender);
        Turn { name: contender.name.clone(), run: Box::new(move || run(&load, &contender.server)) }
    }

    fn load<'s>(&self, plan_run: &'s PlanRun<'_>, contender: &'s Contender) -> Load<'s> {
        let load = plan_run.load(&contender.server, self.connections, &contender.templates);
        Load { pace: self.pace, window: self.window, ..load }
    }

    /// Removes peers that fail in a short window. Later, an unexpected response would end the whole
    /// comparison.
    fn exclude_failing(&mut self, plan_run: &PlanRun<'_>) {
        let contenders = std::mem::take(&mut self.contenders);
        for (number, contender) in contenders.into_iter().enumerate() {
            let load = Load {
                warm_up: Duration::ZERO,
                window: TRIAL_WINDOW,
                pace: Pace::Closed,
                ..self.load(plan_run, contender)
            };
            let failure = match run(&load, &contender.server) {
                Ok(outcome) if outcome.failed == 0 && outcome.completed > 0 => None,
                Ok(outcome) => Some(outcome.failure.unwrap_or_else(|| "no responses".to_owned())),
                Err(failure) => Some(failure.to_string()),
            };
            match failure {
                Some(failure) if number > 0 => {
                    let note = format!("{} is excluded: {failure}", contender.name);
                    plan_run.progress.print(&note);
                    self.notes.push(note);
                }
                _ => self.contenders.push(contender),
            }
        }
    }
}

/// Returns the requests per second of a side, as the median of its windows.
pub fn per_second(comparison: &Comparison, name: &str) -> Option<f64> {
    let side = comparison.sides.iter().find(|side| side.server == name)?;
    let mut all: Vec<f64> = side.windows.iter().map(|window| window.per_second).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Sends a request with a fresh number and returns the response.
pub fn ask_once(server: &Server, template: &Template) -> Result<Response, RunError> {
    let mut request = template.bytes.clone();
    let number = counter::next_number();
    template.counters.iter().for_each(|range| counter::write_digits(number, &mut request[range.clone()]));
    let response = ask(server.address, &request).and_then(Response::require_ok);
    response.map_err(|error| format!("{}: {error}", server.name).into())
}

/// Returns the same request, with exactly this body expected.
pub fn expect_body(template: &Template, body: &[u8]) -> Template {
    Template {
        expected: Expected { status: 200, body: ExpectedBody::Exact(body.to_vec()) },
        ..template.clone()
    }
}

/// Returns a request with the template's body after the head that `other` makes for it.
pub fn with_request_head(template: &Template, other: impl Fn(&[u8]) -> Vec<u8>, contains: &str) -> Template {
    let old = template.bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
    let bytes = other(&template.bytes[old..]);
    let head = bytes.len() - (template.bytes.len() - old);
    let counters = template.counters.iter().filter(|range| range.start >= old);
    let counters = counters.map(|range| range.start - old + head..range.end - old + head).collect();
    let expected = Expected { status: 200, body: ExpectedBody::Contains(vec![contains.to_owned()]) };
    Template { bytes, counters, expected }
}

#[cfg(test)]
mod tests {
    use loadtest::plans::requests::page_view;

    use super::*;

    #[test]
    fn a_body_keeps_its_counters_after_another_head() {
        let template = page_view();
        let other = with_request_head(&template, |body| [b"PUT /x HTTP/1.1\r\n\r\n", body].concat(), "");
        let digits = |template: &Template| -> Vec<Vec<u8>> {
            template
                .counters
                .iter()
                .map(|range| template.bytes[range.start - 8..range.end].to_vec())
                .collect()
        };
        assert_eq!(digits(&other), digits(&template));
        assert!(!other.counters.is_empty());
    }
}
