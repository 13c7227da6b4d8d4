//! The header `X-Visitor` of the admin address: it names the visitor of a request, so that the URL does not.
//!
//! Proxies log the URLs of requests, but not this header. Its value is `anonId=ID` or `userId=ID`, encoded as
//! in a query string. It counts as that parameter. The console sends it with each request about a visitor. For the list of visitors
//! its value is `TRAIT=TEXT`, which never becomes a part of the query.

use super::query::parse_pairs;
use super::visitor_list;
use crate::http::negotiate;
use crate::http::params::Param;
use crate::http::request::Request;
use crate::insights::TraitSearch;
use crate::problem::{self, Problem};

const FIELD: &[u8] = b"x-visitor:";

/// Returns the search that the header of a request asks for. `None` if there is no such header.
///
/// # Errors
/// `invalid_param`, if the header has another form.
pub(super) fn searched_trait(request: &Request<'_>) -> Result<Option<TraitSearch>, Problem<'static>> {
    let Some(value) = negotiate::field(request.headers.section, FIELD) else { return Ok(None) };
    let sentence = "The header X-Visitor must be 'TRAIT=TEXT' here, such as 'email=anna%40acme.example', encoded as in a query string.";
    let wrong = || Problem::new(problem::INVALID_PARAM, sentence);
    let value = std::str::from_utf8(value).map_err(|_| wrong())?;
    let pairs = parse_pairs(value).map_err(|_| wrong())?;
    match <[_; 1]>::try_from(pairs) {
        Ok([(name, text)]) if !name.is_empty() && !text.is_empty() => {
            Ok(Some(TraitSearch::new(&name, &text)))
        }
        _ => Err(wrong()),
    }
}

/// Returns the query of the request with the parameter of the header. `None` if there is no such header. A
/// parameter that both have is refused later, as one that is given twice. The list of visitors has another parameter.
///
/// # Errors
/// `invalid_param`, if the header has another form.
pub(super) fn add_to_query(request: &Request<'_>) -> Result<Option<String>, Problem<'static>> {
    let names_trait = request.path == visitor_list::PATH;
    let field = negotiate::field(request.headers.section, FIELD).filter(|_| !names_trait);
    let Some(value) = field else { return Ok(None) };
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
