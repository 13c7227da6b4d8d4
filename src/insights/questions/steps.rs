//! The events that a question names, such as the steps of a funnel.

use super::goals::ChosenGoal;
use super::question::NamedValue;
use crate::insights::columns::format::TextColumn;
use crate::site::goals::SiteGoals;

/// Maximum number of steps of one question. Each step has a bit of [`Row::order`](super::row::Row::order).
pub(crate) const PLAN_STEPS_MAX: usize = 32;

/// A step of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The text of the step in the question.
    pub text: String,
    /// The goal whose events the step accepts.
    pub(crate) goal: ChosenGoal,
}

impl Step {
    /// Parses the key of a goal of the site, an event name, `event:` and an event name, or `page:` and a path. Returns `None` if the
    /// text is none of them.
    pub fn parse(text: &str, goals: &SiteGoals) -> Option<Self> {
        ChosenGoal::parse(text, goals).map(|goal| Self { text: text.to_owned(), goal })
    }

    /// Returns the number of the goal of the site.
    pub(crate) fn goal_number(&self) -> Option<usize> {
        self.goal.site_number()
    }

    /// Returns the text that the events of the step must have, as a value of a parameter. `None` if they can have different texts.
    pub(crate) fn named_value(&self, param: &'static str) -> Option<NamedValue<'_>> {
        self.goal.named_value(param, &self.text)
    }
}

/// Returns the mask of the steps that accept an event with this text in this column. The first step has the lowest bit.
pub(crate) fn step_mask(steps: &[Step], column: TextColumn, text: &str) -> u32 {
    let accepting = steps.iter().enumerate().filter(|(_, step)| step.goal.has_text(column, text));
    accepting.fold(0, |mask, (number, _)| mask | 1 << number)
}

/// Returns the mask of the steps whose goal is in a set of goals.
pub(crate) fn goal_mask(steps: &[Step], goal_set: u128) -> u32 {
    let reached = |step: &Step| step.goal_number().is_some_and(|number| goal_set >> number & 1 == 1);
    let accepting = steps.iter().enumerate().filter(|(_, step)| reached(step));
    accepting.fold(0, |mask, (number, _)| mask | 1 << number)
}
