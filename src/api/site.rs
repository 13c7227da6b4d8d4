//! `GET /v1/site`: the settings that a client of the site needs.

use super::context::RequestContext;
use super::response::{self, Body, CachePolicy, ResponseFields};
use super::scratch::Scratch;
use crate::problem::Problem;

pub(super) fn handle(
    context: &RequestContext<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let buffers = &mut scratch.response;
    let settings = context.site().settings.as_bytes();
    buffers.etag_input.clear();
    buffers.etag_input.push(b's');
    buffers.etag_input.extend_from_slice(settings);
    let fields = ResponseFields::new(CachePolicy::Public(&context.site().cache_routes), None);
    response::write_response(context, &fields, &Body::Text(settings), buffers, out)
}
