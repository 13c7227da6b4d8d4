//! The kind of an event: from its `type`, its endpoint, or its members.

use super::endpoint::EventEndpoint;
use super::location::Location;
use super::members::{MemberName, Members};
use super::operations;
use super::refusal::Refusal;
use crate::problem;
use crate::record::RecordKind;

/// Returns the kind of an event that was sent to `endpoint`, alone or in a batch.
///
/// # Errors
/// `invalid_type`, `ambiguous_event`, `invalid_event`.
pub(super) fn parse<'d>(
    members: &Members<'d>,
    endpoint: EventEndpoint,
    location: Location<'d>,
) -> Result<RecordKind, Refusal> {
    let is_single = location.index.is_none();
    let Some(named) = members.get(MemberName::Type) else {
        return match endpoint.default_kind() {
            Some(default) if is_single => Ok(default),
            // An item from which nothing can be inferred has the kind of the endpoint.
            Some(default) => infer(members, location).or_else(|refusal| {
                if refusal.kind == problem::INVALID_EVENT { Ok(default) } else { Err(refusal) }
            }),
            None => infer(members, location),
        };
    };
    let expected = match is_single {
        true => endpoint.expected_type(),
        false => "'page', 'track', 'identify', 'profile', 'screen', 'group' or 'alias'",
    };
    let known =
        named.as_str().and_then(RecordKind::from_name).filter(|kind| !is_single || endpoint.accepts(*kind));
    known.ok_or_else(|| location.refuse(problem::INVALID_TYPE, named, expected))
}

/// Infers the kind from the members. Beside `event` or a profile operation, `userId` only identifies the
/// visitor.
fn infer<'d>(members: &Members<'d>, location: Location<'d>) -> Result<RecordKind, Refusal> {
    let has = |name: MemberName| members.get(name).is_some();
    match (has(MemberName::Event), operations::has_any(members), has(MemberName::Traits)) {
        (true, false, false) => Ok(RecordKind::Track),
        (false, true, false) => Ok(RecordKind::Profile),
        (false, false, true) => Ok(RecordKind::Identify),
        (false, false, false) if has(MemberName::UserId) => Ok(RecordKind::Identify),
        (false, false, false) => {
            let sentence = "The event has no type; add 'event', a profile operation such as 'set', 'traits' or 'userId', or 'type'.";
            Err(location.refuse_missing(problem::INVALID_EVENT, "event", sentence))
        }
        _ => {
            let sentence = "The event has two of 'event', 'traits' and a profile operation; add 'type'.";
            Err(location.refuse_missing(problem::AMBIGUOUS_EVENT, "type", sentence))
        }
    }
}
