//! Servers under one load, by turns: who takes part, and what it comes to.

use std::time::Duration;

use crate::exchange::{Answer, ask};
use crate::load::counter;
use crate::load::{Load, Pace};
use crate::plans::stage::{Stage, run};
use crate::process::Server;
use crate::report::{Comparison, Side};
use crate::request::{Body, Expected, Template};
use crate::turns::{Failure, Turn, by_turns};

/// Of the load that each peer has to stand before it is measured.
const TRIAL: Duration = Duration::from_millis(300);

/// A server, and what it is asked.
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

/// What is compared, under which load.
#[derive(Debug)]
pub struct Contest<'a> {
    pub plan: &'static str,
    pub about: String,
    pub connections: usize,
    pub pace: Pace,
    pub window: Duration,
    pub rounds: usize,
    /// The first is Parallax, with which the others are compared.
    pub contenders: Vec<&'a Contender>,
    pub notes: Vec<String>,
}

impl Contest<'_> {
    /// Measures all who stand the load.
    pub fn measure(mut self, stage: &Stage<'_>) -> Result<Comparison, Failure> {
        stage.progress.say(&format!("{}: {}", self.plan, self.about));
        self.leave_out_who_fails(stage);
        for contender in &self.contenders {
            let answer = answer(&contender.server, &contender.templates[0])?;
            let (all, body) = (answer.bytes.len(), answer.body().len());
            self.notes.push(format!("{}: {all} bytes an answer, {body} of them body", contender.name));
        }
        let mut turns: Vec<Turn<'_>> =
            self.contenders.iter().map(|contender| self.turn(stage, contender)).collect();
        let outcomes = by_turns(&mut turns, self.rounds, &stage.progress)?;
        drop(turns);
        let sides = self.contenders.iter().zip(&outcomes);
        let sides = sides
            .map(|(contender, outcomes)| Side::new(&contender.name, &contender.server.version, outcomes));
        let sides = sides.collect();
        Ok(Comparison { plan: self.plan.to_owned(), about: self.about, sides, notes: self.notes })
    }

    fn turn<'s>(&'s self, stage: &'s Stage<'_>, contender: &'s Contender) -> Turn<'s> {
        let load = self.load(stage, contender);
        Turn { name: contender.name.clone(), run: Box::new(move || run(&load, &contender.server)) }
    }

    fn load<'s>(&self, stage: &'s Stage<'_>, contender: &'s Contender) -> Load<'s> {
        let load = stage.load(&contender.server, self.connections, &contender.templates);
        Load { pace: self.pace, window: self.window, ..load }
    }

    /// A short window for each: a peer whose answers are not as expected would end the comparison of all the others.
    fn leave_out_who_fails(&mut self, stage: &Stage<'_>) {
        let contenders = std::mem::take(&mut self.contenders);
        for (number, contender) in contenders.into_iter().enumerate() {
            let load = Load {
                warm: Duration::ZERO,
                window: TRIAL,
                pace: Pace::Closed,
                ..self.load(stage, contender)
            };
            let failure = match run(&load, &contender.server) {
                Ok(outcome) if outcome.failed == 0 && outcome.completed > 0 => None,
                Ok(outcome) => Some(outcome.failure.unwrap_or_else(|| "it answers nothing".to_owned())),
                Err(failure) => Some(failure.to_string()),
            };
            match failure {
                Some(failure) if number > 0 => {
                    let note = format!("{} is left out: {failure}", contender.name);
                    stage.progress.say(&note);
                    self.notes.push(note);
                }
                _ => self.contenders.push(contender),
            }
        }
    }
}

/// Requests a second of a side, the median of its windows.
pub fn per_second(comparison: &Comparison, name: &str) -> Option<f64> {
    let side = comparison.sides.iter().find(|side| side.server == name)?;
    let mut all: Vec<f64> = side.windows.iter().map(|window| window.per_second).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// What a server answers to a request that it never had before.
pub fn answer(server: &Server, template: &Template) -> Result<Answer, Failure> {
    let mut request = template.bytes.clone();
    let number = counter::next();
    template.counters.iter().for_each(|place| counter::write(number, &mut request[place.clone()]));
    let answer = ask(server.address, &request).and_then(Answer::good);
    answer.map_err(|error| format!("{}: {error}", server.name).into())
}

/// The same request, answered by exactly this body.
pub fn answered(template: &Template, body: &[u8]) -> Template {
    Template { expected: Expected { status: 200, body: Body::Same(body.to_vec()) }, ..template.clone() }
}

/// The same body, behind the head that another request has for it.
pub fn with_head(template: &Template, other: impl Fn(&[u8]) -> Vec<u8>, contains: &str) -> Template {
    let old = template.bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
    let bytes = other(&template.bytes[old..]);
    let head = bytes.len() - (template.bytes.len() - old);
    let counters = template.counters.iter().filter(|place| place.start >= old);
    let counters = counters.map(|place| place.start - old + head..place.end - old + head).collect();
    let expected = Expected { status: 200, body: Body::Contains(vec![contains.to_owned()]) };
    Template { bytes, counters, expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::requests::page_view;

    #[test]
    fn a_body_keeps_its_counters_behind_another_head() {
        let template = page_view();
        let other = with_head(&template, |body| [b"PUT /x HTTP/1.1\r\n\r\n", body].concat(), "");
        let places = |template: &Template| -> Vec<Vec<u8>> {
            template
                .counters
                .iter()
                .map(|place| template.bytes[place.start - 8..place.end].to_vec())
                .collect()
        };
        assert_eq!(places(&other), places(&template));
        assert!(!other.counters.is_empty());
    }
}
