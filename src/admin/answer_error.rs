//! Writes the refusal of a request that gets no task, or whose question or job has failed.

use super::query::RequestError;
use crate::api::{Handler, Outcome};
use crate::http::request::Request;
use crate::insights::engine::{AnswerError, JobError};
use crate::problem::{self, Problem};

/// Refuses a request that gets no task.
pub(super) fn reject_request(
    handler: &mut Handler,
    request: &Request<'_>,
    error: RequestError<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    match error {
        RequestError::Problem(problem) => handler.reject(request, &problem.in_query(), out),
        RequestError::Question(error) => handler.reject(request, &error.problem().in_query(), out),
        RequestError::Body(error) => handler.reject(request, &error.problem(), out),
        RequestError::Job(error) => reject(handler, request, &AnswerError::Job(error), out),
    }
}

/// Refuses the request with the problem of the error.
pub(super) fn reject(
    handler: &mut Handler,
    request: &Request<'_>,
    error: &AnswerError,
    out: &mut Vec<u8>,
) -> Outcome {
    match error {
        AnswerError::NotBegun => {
            let sentence = "The question waited 30 s for other questions; retry later.";
            handler.reject(request, &Problem::new(problem::OVERLOADED, sentence), out)
        }
        AnswerError::TooExpensive => {
            let sentence = "The question takes more than 10 s; ask for a shorter range.";
            handler.reject(request, &Problem::new(problem::QUERY_TOO_EXPENSIVE, sentence), out)
        }
        AnswerError::TooLarge => {
            let sentence = "The question takes more memory than --insights-memory; ask for a shorter range.";
            handler.reject(request, &Problem::new(problem::QUERY_TOO_EXPENSIVE, sentence), out)
        }
        AnswerError::Refused(error) => handler.reject(request, &error.problem(), out),
        AnswerError::Republished => {
            let sentence = "Another version of the site was published meanwhile; ask again.";
            handler.reject(request, &Problem::new(problem::COLUMNS_BUILDING, sentence), out)
        }
        AnswerError::Behind(files) => {
            let unit = if *files == 1 { "segment" } else { "segments" };
            let sentence =
                format!("The server has yet to prepare {files} {unit} of its log; retry in some seconds.");
            handler.reject(request, &Problem::new(problem::COLUMNS_BUILDING, &sentence), out)
        }
        AnswerError::Unreadable(cause) => {
            let detail = format!("The log cannot be read: {cause}.");
            handler.reject(request, &Problem::new(problem::DISK_UNAVAILABLE, &detail), out)
        }
        AnswerError::Job(JobError { kind, detail }) => {
            handler.reject(request, &Problem::new(kind, detail), out)
        }
        AnswerError::Panicked => {
            let sentence = "The question failed unexpectedly; the server log has the cause.";
            handler.reject(request, &Problem::new(problem::INTERNAL, sentence), out)
        }
    }
}
