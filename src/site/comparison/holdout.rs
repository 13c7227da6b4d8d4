//! The change of a site's holdout.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value as Json, json};

use super::members::{MemberChange, members_json, value_text};
use crate::site::catalog::phases::Phase;
use crate::site::snapshot::format::{ArchivedSite, ArchivedSiteHoldout, Standing};

/// A kind of change of a holdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldoutChangeKind {
    New,
    Removed,
    /// Other visitors are held out.
    NewPhase,
    /// The same visitors are held out of other rules.
    Rules,
}

/// The move of visitors between a holdout and the running experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldoutMove {
    /// More visitors are held out, and none of those before is let in.
    IntoHoldout,
    /// Fewer visitors are held out, and none is added.
    OutOfHoldout,
    Both,
}

/// The change of a site's holdout.
#[derive(Debug, Clone, PartialEq)]
pub struct HoldoutChange {
    kind: HoldoutChangeKind,
    /// `None` if the same visitors are held out.
    moved: Option<HoldoutMove>,
    /// The members that differ. A value is null if the version has no holdout.
    members: Vec<MemberChange>,
    /// The number of experiments of the newer version that run.
    running_count: usize,
}

impl HoldoutChange {
    /// Compares the holdouts of two versions of a site. `None` if nothing changes.
    pub(super) fn between(before: Option<&ArchivedSite>, after: &ArchivedSite, now_ms: i64) -> Option<Self> {
        let before = before.and_then(|site| site.holdout.as_ref());
        let holdout = after.holdout.as_ref();
        let values = |holdout: Option<&ArchivedSiteHoldout>| {
            let value = |value: fn(&ArchivedSiteHoldout) -> Json| holdout.map_or(Json::Null, value);
            [
                value(|holdout| json!(holdout.share.to_native())),
                value(|holdout| json!(holdout.seed.as_str())),
                value(|holdout| json!(holdout.covers_rules)),
            ]
        };
        let pairs = values(before).into_iter().zip(values(holdout));
        let members = ["share", "seed", "rules"].into_iter().zip(pairs);
        let members = members.map(|(member, (before, after))| MemberChange { member, before, after });
        let members: Vec<MemberChange> = members.filter(|change| change.before != change.after).collect();
        let phase = |holdout| Phase::of_holdout(holdout, now_ms);
        let kind = match before.zip(holdout) {
            Some((before, after)) if phase(before).members_of_new_phase(&phase(after)).is_empty() => {
                HoldoutChangeKind::Rules
            }
            Some(_) => HoldoutChangeKind::NewPhase,
            None if before.is_none() => HoldoutChangeKind::New,
            None => HoldoutChangeKind::Removed,
        };
        let share = |holdout: Option<&ArchivedSiteHoldout>| holdout.map_or(0.0, |one| one.share.to_native());
        let has_same_seed = before.zip(holdout).is_none_or(|(before, after)| before.seed == after.seed);
        // With one seed, the visitors of the smaller share are in the larger one too.
        let moved = match kind {
            HoldoutChangeKind::Rules => None,
            _ if !has_same_seed => Some(HoldoutMove::Both),
            _ if share(before) < share(holdout) => Some(HoldoutMove::IntoHoldout),
            _ => Some(HoldoutMove::OutOfHoldout),
        };
        let running = after.experiments.iter().filter(|one| one.standing(now_ms) == Standing::Running);
        (!members.is_empty()).then(|| Self { kind, moved, members, running_count: running.count() })
    }

    /// Returns the changes of the members by which a phase of the holdout begins. There are none if no phase begins.
    pub(super) fn phase_changes(&self) -> impl Iterator<Item = &MemberChange> {
        let is_of_phase = |change: &&MemberChange| change.member != "rules";
        self.members
            .iter()
            .filter(move |change| self.kind == HoldoutChangeKind::NewPhase && is_of_phase(change))
    }

    /// Returns the warning that visitors move while experiments run.
    pub(super) fn warning(&self) -> Option<String> {
        let moved = self.moved.filter(|_| self.running_count > 0)?;
        let [running, them] = match self.running_count {
            1 => ["1 experiment runs".to_owned(), "it".to_owned()],
            count => [format!("{count} experiments run"), "them".to_owned()],
        };
        Some(match moved {
            HoldoutMove::IntoHoldout => format!("{running}, and more visitors are held out of {them}"),
            HoldoutMove::OutOfHoldout => format!("{running}, and visitors of the holdout move into {them}"),
            HoldoutMove::Both => format!("{running}, and visitors move into {them} and out of {them}"),
        })
    }

    pub(super) fn to_json(&self) -> Json {
        let kind = match self.kind {
            HoldoutChangeKind::New => "new",
            HoldoutChangeKind::Removed => "removed",
            HoldoutChangeKind::NewPhase => "new_phase",
            HoldoutChangeKind::Rules => "rules",
        };
        json!({ "change": kind, "text": self.text(), "running": self.running_count, "warning": self.warning(),
            "members": members_json(&self.members) })
    }

    /// Returns the change with its warning, as the line of the terminal after the name.
    fn text(&self) -> String {
        let phrase = match self.kind {
            HoldoutChangeKind::New => "new",
            HoldoutChangeKind::Removed => "removed",
            HoldoutChangeKind::NewPhase => "new phase",
            HoldoutChangeKind::Rules => "other rules",
        };
        let members = self.members.iter().map(|MemberChange { member, before, after }| match self.kind {
            HoldoutChangeKind::New => format!("`{member}` {}", value_text(after)),
            HoldoutChangeKind::Removed => format!("`{member}` {}", value_text(before)),
            HoldoutChangeKind::NewPhase | HoldoutChangeKind::Rules => {
                format!("`{member}` {} -> {}", value_text(before), value_text(after))
            }
        });
        let members = members.collect::<Vec<_>>().join(", ");
        let warning = self.warning().map(|warning| format!("; warning: {warning}"));
        format!("{phrase} ({members}){}", warning.unwrap_or_default())
    }
}

/// Writes the change as one line, with its warning.
impl Display for HoldoutChange {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "holdout of the site: {}", self.text())
    }
}
