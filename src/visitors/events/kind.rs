//! What an event is: by its `type`, by where it was sent, or by what it has.

use super::endpoint::Endpoint;
use super::members::{Members, Named};
use super::operations;
use super::refusal::{Place, Refusal};
use crate::problem;
use crate::visitors::log::Kind;

/// The kind of an event that was sent to `endpoint`, by itself or in a batch.
///
/// # Errors
/// `invalid_type`, `ambiguous_event`, `invalid_event`.
pub(super) fn of<'d>(members: &Members<'d>, endpoint: Endpoint, place: Place<'d>) -> Result<Kind, Refusal> {
    let is_single = place.index.is_none();
    let Some(named) = members.get(Named::Type) else {
        return endpoint.kind().map_or_else(|| inferred(members, place), Ok);
    };
    let expected = match is_single {
        true => endpoint.expected_type(),
        false => "'page', 'track', 'identify', 'profile', 'screen', 'group' or 'alias'",
    };
    let known = named.string().and_then(Kind::named).filter(|kind| !is_single || endpoint.takes(*kind));
    known.ok_or_else(|| place.refuse(problem::INVALID_TYPE, named, expected))
}

/// The kind of an event that says nothing of it. `userId` beside an event or an operation only names the visitor.
fn inferred<'d>(members: &Members<'d>, place: Place<'d>) -> Result<Kind, Refusal> {
    let has = |name: Named| members.get(name).is_some();
    match (has(Named::Event), operations::any(members), has(Named::Traits)) {
        (true, false, false) => Ok(Kind::Track),
        (false, true, false) => Ok(Kind::Profile),
        (false, false, true) => Ok(Kind::Identify),
        (false, false, false) if has(Named::UserId) => Ok(Kind::Identify),
        (false, false, false) => {
            let expected = "'event', a profile operation such as 'set', 'traits' or 'userId', or a 'type'";
            Err(place.lacks(problem::INVALID_EVENT, "event", expected))
        }
        _ => {
            let expected = "a 'type', beside two of 'event', 'traits' and a profile operation";
            Err(place.lacks(problem::AMBIGUOUS_EVENT, "type", expected))
        }
    }
}
