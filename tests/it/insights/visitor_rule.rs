//! The visitor of an event, and the events of visits, by the words of the documentation.

use std::collections::BTreeMap;

use parallax::testing::record::RecordKind;

use super::Event;

/// Returns the visitor of an event. One without an anonymous ID is credited to the anonymous ID that was tied to the user
/// last, unless that has another user since. A crawler ties nothing.
pub(super) fn visitor_of(events: &[Event], at: usize) -> Option<String> {
    let event = &events[at];
    let (None, Some(user)) = (event.anon_id, event.user_id) else {
        return event.anon_id.map(|id| format!("a:{id}"));
    };
    let mut latest: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (index, other) in events[..at].iter().enumerate() {
        let counts = other.site == event.site && !other.bot;
        if let (RecordKind::Identify, Some(anon_id), Some(user_id)) =
            (other.kind, other.anon_id, other.user_id)
            && counts
        {
            latest.insert(anon_id, (index, user_id));
        }
    }
    let tied =
        latest.into_iter().filter(|(_, (_, other))| *other == user).max_by_key(|(_, (index, _))| *index);
    Some(tied.map_or(format!("u:{user}"), |(anon_id, _)| format!("a:{anon_id}")))
}

/// Returns whether an event begins or extends a visit.
pub(super) fn is_of_visit(event: &Event) -> bool {
    let is_kind = match event.kind {
        RecordKind::Page | RecordKind::Screen => true,
        RecordKind::Track => event.event != Some("Experiment Viewed"),
        _ => false,
    };
    is_kind && event.anon_id.is_some()
}
