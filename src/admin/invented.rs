//! `POST /explain?site`: the version of a page that an invented visitor gets, and the reasons. The body has the visitor with its past.
//!
//! The published snapshot decides. The answer has the data of no recorded visitor, and nothing is recorded.

use std::sync::Arc;

use super::query::{RequestError, parse_pairs, single_site};
use super::slow_requests::SlowRequests;
use super::visitors::json_output;
use crate::clock;
use crate::http::request::{Method, Request};
use crate::insights::engine::{AnswerError, JobError, Output, TaskResult};
use crate::invented::{Question, QuestionError, VisitedSite};
use crate::problem::{self, Problem};
use crate::site::catalog::catalog::{Catalog, PublishedSite};
use crate::site::snapshot::open::Snapshot;

pub(super) const PATH: &str = "/explain";

/// Starts the task that answers a request. Returns the slot of the request.
pub(super) fn begin<'a>(
    requests: &mut SlowRequests,
    request: &Request<'a>,
    catalog: &Catalog,
) -> Result<usize, RequestError<'a>> {
    if request.method != Method::Post {
        return Err(Problem::method_not_allowed(request.method.subject(), "POST").into());
    }
    let pairs = parse_pairs(request.query)?;
    let published = catalog.by_site_id(single_site(&pairs)?).map(PublishedSite::snapshot);
    let snapshot =
        published.ok_or_else(|| Problem::new(problem::SITE_NOT_FOUND, "The server has no such site."))?;
    let question = Question::parse(request.body).map_err(|error| RequestError::Job(job_error(error)))?;
    Ok(requests.run_steps(move || Some(answer(&question, Arc::clone(&snapshot))))?)
}

fn answer(question: &Question, snapshot: Arc<Snapshot>) -> TaskResult {
    let body = question.answer(&VisitedSite::new(snapshot), clock::now_ms());
    let body = body.map_err(|error| AnswerError::Job(job_error(error)))?;
    Ok(Output::Job(json_output(&body)))
}

fn job_error(QuestionError { kind, detail }: QuestionError) -> JobError {
    JobError { kind, detail }
}
