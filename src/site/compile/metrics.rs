//! The metrics of experiments: their syntax, and one definition per key, even if several zones give parts of it.

use crate::limits::{EVENT_NAME_CHARS_MAX, GUARDRAILS_MAX, SEED_CHARS_MAX};
use crate::site::experiment_metrics::{
    Cap, Dimension, Goal, SEGMENTS_MAX, are_segments, is_margin, parse_window_ms,
};
use crate::site::goals::PropertyPath;
use crate::site::snapshot::format;
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::types::{self, AuthoredCap, Experiment, Guardrail};

const _: () = assert!(GUARDRAILS_MAX == 16, "the schema of `guardrails` has the same number");
const _: () = assert!(SEGMENTS_MAX == 4, "the schema of `segments` has the same number");
const _: () = assert!(SEED_CHARS_MAX == 256, "the schema of `seed` has the same number");

/// A member of the first zone that gives it.
type FirstMember<'s, T> = Option<(&'s str, &'s T)>;

/// The metrics of one experiment, each from the first zone that gives it.
#[derive(Default)]
pub(super) struct CollectedMetrics<'s> {
    goal: FirstMember<'s, String>,
    value: FirstMember<'s, PropertyPath>,
    /// The pointer of `value`.
    value_pointer: String,
    currency: FirstMember<'s, PropertyPath>,
    /// The pointer of `currency`.
    currency_pointer: String,
    cap: FirstMember<'s, AuthoredCap>,
    /// The pointer of `cap`.
    cap_pointer: String,
    guardrails: FirstMember<'s, Vec<Guardrail>>,
    planned: FirstMember<'s, u64>,
    window: FirstMember<'s, String>,
    segments: FirstMember<'s, Vec<Dimension>>,
}

/// The zone whose metrics are added, and the sink for its errors.
pub(super) struct Zone<'s, 'd> {
    pub file: &'s str,
    /// The pointer of the experiment.
    pub pointer: &'d str,
    pub key: &'d str,
    pub diagnostics: &'d mut Diagnostics,
}

impl Zone<'_, '_> {
    fn report(&mut self, member_path: &str, title: &str, expected: String, actual: String) {
        let pointer = format!("{}/{member_path}", self.pointer);
        self.diagnostics.add_titled(self.file, pointer, title, expected, actual);
    }

    fn check_goal(&mut self, member_path: &str, goal: &str) {
        if Goal::parse(goal).is_none() {
            let expected = format!(
                "the name of an event with 1 to {EVENT_NAME_CHARS_MAX} characters, or `page:` and a path such as `page:/thanks`"
            );
            self.report(member_path, "invalid goal", expected, format!("{goal:?}"));
        }
    }

    /// Checks the syntax of the metrics that the zone gives.
    fn check_syntax(&mut self, experiment: &Experiment) {
        if let Some(goal) = &experiment.goal {
            self.check_goal("goal", goal);
        }
        for (index, guardrail) in experiment.guardrails.iter().flatten().enumerate() {
            self.check_goal(&format!("guardrails/{index}/goal"), &guardrail.goal);
            if !is_margin(guardrail.margin.0) {
                let expected = "a fraction above 0, such as 0.02 for two percent".to_owned();
                let member = format!("guardrails/{index}/margin");
                self.report(&member, "invalid margin", expected, guardrail.margin.0.to_string());
            }
        }
        if let Some(cap) = experiment.cap.as_ref().filter(|cap| Cap::parse(&cap.text()).is_none()) {
            let expected =
                "an amount above 0, a quantile from `\"p50\"` to `\"p99.9\"`, or `\"none\"`".to_owned();
            self.report("cap", "invalid cap", expected, cap.to_string());
        }
        if let Some(window) = experiment.window.as_ref().filter(|window| parse_window_ms(window).is_none()) {
            let expected = "a whole number of s, m, h or d, such as \"14d\"".to_owned();
            self.report("window", "invalid window", expected, format!("{window:?}"));
        }
        if let Some(segments) = experiment.segments.as_ref().filter(|segments| !are_segments(segments)) {
            let expected = format!("at most {SEGMENTS_MAX} different names");
            let names: Vec<&str> = segments.iter().map(|dimension| dimension.name()).collect();
            self.report("segments", "invalid segments", expected, names.join(", "));
        }
    }

    /// Keeps the first value of a member, and reports another one.
    fn agree<'s, T: PartialEq>(
        &mut self,
        member: &str,
        first_member: &mut FirstMember<'s, T>,
        own_member: FirstMember<'s, T>,
    ) {
        let before = *first_member;
        *first_member = before.or(own_member);
        if let Some((file, first_member)) = before
            && own_member.is_some_and(|(_, own_member)| first_member != own_member)
        {
            let title = format!("conflicting `{member}` of experiment `{}`", self.key);
            let expected = format!(
                "the same `{member}` as in `{file}`, or none, because all zones of the experiment share it"
            );
            self.report(member, &title, expected, format!("another `{member}`"));
        }
    }
}

