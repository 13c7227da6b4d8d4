//! Writes the conversions of an answer.

use serde_json::{Map, Value as Json, json};

use super::cell::Cell;
use super::conversions::{ConversionSums, GoalSums};
use super::goals::Currencies;
use super::question::Question;
use super::site::{Attribution, SiteFacts};
use crate::site::goals::SiteGoal;

/// The column titles of the conversions in CSV and tables. A line is about one goal.
pub(crate) const HEADER: [&str; 6] = ["goal", "credited", "conversions", "converted", "rate", "amount"];

/// A writer of the conversions of an answer.
#[derive(Clone, Copy)]
pub(crate) struct ConversionWriter<'w> {
    pub question: &'w Question,
    pub site: &'w SiteFacts,
    pub currencies: &'w Currencies,
}

impl ConversionWriter<'_> {
    fn goals(&self) -> impl Iterator<Item = &SiteGoal> {
        self.question.goals.iter().map(|number| &self.site.goals.all()[*number])
    }

    /// Returns the goals of the question.
    pub(crate) fn goals_json(&self) -> Json {
        let goal = |goal: &SiteGoal| {
            let path = |path: &Option<_>| path.as_ref().map(ToString::to_string);
            json!({
                "goal": goal.key, "name": goal.name, "value": path(&goal.value), "currency": path(&goal.currency),
            })
        };
        self.goals().map(goal).collect()
    }

    /// Returns the rule that credits conversions to visits.
    pub(crate) fn attribution_json(&self) -> Json {
        let Attribution { window_ms, is_first } = self.site.attribution;
        json!({ "model": if is_first { "first" } else { "last" }, "windowMs": window_ms })
    }

    /// Adds the members of sums to those of an answer.
    pub(crate) fn add(&self, members: &mut Map<String, Json>, sums: &ConversionSums) {
        members.insert("credited".to_owned(), json!(sums.credited));
        let none = GoalSums::default();
        let goals = self.goals().enumerate().map(|(index, goal)| {
            let of_goal = sums.goals.get(index).unwrap_or(&none);
            self.sums_json(goal, of_goal, sums.credited)
        });
        let goals = goals.collect();
        members.insert("goals".to_owned(), goals);
    }

    fn sums_json(&self, goal: &SiteGoal, sums: &GoalSums, credited: u64) -> Json {
        let amount = goal.value.as_ref().and_then(|_| sums.money.sum());
        json!({
            "goal": goal.key,
            "conversions": sums.conversions,
            "converted": sums.converted,
            "rate": ratio(sums.converted as f64, credited),
            "amount": amount,
            "amountPerVisitor": amount.and_then(|amount| ratio(amount, credited)),
            "currencies": goal.value.as_ref().map(|_| sums.money.by_currency(self.currencies)),
            "ignoredAmounts": sums.money.ignored,
        })
    }

    /// Returns the numbers of each goal in each bucket of a series.
    pub(crate) fn series_json(&self, series: &[ConversionSums]) -> Json {
        let none = GoalSums::default();
        let goals = self.goals().enumerate().map(|(index, goal)| {
            let of_goal = || series.iter().map(|sums| sums.goals.get(index).unwrap_or(&none));
            json!({
                "goal": goal.key,
                "conversions": of_goal().map(|sums| sums.conversions).collect::<Vec<_>>(),
                "converted": of_goal().map(|sums| sums.converted).collect::<Vec<_>>(),
                "amount": goal.value.as_ref().map(|_| of_goal().map(|sums| sums.money.sum()).collect::<Vec<_>>()),
            })
        });
        goals.collect()
    }

    /// Returns one line for each goal: the cells of the line, and after them those of the goal.
    pub(crate) fn lines(&self, line: &[Cell], sums: &ConversionSums) -> Vec<Vec<Cell>> {
        let none = GoalSums::default();
        let goals = self.goals().enumerate().map(|(index, goal)| {
            let of_goal = sums.goals.get(index).unwrap_or(&none);
            let decimal = |number: Option<f64>| number.map_or(Cell::Text(None), Cell::Decimal);
            let cells = [
                Cell::Text(Some(goal.key.clone())),
                Cell::Number(sums.credited as i64),
                Cell::Number(of_goal.conversions as i64),
                Cell::Number(of_goal.converted as i64),
                decimal(ratio(of_goal.converted as f64, sums.credited)),
                decimal(goal.value.as_ref().and_then(|_| of_goal.money.sum())),
            ];
            line.iter().cloned().chain(cells).collect()
        });
        goals.collect()
    }
}

/// Returns a quotient. `None` if nobody is credited.
fn ratio(number: f64, credited: u64) -> Option<f64> {
    (credited > 0).then(|| number / credited as f64)
}
