//! The comparison as lines for a terminal, and as a JSON document.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value as Json, json};

use super::audiences::AudienceChange;
use super::holdout::HoldoutChange;
use super::known_visitors::VisitorRange;
use super::members::{METRICS, members_json, value_text};
use super::zones::ZoneChange;
use super::{ChangeKind, ExperimentChange, Side, SiteComparison};
use crate::site::compile::time_text;
use crate::site::snapshot::format::Standing;

impl SiteComparison {
    /// Returns the comparison as a JSON object.
    pub(crate) fn to_json(&self) -> Json {
        json!({ "at": time_text(self.now_ms), "experiments": self.changes.iter().map(ExperimentChange::to_json).collect::<Vec<_>>(),
            "unchanged": self.unchanged_count, "holdout": self.holdout.as_ref().map(HoldoutChange::to_json), "profiles": self.visitor_count,
            "zones": self.zones.iter().map(|change| self.zone_json(change)).collect::<Vec<_>>(),
            "audiences": self.audiences.iter().map(|change| self.audience_json(change)).collect::<Vec<_>>() })
    }
}

/// Writes a line for each experiment that changes, the number of the others, a line for the holdout if it changes, and a line for each zone
/// and each audience that changes.
impl Display for SiteComparison {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| writeln!(out, "{change}"))?;
        match self.unchanged_count {
            1 => write!(out, "1 experiment does not change"),
            count => write!(out, "{count} experiments do not change"),
        }?;
        self.other_lines().try_for_each(|line| write!(out, "\n{line}"))
    }
}

impl SiteComparison {
    /// Returns a line for the holdout if it changes, and for each zone and each audience that changes.
    pub(crate) fn other_lines(&self) -> impl Iterator<Item = String> {
        let holdout = self.holdout.iter().map(HoldoutChange::to_string);
        let zones = self.zones.iter().map(|change| self.zone_line(change));
        holdout.chain(zones).chain(self.audiences.iter().map(|change| self.audience_line(change)))
    }

    fn audience_json(&self, change: &AudienceChange) -> Json {
        json!({ "name": change.key, "change": change.kind.name(), "atLeast": self.counted(change.visitors.at_least),
            "atMost": self.counted(change.visitors.at_most) })
    }

    fn zone_json(&self, change: &ZoneChange) -> Json {
        json!({ "name": change.name, "paths": change.paths, "change": change.kind.name(),
            "atLeast": self.counted(change.visitors.at_least), "atMost": self.counted(change.visitors.at_most) })
    }

    /// Returns a number of known visitors if they were counted.
    fn counted(&self, count: u64) -> Option<u64> {
        self.visitor_count.map(|_| count)
    }

    /// Returns the change of an audience as one line, with the number of known visitors who enter or leave it if they were
    /// counted.
    fn audience_line(&self, change: &AudienceChange) -> String {
        let key = &change.key;
        let visitors = self.visitors_text(change.visitors, "enter or leave it");
        format!("audience {key}: {}{visitors}", change.kind.name())
    }

    /// Returns the change of a zone as one line, with the number of known visitors who get another variant if they were counted.
    fn zone_line(&self, change: &ZoneChange) -> String {
        let ZoneChange { name, paths, visitors, .. } = change;
        let first = paths.first().map(String::as_str).unwrap_or_default();
        let pages = match paths.len() {
            0 | 1 => first.to_owned(),
            2 => format!("{first} and 1 more page"),
            count => format!("{first} and {} more pages", grouped(count as u64 - 1)),
        };
        let visitors = self.visitors_text(*visitors, "get another variant");
        format!("zone {name} of {pages}: {}{visitors}", change.kind.name())
    }

    /// Returns the number of known visitors who do something, after a semicolon. The empty text if they were not counted.
    fn visitors_text(&self, visitors: VisitorRange, verb: &str) -> String {
        let Some(visitor_count) = self.visitor_count else { return String::new() };
        let [at_least, at_most, all] = [visitors.at_least, visitors.at_most, visitor_count].map(grouped);
        let range = if at_least == at_most { at_least } else { format!("{at_least} to {at_most}") };
        format!("; {range} of {all} known visitors {verb}")
    }
}

impl ExperimentChange {
    fn to_json(&self) -> Json {
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let [before, after] = [&self.before, &self.after].map(Option::as_ref);
        let standing = |side: Option<&Side>| side.map(|side| side.standing.name());
        let enrolled = |side: Option<&Side>| side.and_then(|side| side.enrolled_count);
        json!({ "key": self.key, "changes": names, "text": self.text(), "newPhaseBy": self.phase_members,
            "standing": { "before": standing(before), "after": standing(after) },
            "enrolled": { "before": enrolled(before), "after": enrolled(after) },
            "members": members_json(&self.members) })
    }

