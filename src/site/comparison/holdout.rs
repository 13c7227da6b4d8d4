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

/// The change of a site's holdout.
#[derive(Debug, Clone, PartialEq)]
pub struct HoldoutChange {
    kind: HoldoutChangeKind,
    /// The members that differ. A value is null if the version has no holdout.
    members: Vec<MemberChange>,
    /// The number of experiments of the newer version that run. Visitors move into them or out of them.
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
        let running = after.experiments.iter().filter(|one| one.standing(now_ms) == Standing::Running);
        (!members.is_empty()).then(|| Self { kind, members, running_count: running.count() })
    }

    pub(super) fn to_json(&self) -> Json {
        let kind = match self.kind {
            HoldoutChangeKind::New => "new",
            HoldoutChangeKind::Removed => "removed",
            HoldoutChangeKind::NewPhase => "new_phase",
            HoldoutChangeKind::Rules => "rules",
        };
        json!({ "change": kind, "running": self.running_count,
            "members": members_json(&self.members) })
    }
}

/// Writes the change as one line. The line warns if an experiment runs.
impl Display for HoldoutChange {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
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
        let members: Vec<String> = members.collect();
        write!(out, "holdout of the site: {phrase} ({})", members.join(", "))?;
        match self.running_count {
            count if count == 0 || self.kind == HoldoutChangeKind::Rules => Ok(()),
            1 => write!(out, "; warning: 1 experiment runs, and visitors move into it or out of it"),
            count => {
                write!(out, "; warning: {count} experiments run, and visitors move into them or out of them")
            }
        }
    }
}
