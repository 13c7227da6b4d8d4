//! `GET /insights/enrolments`: the numbers of IDs that are enrolled in phases of experiments now, over the table of profiles.
//!
//! The thread `insights` visits the table in slices and answers other questions between them. A phase is named by the hash that
//! its enrolments have, because a phase that is not published yet has no other name on the server.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::representation::Representation;
use crate::clock;
use crate::events::time;
use crate::insights::engine::{AnswerError, JobError, Output, TaskResult};
use crate::insights::{Cell, QuestionError, write_csv};
use crate::limits::ENROLMENT_PHASES_MAX;
use crate::problem;
use crate::scope::Scope;
use crate::visitors::enrolment_counts::EnrolmentCounts;
use crate::visitors::lookup::ProfileReader;

pub(super) const PATH: &str = "/insights/enrolments";
/// The parameter with the hash of a phase. It repeats.
const PHASE: &str = "phase";
/// Digits of a hash.
const PHASE_DIGITS: usize = 8;

/// Entries of a slice, about a millisecond of work. A slice ends after the shard with this entry.
const SLICE_ENTRIES: usize = 1_024;
/// Time for a count, with the questions that the thread answers meanwhile. A table of ten million entries needs some seconds.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);

const HEADER: [&str; 2] = [PHASE, "enrolled"];

/// The count of the enrolled IDs of a site.
pub(super) struct EnrolmentCount {
    counts: EnrolmentCounts,
    profiles: ProfileReader,
    representation: Representation,
    scope: Scope,
    next_shard: usize,
    began: Instant,
    at_ms: i64,
}

impl EnrolmentCount {
    /// Creates a count that has not begun.
    pub(super) fn new(
        counts: EnrolmentCounts,
        profiles: ProfileReader,
        representation: Representation,
        scope: Scope,
    ) -> Self {
        let began = clock::instant();
        let at_ms = clock::now_ms();
        Self { counts, profiles, representation, scope, next_shard: 0, began, at_ms }
    }

    /// Counts the next shards. Returns the text after the last ones.
    pub(super) fn step(&mut self) -> Option<TaskResult> {
        if clock::instant() - self.began > COUNT_TIMEOUT {
            let detail = "The count of the enrolments takes more than 60 s; retry when fewer questions wait.";
            let error = JobError { kind: problem::OVERLOADED, detail: detail.to_owned() };
            return Some(Err(AnswerError::Job(error)));
        }
        self.count_slice().then(|| Ok(Output::ValidatedText(self.write())))
    }

    /// Counts the next shards. Returns true after the last one.
    fn count_slice(&mut self) -> bool {
        let Self { counts, profiles, next_shard, .. } = self;
        let pinned = profiles.pin();
        let mut entries = 0;
        while entries < SLICE_ENTRIES {
            let Some(visited) = counts.add_shard(&pinned, *next_shard) else { return true };
            entries += visited;
            *next_shard += 1;
        }
        false
    }

    fn write(&self) -> String {
        let phases = self.counts.by_phase().iter().map(|(hash, count)| (format!("{hash:08x}"), *count));
        match self.representation {
            Representation::Csv => {
                let line = |(phase, count)| vec![Cell::Text(Some(phase)), Cell::Number(count as i64)];
                write_csv(&HEADER, &phases.map(line).collect::<Vec<_>>())
            }
            Representation::Json => {
                let phases: Json =
                    phases.map(|(phase, count)| json!({ "phase": phase, "enrolled": count })).collect();
                let members = [("at".to_owned(), json!(time::to_text(self.at_ms)))].into_iter();
                let members = members.chain(self.scope.members()).chain([("phases".to_owned(), phases)]);
                Json::Object(members.collect()).to_string()
            }
        }
    }
}

/// Returns the hashes of the phases that a request names.
///
/// # Errors
/// A value is no hash, or there are none or too many.
pub(super) fn parse_phases(pairs: &[(String, String)]) -> Result<Vec<u32>, QuestionError> {
    let named: Vec<&str> =
        pairs.iter().filter(|(name, _)| name == PHASE).map(|(_, value)| value.as_str()).collect();
    if named.is_empty() || named.len() > ENROLMENT_PHASES_MAX {
        let expected =
            format!("1 to {ENROLMENT_PHASES_MAX} hashes of phases, each as a parameter of its own");
        return Err(QuestionError::invalid(PHASE, &expected, &named.len().to_string()));
    }
    let parse = |text: &&str| {
        let is_hash = text.len() == PHASE_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let hash = u32::from_str_radix(text, 16).ok().filter(|_| is_hash);
        hash.ok_or_else(|| QuestionError::invalid(PHASE, "8 hex digits", text))
    };
    named.iter().map(parse).collect()
}
