//! The events that a question names, such as the steps of a funnel.

use super::goals::ChosenGoal;
use crate::insights::columns::format::TextColumn;
use crate::site::experiment_metrics::Goal;
use crate::site::goals::SiteGoals;

/// Maximum number of steps of one question. Each step has a bit of [`Row::order`](super::row::Row::order).
pub(crate) const PLAN_STEPS_MAX: usize = 32;

/// The events that a step accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEvent {
    /// Track and screen events with this name.
    Named(String),
    /// Page events on this path.
    Page(String),
    /// Page events on a path that begins with this text.
    PagePrefix(String),
    /// Events that reach the goal of the site with this number.
    Goal(usize),
}

/// A step of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The text of the step in the question.
    pub text: String,
    pub event: StepEvent,
}

impl Step {
    /// Parses the key of a goal of the site, an event name, `event:` and an event name, or `page:` and a path. A final `*` of a path
    /// accepts each path with this beginning. Returns `None` if the text is none of them.
    pub fn parse(text: &str, goals: &SiteGoals) -> Option<Self> {
        let event = match ChosenGoal::parse(text, goals)? {
            ChosenGoal::OfSite(number) => StepEvent::Goal(number),
            ChosenGoal::Target(Goal::Event(name)) => StepEvent::Named(name),
            ChosenGoal::Target(Goal::Page(path)) => match path.strip_suffix('*') {
                Some(prefix) => StepEvent::PagePrefix(prefix.to_owned()),
                None => StepEvent::Page(path),
            },
        };
        Some(Self { text: text.to_owned(), event })
    }

    /// Returns the number of the goal of the site.
    pub(crate) fn goal_number(&self) -> Option<usize> {
        match self.event {
            StepEvent::Goal(number) => Some(number),
            _ => None,
        }
    }

    /// Returns whether the step accepts an event with this text in this column.
    fn accepts(&self, column: TextColumn, text: &str) -> bool {
        match &self.event {
            StepEvent::Named(name) => column == TextColumn::Event && text == name,
            StepEvent::Page(path) => column == TextColumn::Path && text == path,
            StepEvent::PagePrefix(prefix) => column == TextColumn::Path && text.starts_with(&**prefix),
            StepEvent::Goal(_) => false,
        }
    }
}

/// Returns the mask of the steps that accept an event with this text in this column. The first step has the lowest bit.
pub(crate) fn step_mask(steps: &[Step], column: TextColumn, text: &str) -> u32 {
    let accepting = steps.iter().enumerate().filter(|(_, step)| step.accepts(column, text));
    accepting.fold(0, |mask, (number, _)| mask | 1 << number)
}

/// Returns the mask of the steps whose goal is in a set of goals.
pub(crate) fn goal_mask(steps: &[Step], goal_set: u128) -> u32 {
    let reached = |step: &Step| step.goal_number().is_some_and(|number| goal_set >> number & 1 == 1);
    let accepting = steps.iter().enumerate().filter(|(_, step)| reached(step));
    accepting.fold(0, |mask, (number, _)| mask | 1 << number)
}
