//! The comparison as lines for a terminal, and as a JSON document.

use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value as Json, json};

use super::members::{METRICS, value_text};
use super::{ChangeKind, ExperimentChange, Side, SiteComparison};
use crate::site::compile::time_text;
use crate::site::snapshot::format::Standing;

impl SiteComparison {
    /// Returns the comparison as a JSON object.
    pub(crate) fn to_json(&self) -> Json {
        json!({ "at": time_text(self.now_ms), "experiments": self.changes.iter().map(ExperimentChange::to_json).collect::<Vec<_>>(),
            "unchanged": self.unchanged_count })
    }
}

/// Writes a line for each experiment that changes, and the number of the others.
impl Display for SiteComparison {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| writeln!(out, "{change}"))?;
        match self.unchanged_count {
            1 => write!(out, "1 experiment does not change"),
            count => write!(out, "{count} experiments do not change"),
        }
    }
}

impl ExperimentChange {
    fn to_json(&self) -> Json {
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let members = self.members.iter().map(|change| {
            (change.member.to_owned(), json!({ "before": change.before, "after": change.after }))
        });
        let name = |side: &Option<Side>| side.as_ref().map(|side| side.standing.name());
        json!({ "key": self.key, "changes": names, "newPhaseBy": self.phase_members,
            "standing": { "before": name(&self.before), "after": name(&self.after) },
            "members": members.collect::<Map<_, _>>() })
    }

    /// Returns the changed members of a kind with both values, in parentheses.
    fn values(&self, members: &[&str]) -> String {
        let changes = self.members.iter().filter(|change| members.contains(&change.member));
        let changes = changes.map(|change| {
            format!("`{}` {} -> {}", change.member, value_text(&change.before), value_text(&change.after))
        });
        format!("({})", changes.collect::<Vec<_>>().join(", "))
    }

    /// Returns the members of a new experiment that say when visitors take part, in parentheses.
    fn new_values(&self) -> String {
        let members = ["coverage", "from", "to", "winner"];
        let changes = self.members.iter().filter(|change| members.contains(&change.member));
        let changes = changes.filter(|change| !change.after.is_null());
        let changes = changes.map(|change| format!("`{}` {}", change.member, value_text(&change.after)));
        format!("({})", changes.collect::<Vec<_>>().join(", "))
    }

    /// Returns whether no new visitor takes part from now on.
    fn is_closed(&self) -> bool {
        self.members.iter().any(|change| change.member == "coverage" && change.after == json!(0.0))
    }

    /// Returns a kind of change as a phrase.
    fn phrase(&self, kind: ChangeKind) -> String {
        let winner = self.after.as_ref().and_then(|side| side.winner.as_deref()).unwrap_or_default();
        match kind {
            ChangeKind::New => format!("new {}", self.new_values()),
            ChangeKind::Removed => "removed".to_owned(),
            ChangeKind::NewPhase => format!("new phase {}", self.values(&self.phase_members)),
            ChangeKind::Ramped if self.is_closed() => {
                format!("closed for new visitors {}", self.values(&["coverage"]))
            }
            ChangeKind::Ramped => format!("ramped {}", self.values(&["coverage"])),
            ChangeKind::Namespace => format!("other namespace {}", self.values(&["namespace"])),
            ChangeKind::Rescheduled => format!("rescheduled {}", self.values(&["from", "to", "winner"])),
            ChangeKind::Started => "started".to_owned(),
            ChangeKind::Postponed => "postponed".to_owned(),
            ChangeKind::Resumed => "resumed".to_owned(),
            ChangeKind::Ended => "ended".to_owned(),
            ChangeKind::Decided => format!("decided: all visitors get `{winner}`"),
            ChangeKind::Metrics => {
                let members = self.members.iter().map(|change| change.member);
                let members = members.filter(|member| METRICS.contains(member));
                let members: Vec<String> = members.map(|member| format!("`{member}`")).collect();
                format!("other metrics ({})", members.join(", "))
            }
        }
    }

    /// Returns the effect on visitors with a recorded exposure. `None` if there is none, or if a phrase has it.
    fn effect(&self) -> Option<&'static str> {
        let has = |kinds: &[ChangeKind]| self.kinds.iter().any(|kind| kinds.contains(kind));
        let standing = self.after.as_ref().map(|side| side.standing);
        match standing {
            _ if has(&[ChangeKind::New]) => None,
            None => Some("get no arm"),
            Some(Standing::Decided(_)) => None,
            Some(Standing::Ended) => has(&[ChangeKind::Ended]).then_some("get no arm"),
            _ if has(&[ChangeKind::NewPhase]) => Some("start again"),
            Some(Standing::NotStarted) => has(&[ChangeKind::Postponed]).then_some("get no arm"),
            Some(Standing::Running) if has(&[ChangeKind::Resumed]) => Some("get their arms again"),
            Some(Standing::Running) => {
                has(&[ChangeKind::Ramped, ChangeKind::Namespace]).then_some("keep their arms")
            }
        }
    }
}

/// Writes the change as one line.
impl Display for ExperimentChange {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let phrases: Vec<String> = self.kinds.iter().map(|kind| self.phrase(*kind)).collect();
        write!(out, "{}: {}", self.key, phrases.join(", "))?;
        self.effect().map_or(Ok(()), |effect| write!(out, "; enrolled visitors {effect}"))
    }
}