impl<'s> CollectedMetrics<'s> {
    /// Adds the metrics that a zone gives. Reports invalid ones, and those that differ from another zone's.
    pub(super) fn add(&mut self, zone: &mut Zone<'s, '_>, experiment: &'s Experiment) {
        zone.check_syntax(experiment);
        if self.value.is_none() && experiment.value.is_some() {
            self.value_pointer = format!("{}/value", zone.pointer);
        }
        if self.currency.is_none() && experiment.currency.is_some() {
            self.currency_pointer = format!("{}/currency", zone.pointer);
        }
        if self.cap.is_none() && experiment.cap.is_some() {
            self.cap_pointer = format!("{}/cap", zone.pointer);
        }
        let file = zone.file;
        zone.agree("goal", &mut self.goal, experiment.goal.as_ref().map(|goal| (file, goal)));
        zone.agree("value", &mut self.value, experiment.value.as_ref().map(|value| (file, value)));
        zone.agree("currency", &mut self.currency, experiment.currency.as_ref().map(|path| (file, path)));
        zone.agree("cap", &mut self.cap, experiment.cap.as_ref().map(|cap| (file, cap)));
        let guardrails = experiment.guardrails.as_ref();
        zone.agree("guardrails", &mut self.guardrails, guardrails.map(|rails| (file, rails)));
        zone.agree("planned", &mut self.planned, experiment.planned.as_ref().map(|planned| (file, planned)));
        zone.agree("window", &mut self.window, experiment.window.as_ref().map(|window| (file, window)));
        let segments = experiment.segments.as_ref();
        zone.agree("segments", &mut self.segments, segments.map(|segments| (file, segments)));
    }

    /// Reports a cap or a currency without a value, and a value without an event whose values could be added up. `goals` are
    /// those of the site.
    pub(super) fn check_value(&self, goals: &types::Goals, diagnostics: &mut Diagnostics) {
        let goal = self.goal.map(|(_, goal)| goal.as_str());
        let site_goal = goal.and_then(|goal| goals.get(goal));
        let has_value = self.value.is_some() || site_goal.is_some_and(|goal| goal.value.is_some());
        if let Some((file, _)) = self.cap.filter(|_| !has_value) {
            let expected = "a `value` too, because the cap limits it";
            let title = "`cap` without a value";
            diagnostics.add_titled(file, self.cap_pointer.clone(), title, expected, "no `value`");
        }
        if let (Some((file, _)), None) = (self.currency, self.value) {
            let expected = "a `value` too, because it has the currency";
            let title = "`currency` without a value";
            diagnostics.add_titled(file, self.currency_pointer.clone(), title, expected, "no `value`");
        }
        let Some((file, value)) = self.value else { return };
        let pointer = self.value_pointer.clone();
        if site_goal.is_some() {
            let expected = "no `value`, because the goal of `site.json` has its own";
            let title = "`value` of a goal of the site";
            return diagnostics.add_titled(file, pointer, title, expected, value);
        }
        // An invalid goal is reported already.
        let actual = match goal.map(Goal::parse) {
            None => "no `goal`".to_owned(),
            Some(Some(Goal::Page(_))) => format!("{:?}", goal.unwrap_or_default()),
            _ => return,
        };
        let expected = "an event as `goal`, because its property is added up";
        diagnostics.add_titled(file, pointer, "`value` without an event", expected, actual);
    }

    pub(super) fn compile(&self) -> format::Metrics {
        let guardrails = self.guardrails.into_iter().flat_map(|(_, rails)| rails);
        let segments = self.segments.into_iter().flat_map(|(_, segments)| segments);
        format::Metrics {
            goal: self.goal.map(|(_, goal)| goal.clone()),
            value: self.value.map(|(_, value)| value.to_string()),
            currency: self.currency.map(|(_, currency)| currency.to_string()),
            cap: self.cap.map(|(_, cap)| cap.text()),
            guardrails: guardrails.map(compile_guardrail).collect(),
            planned: self.planned.map(|(_, planned)| *planned),
            window: self.window.map(|(_, window)| window.clone()),
            segments: segments.map(|dimension| dimension.name().to_owned()).collect(),
        }
    }
}

fn compile_guardrail(guardrail: &Guardrail) -> format::Guardrail {
    format::Guardrail {
        goal: guardrail.goal.clone(),
        margin: guardrail.margin.0,
        lower_is_better: guardrail.lower_is_better,
    }
}