    /// Returns the changes and their effect on enrolled visitors, as the line of the terminal after the key.
    fn text(&self) -> String {
        let is_ramped = self.kinds.contains(&ChangeKind::Ramped);
        let begins = [ChangeKind::New, ChangeKind::NewPhase, ChangeKind::Started, ChangeKind::Resumed];
        let is_begun = begins.iter().any(|kind| self.kinds.contains(kind));
        let closed = self.closed_text().filter(|_| is_begun && !is_ramped);
        let phrases = self.kinds.iter().map(|kind| self.phrase(*kind));
        let phrases = phrases.chain(closed).collect::<Vec<_>>().join(", ");
        match self.effect() {
            Some(effect) => format!("{phrases}; {}", self.effect_sentence(effect)),
            None => phrases,
        }
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

    /// Returns a text if no new visitor takes part now, with the time from which they do.
    fn closed_text(&self) -> Option<String> {
        let side = self.after.as_ref().filter(|side| side.is_closed)?;
        let until = side.opens_ms.map(|opens_ms| format!(" until {}", time_text(opens_ms)));
        Some(format!("closed for new visitors{}", until.unwrap_or_default()))
    }

    /// Returns a kind of change as a phrase.
    fn phrase(&self, kind: ChangeKind) -> String {
        match kind {
            ChangeKind::New => format!("new {}", self.new_values()),
            ChangeKind::Removed => match self.before.as_ref().and_then(|side| side.winner.as_deref()) {
                Some(winner) => format!("removed, so visitors no longer get its winner `{winner}`"),
                None => "removed".to_owned(),
            },
            ChangeKind::NewPhase => format!("new phase {}", self.values(&self.phase_members)),
            ChangeKind::Ramped => {
                let text = self.closed_text().unwrap_or_else(|| "ramped".to_owned());
                format!("{text} {}", self.values(&["coverage"]))
            }
            ChangeKind::Namespace => format!("other namespace {}", self.values(&["namespace"])),
            ChangeKind::Rescheduled => format!("rescheduled {}", self.values(&["from", "to", "winner"])),
            ChangeKind::Started => "started".to_owned(),
            ChangeKind::Postponed => "postponed".to_owned(),
            ChangeKind::Resumed => "resumed".to_owned(),
            ChangeKind::Ended => "ended".to_owned(),
            ChangeKind::Decided => {
                let side = self.after.as_ref();
                let winner = side.and_then(|side| side.winner.as_deref()).unwrap_or_default();
                format!("decided: all visitors get `{winner}`{}", exception_of_holdout(side))
            }
            ChangeKind::Metrics => {
                let members = self.members.iter().map(|change| change.member);
                let members = members.filter(|member| METRICS.contains(member));
                let members: Vec<String> = members.map(|member| format!("`{member}`")).collect();
                format!("other metrics ({})", members.join(", "))
            }
        }
    }

    /// Returns the effect on enrolled visitors. `None` if there is none, or if a phrase has it.
    fn effect(&self) -> Option<Effect> {
        let has = |kinds: &[ChangeKind]| self.kinds.iter().any(|kind| kinds.contains(kind));
        let standing = self.after.as_ref().map(|side| side.standing);
        match standing {
            // After its end nobody had an arm.
            None => {
                let ran = self.before.as_ref().is_some_and(|side| side.standing == Standing::Running);
                ran.then_some(Effect::GetNoArm)
            }
            Some(Standing::Decided(_)) => None,
            Some(Standing::Ended) => has(&[ChangeKind::Ended]).then_some(Effect::GetNoArm),
            _ if has(&[ChangeKind::NewPhase]) => Some(Effect::StartAgain),
            Some(Standing::NotStarted) => has(&[ChangeKind::Postponed]).then_some(Effect::GetNoArm),
            Some(Standing::Running) if has(&[ChangeKind::Resumed]) => Some(Effect::GetArmsAgain),
            // An experiment of an earlier publication returns.
            Some(Standing::Running) if has(&[ChangeKind::New]) => {
                let enrolled_count = self.after.as_ref().and_then(|side| side.enrolled_count);
                enrolled_count.is_some_and(|count| count > 0).then_some(Effect::GetArmsAgain)
            }
            Some(Standing::Running) => {
                has(&[ChangeKind::Ramped, ChangeKind::Namespace]).then_some(Effect::KeepArms)
            }
        }
    }

    /// Returns the effect on enrolled visitors as a sentence, with their number if it was counted.
    fn effect_sentence(&self, effect: Effect) -> String {
        let before = self.before.as_ref().or(self.after.as_ref());
        let sentence = effect.sentence(before.and_then(|side| side.enrolled_count));
        let sentence = match effect {
            Effect::KeepArms | Effect::GetArmsAgain => {
                let except = exception_of_holdout(self.after.as_ref());
                format!("{sentence}{except}")
            }
            _ => sentence,
        };
        let again = self.after.as_ref().and_then(|side| side.enrolled_count).filter(|count| *count > 0);
        match again.filter(|_| effect == Effect::StartAgain) {
            Some(count) => {
                format!("{sentence}; enrolled in this phase by an earlier publication: {}", grouped(count))
            }
            None => sentence,
        }
    }
}

/// An effect of a change on visitors with a recorded exposure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    GetNoArm,
    StartAgain,
    GetArmsAgain,
    KeepArms,
}

impl Effect {
    /// Returns the effect on this number of IDs, or on the enrolled visitors in general.
    fn sentence(self, id_count: Option<u64>) -> String {
        let [plural, singular] = match self {
            Self::GetNoArm => ["get no arm", "gets no arm"],
            Self::StartAgain => ["start again", "starts again"],
            Self::GetArmsAgain => ["get their arms again", "gets its arm again"],
            Self::KeepArms => ["keep their arms", "keeps its arm"],
        };
        match id_count {
            None => format!("enrolled visitors {plural}"),
            Some(1) => format!("1 enrolled ID {singular}"),
            Some(count) => format!("{} enrolled IDs {plural}", grouped(count)),
        }
    }
}

/// Returns the exception for the visitors of the site's holdout, who see `default`. The empty text if the site has none.
fn exception_of_holdout(side: Option<&Side>) -> &'static str {
    match side.is_some_and(|side| side.has_site_holdout) {
        true => ", except those in the holdout of the site",
        false => "",
    }
}

/// Returns a number with a comma after each group of three digits, as in `12,403`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

/// Writes the change as one line.
impl Display for ExperimentChange {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.key, self.text())
    }
}
