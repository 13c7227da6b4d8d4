//! `GET /v1/rules`: the rules file, with which a client decides itself.

use super::context::RequestContext;
use super::response::{self, Body, CachePolicy, ResponseFields};
use super::scratch::Scratch;
use crate::problem::{self, Problem};

pub(super) fn handle(
    context: &RequestContext<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let Some(rules) = context.site().rules.as_ref() else {
        let sentence = "The site does not allow local decisions; set 'localDecisions' in site.json.";
        return Err(Problem::new(problem::RULES_NOT_PUBLISHED, sentence));
    };
    let buffers = &mut scratch.response;
    buffers.etag_input.clear();
    buffers.etag_input.push(b'u');
    buffers.etag_input.extend_from_slice(&context.published.hash());
    let fields = ResponseFields::new(CachePolicy::Public(&context.site().cache_routes), None);
    response::write_response(context, &fields, &Body::Binary(rules), buffers, out)
}
