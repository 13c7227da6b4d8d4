//! The check of the method of a request, the parameters of a request of Insights, and the error of a request that gets no
//! task.

use crate::http::request::{Method, Request};
use crate::insights::QuestionError;
use crate::insights::engine::JobError;
use crate::percent;
use crate::problem::{self, Problem};

/// The error of a request without a task.
pub(super) enum RequestError<'a> {
    Problem(Problem<'a>),
    Question(QuestionError),
    /// The error of a member of the body.
    Body(QuestionError),
    Job(JobError),
}

impl<'a> From<Problem<'a>> for RequestError<'a> {
    fn from(problem: Problem<'a>) -> Self {
        Self::Problem(problem)
    }
}

/// Checks that a request only reads.
pub(super) fn check_is_read<'a>(request: &Request<'a>) -> Result<(), Problem<'a>> {
    match request.method {
        Method::Get | Method::Head => Ok(()),
        _ => Err(Problem::method_not_allowed(request.method.subject(), "GET, HEAD")),
    }
}

/// Decodes the parameters of a query. They may repeat.
pub(super) fn parse_pairs<'a>(query: &str) -> Result<Vec<(String, String)>, Problem<'a>> {
    let decode = |text: &str| {
        let mut decoded = Vec::new();
        percent::decode_form(text.as_bytes(), &mut decoded);
        let wrong = Problem::new(problem::INVALID_QUERY, "The query string is not UTF-8.");
        String::from_utf8(decoded).map_err(|_| wrong)
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let split = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name)?, decode(value)?))
    };
    pairs.map(split).collect()
}

/// Returns a parameter that may be absent.
///
/// # Errors
/// The parameter is given twice.
pub(super) fn single_param<'p>(
    pairs: &'p [(String, String)],
    name: &'static str,
) -> Result<Option<&'p str>, QuestionError> {
    let mut values = pairs.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let value = values.next();
    match values.next() {
        Some(_) => Err(QuestionError::repeated(name)),
        None => Ok(value),
    }
}

/// Returns the parameter `site`.
pub(super) fn single_site<'a>(pairs: &[(String, String)]) -> Result<&str, Problem<'a>> {
    let mut sites = pairs.iter().filter(|(name, value)| name == "site" && !value.is_empty());
    let missing = Problem::new(problem::MISSING_SITE, "The parameter 'site' is missing.");
    let (_, site) = sites.next().ok_or(missing)?;
    if sites.next().is_some() {
        let repeated =
            Problem::new(problem::REPEATED_PARAM, "The parameter 'site' is given twice; give it once.");
        return Err(repeated.at("site"));
    }
    Ok(site)
}
