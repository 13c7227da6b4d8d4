//! The header `X-Visitor` of the admin address: it names the visitor of a request, so that the URL does not.
//!
//! Proxies log the URLs of requests, but not this header. Its value is `anonId=ID` or `userId=ID`, encoded as
//! in a query string. It counts as that parameter. The console sends it with each request about a visitor.

use crate::http::negotiate;
use crate::http::params::Param;
use crate::http::request::Request;
use crate::problem::{self, Problem};

const FIELD: &[u8] = b"x-visitor:";

/// Returns the query of the request with the parameter of the header. `None` if there is no such header. A
/// parameter that both have is refused later, as one that is given twice.
///
/// # Errors
/// `invalid_param`, if the header has another form.
pub(super) fn add_to_query(request: &Request<'_>) -> Result<Option<String>, Problem<'static>> {
    let Some(value) = negotiate::field(request.headers.section, FIELD) else { return Ok(None) };
    let parameter = std::str::from_utf8(value).ok().filter(|value| is_visitor(value));
    let sentence = "The header X-Visitor must be 'anonId=ID' or 'userId=ID', encoded as in a query string.";
    let parameter = parameter.ok_or(Problem::new(problem::INVALID_PARAM, sentence))?;
    Ok(Some(format!("{}&{parameter}", request.query)))
}

/// Returns whether the text is one parameter that names a visitor.
fn is_visitor(text: &str) -> bool {
    let name = text.split_once('=').map(|(name, _)| name);
    let names = [Param::AnonId.name(), Param::UserId.name()];
    !text.contains('&') && name.is_some_and(|name| names.contains(&name))
}
