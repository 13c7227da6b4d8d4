//! The errors for changes that the author denies.

use super::holdout::HoldoutChange;
use super::members::{MemberChange, value_text};
use super::{ExperimentChange, SiteComparison};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::read::Source;
use crate::site::source::types::{Experiment, Route, Rule};

/// The ways out of a denied phase.
const HELP: &[&str] = &[
    "keep the old value, so that the result goes on",
    "begin another experiment with a new `key`",
    "let the phase begin: run the command without `--deny new-phase`",
];

/// The ways out of a denied phase of the holdout.
const HOLDOUT_HELP: &[&str] = &[
    "keep the old value, so that the result of the holdout goes on",
    "let the phase begin: run the command without `--deny new-phase`",
];

impl SiteComparison {
    /// Returns an error for each experiment with a new phase, at its first place in the source of the newer version, and one if a
    /// phase of the holdout of the site begins.
    pub(crate) fn new_phase_errors(&self, source: &Source) -> Diagnostics {
        let changes = self.changes.iter().filter(|change| !change.phase_members.is_empty());
        let errors = changes.map(|change| new_phase_error(change, source));
        errors.chain(self.holdout.as_ref().and_then(holdout_error)).collect::<Vec<_>>().into()
    }
}

/// Returns the error for a new phase of the holdout. `None` if no phase begins.
fn holdout_error(change: &HoldoutChange) -> Option<Diagnostic> {
    let changes: Vec<&MemberChange> = change.phase_changes().collect();
    let MemberChange { member, before, after } = changes.first()?;
    let members: Vec<String> = changes.iter().map(|change| format!("`{}`", change.member)).collect();
    let title = format!("a new phase of the holdout of the site begins, because of {}", members.join(", "));
    let expected = format!("`{member}` {}, as in the version before", value_text(before));
    let pointer = format!("/holdout/{member}");
    let error = Diagnostic::at_value("site.json", pointer, expected, value_text(after)).with_title(title);
    Some(Diagnostic { help: HOLDOUT_HELP, ..error })
}

fn new_phase_error(change: &ExperimentChange, source: &Source) -> Diagnostic {
    let member = change.phase_members[0];
    let values = change.members.iter().find(|changed| changed.member == member);
    let [before, after] =
        values.map_or_else(Default::default, |changed| [&changed.before, &changed.after].map(value_text));
    let (file, pointer) = first_place(source, &change.key, member).unwrap_or_default();
    let members: Vec<String> = change.phase_members.iter().map(|member| format!("`{member}`")).collect();
    let title =
        format!("a new phase of experiment `{}` begins, because of {}", change.key, members.join(", "));
    let expected = format!("`{member}` {before}, as in the version before");
    Diagnostic { help: HELP, ..Diagnostic::at_value(&file, pointer, expected, after).with_title(title) }
}

/// Returns the file and the pointer of a member of an experiment in its first zone. If the source does not have the member, the
/// pointer is that of the key.
fn first_place(source: &Source, key: &str, member: &str) -> Option<(String, String)> {
    let mut place = None;
    for (file, route) in &source.routes {
        let Route::Page(page) = route else { continue };
        page.layout.for_each_rule(&mut |pointer, rule| {
            if let Rule::Experiment { experiment, .. } = rule
                && *experiment.key == *key
                && place.is_none()
            {
                let member = if has_member(experiment, member) { member } else { "key" };
                place = Some((file.clone(), format!("{pointer}/experiment/{member}")));
            }
        });
    }
    place
}

/// Returns whether the source has a member by which a phase begins.
fn has_member(experiment: &Experiment, member: &str) -> bool {
    match member {
        "weights" => experiment.weights.is_some(),
        "seed" => experiment.seed.is_some(),
        "holdout" => experiment.holdout.is_some(),
        _ => true,
    }
}
