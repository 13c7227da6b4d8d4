//! Windows of dates and times that are wholly in the past, so that their condition never holds again.

use super::conditions::conditions_of;
use crate::site::compile::comparisons::{Comparison, Comparisons, LOOSE};
use crate::site::compile::fields::SiteFields;
use crate::site::compile::operands::{parse_time_ms, time_of};
use crate::site::compile::timezone::date_at;
use crate::site::profile_fields::ProfileField;
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::read::Source;
use crate::site::source::types::{Experiment, Route, Rule};

/// The time with which windows are compared.
struct Now {
    ms: i64,
    /// The date in the time zone of the site.
    date: String,
}

/// Adds a warning for each window of a condition that ends before `now_ms`, in milliseconds since 1970.
pub(in crate::site::compile) fn check(source: &Source, now_ms: i64, warnings: &mut Diagnostics) {
    let zone = source.site.as_ref().map_or("UTC", |site| &site.time_zone);
    let Some(date) = date_at(zone, now_ms) else { return };
    let now = Now { ms: now_ms, date };
    for (file, route) in &source.routes {
        let Route::Page(page) = route else { continue };
        page.layout.for_each_rule(&mut |pointer, rule| {
            if let Rule::Experiment { experiment, .. } = rule {
                now.check_end(file, pointer, experiment, warnings);
            }
        });
    }
    let site_fields = SiteFields::new(source);
    for condition in conditions_of(source) {
        let found = Comparisons::collect(site_fields, condition.when, &condition.pointer);
        for window in found.windows() {
            if let Some(end) = now.find_end(&window) {
                warnings.add(now.describe(condition.file, end));
            }
        }
    }
}

impl Now {
    /// Adds a warning if the experiment has ended without a winner, so that its rule never matches again.
    fn check_end(&self, file: &str, pointer: &str, experiment: &Experiment, warnings: &mut Diagnostics) {
        let Some(to) = experiment.to.as_ref().filter(|_| experiment.winner.is_none()) else { return };
        if parse_time_ms(to).is_some_and(|to_ms| to_ms <= self.ms) {
            let title = format!("the experiment `{}` has ended", experiment.key);
            let expected = "a `winner`, or no rule with this experiment";
            warnings.add_titled(file, format!("{pointer}/experiment/to"), title, expected, to);
        }
    }

    /// Returns the comparison that ends the window before now.
    fn find_end<'w, 'c>(&self, window: &[&'w Comparison<'c>]) -> Option<&'w Comparison<'c>> {
        let (listed, single): (Vec<&Comparison<'_>>, Vec<_>) = window
            .iter()
            .filter(|comparison| !comparison.is_negated)
            .partition(|item| item.operator == "$in");
        let ended = single.into_iter().find(|comparison| self.is_over(comparison));
        ended.or_else(|| {
            let all = !listed.is_empty() && listed.iter().all(|item| self.is_over(item));
            listed.last().filter(|_| all).copied()
        })
    }

    /// Returns whether the comparison holds for no time from now on.
    fn is_over(&self, comparison: &Comparison<'_>) -> bool {
        let is_inclusive = match comparison.operator {
            "$lt" => false,
            "$lte" | "$eq" | "$in" | LOOSE => true,
            _ => return false,
        };
        match comparison.field {
            ProfileField::Date => comparison
                .literal
                .as_str()
                .is_some_and(|end| end < self.date.as_str() || !is_inclusive && end == self.date),
            ProfileField::At => time_of(comparison.literal).is_some_and(|end| end < self.ms as f64),
            _ => false,
        }
    }

    fn describe(&self, file: &str, comparison: &Comparison<'_>) -> Diagnostic {
        let expected = format!("a time from {} on, or no such rule", self.date);
        let literal = comparison.literal.to_string();
        let title =
            format!("`{}` never passes this test again, because {literal} is in the past", comparison.path);
        Diagnostic::at_value(file, comparison.pointer.clone(), expected, literal).with_title(title)
    }
}
