//! The fields that a path in a condition over visitors names: a field of the profile, or the event or the page of a
//! goal of the site.

use crate::condition::Field;
use crate::nearest::nearest;
use crate::site::profile_fields::{self, find_field};
use crate::site::source::read::Source;
use crate::site::source::types::{Goal, Goals};

/// The begin of the path of a goal.
const GOALS: &str = "goals.";
/// The members of a goal in a path.
const GOAL_MEMBERS: [&str; 3] = [".count", ".first", ".last"];

/// The fields that the conditions of a site can name.
#[derive(Clone, Copy, Default)]
pub(super) struct SiteFields<'s> {
    /// `None` if `site.json` has errors. Then every goal counts as known.
    goals: Option<&'s Goals>,
}

/// The path of a goal.
#[derive(Clone, Copy)]
struct GoalPath<'p> {
    key: &'p str,
    /// One of [`GOAL_MEMBERS`], or an empty text.
    member: &'p str,
}

impl<'p> GoalPath<'p> {
    /// Splits `goals.<key>` and a member. `None` if the path is not of a goal.
    fn split(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix(GOALS)?;
        let (key, member) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
        Some(Self { key, member })
    }
}

impl<'s> SiteFields<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        Self { goals: source.site.as_ref().map(|site| &site.goals) }
    }

    /// Finds the field that a path names.
    ///
    /// # Errors
    /// No field has this path, or a profile cannot decide the goal. Returns the most similar path, if there is one.
    pub(super) fn find(self, path: &str) -> Result<Field, Option<String>> {
        let Some(GoalPath { key, member }) = GoalPath::split(path) else { return find_field(path) };
        let Some(goals) = self.goals else { return find_field(&format!("events.{key}{member}")) };
        let Some(goal) = goals.get(key) else {
            let known = goals.keys().map(|key| &**key);
            return Err(nearest(key, known).map(|nearest| format!("{GOALS}{nearest}{member}")));
        };
        if !member.is_empty() && !GOAL_MEMBERS.contains(&member) {
            return Err(nearest(member, GOAL_MEMBERS).map(|nearest| format!("{GOALS}{key}{nearest}")));
        }
        if goal.tests.is_empty() { field_of_goal(key, goal, member) } else { Err(None) }
    }

    /// Describes the paths that an author who wrote `unknown_path` can use.
    pub(super) fn describe_paths(self, unknown_path: &str) -> String {
        let Some(GoalPath { key, .. }) = GoalPath::split(unknown_path) else {
            return profile_fields::describe_paths(unknown_path);
        };
        let goal = self.goals.and_then(|goals| goals.get(key));
        if goal.is_some_and(|goal| goal.tests.is_empty()) {
            return format!(
                "`{GOALS}{key}`, also with {}",
                GOAL_MEMBERS.map(|name| format!("`{name}`")).join(", ")
            );
        }
        "a goal of `site.json` without `where`, because a profile has no properties of events".to_owned()
    }
}

/// Returns the field of the event or the page of a goal. The name can end like a member, as in `Cart.last`, so the path is
/// not composed of it.
fn field_of_goal(key: &str, goal: &Goal, member: &str) -> Result<Field, Option<String>> {
    // A goal without an event and a page is reported already.
    let (form, name) = match (&goal.event, &goal.page) {
        (Some(event), _) => ("events", event.as_str()),
        (None, Some(page)) => ("pages", page.as_str()),
        (None, None) => ("events", key),
    };
    let field = find_field(&format!("{form}.{key}{member}"))?;
    Ok(Field { name: name.to_owned(), ..field })
}
