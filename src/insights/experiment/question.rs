//! Parses a question about an experiment. The question has the key of the experiment, the metrics, the range, and the
//! settings of the comparison.

use std::ops::Range;

use super::known::KnownExperiment;
use super::metrics::{Metric, metrics_of};
use crate::events::variants::is_key;
use crate::insights::questions::calendar::{Unit, Zone};
use crate::insights::questions::question::{
    Filters, NamedValue, QuestionError, check_series, parse_bots, parse_time, parse_unit, single_value,
};
use crate::insights::questions::unknown::filter_values;
use crate::insights::statistics::difference::{Method, PLANNED_DEFAULT};
use crate::limits::CURRENCY_CHARS_MAX;
use crate::record::{HELD_OUT, SITE_HOLDOUT};
use crate::site::catalog::phases::Phase;
use crate::site::experiment_metrics::{Cap, Dimension, is_planned, parse_window_ms};
use crate::site::snapshot::format::Metrics;

const DAYS_DEFAULT: i64 = 30;
/// The default error rate of a comparison. If the arms do not differ, it gives at most about one false alarm in twenty
/// comparisons.
const ALPHA_DEFAULT: f64 = 0.05;
/// The time before the first exposure of a visitor whose events adjust the comparisons, in milliseconds: 14 days. A longer
/// time explains little more of the metric, and a question would read more events.
pub(super) const BEFORE_MS: i64 = 14 * 24 * 60 * 60 * 1_000;
/// The begin of a value of `by` that names a dimension.
const SEGMENT_PREFIX: &str = "segment:";
/// The default power: the probability that the test detects a real change of the size `lift`.
const POWER_DEFAULT: f64 = 0.8;

/// All parameters of the question except `site`.
#[rustfmt::skip]
pub(crate) const EXPERIMENT_PARAM_NAMES: [&str; 25] = [
    "key", "from", "to", "by", "bots", "page", "source", "campaign", "country", "device", "language", "goal", "value",
    "currency",
    "more", "guardrail", "window", "cap", "planned", "alpha", "method", "cuped", "baseline", "lift", "power",
];

/// A question about an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentQuestion {
    /// The range in milliseconds. The end is exclusive.
    pub range: Range<i64>,
    /// The length of a bucket of the series.
    pub by: Unit,
    pub bots: bool,
    /// The filters. A visitor counts if its first exposure passes them.
    pub filters: Filters,
    /// The time after the first exposure in which goals count, in milliseconds. `None` if goals count until the end of
    /// the range.
    pub window_ms: Option<i64>,
    /// The cap: a larger value of one visitor counts as this amount.
    pub cap: Cap,
    /// The error rate of the comparisons.
    pub(super) alpha: f64,
    /// Decides whether the comparisons are valid at one look at the result or at every look.
    pub(super) method: Method,
    /// True if the comparisons are adjusted by the behaviour of the visitors before their first exposure (CUPED).
    pub(super) cuped: bool,
    /// The key of the baseline. With `None`, the baseline is the arm `default`, or the first arm if no arm has this
    /// key.
    pub(super) baseline: Option<String>,
    /// The smallest relative change that the author wants to detect in the goal, such as 0.05 for five percent.
    pub(super) lift: Option<f64>,
    /// The power: the probability that the test detects a real change of the size `lift`.
    pub(super) power: f64,
    pub(super) metrics: Vec<Metric>,
    /// The currency whose amounts count. `None` if all amounts count, which must have one currency.
    pub(super) currency: Option<String>,
    /// True if the question has other metrics, another start or other settings than the published experiment. The
    /// parameters `baseline`, `by`, `lift`, `power` and `to` do not matter here.
    pub(super) is_exploratory: bool,
    /// The dimensions by which the result is divided too: those of the published experiment, and those of the question.
    pub(super) dimensions: Vec<Dimension>,
    pub(super) known: KnownExperiment,
}

impl ExperimentQuestion {
    /// Parses the parameters of the question. `find_experiment` takes a key and returns the experiment that has it.
    /// Ignores unknown parameters and empty parameters.
    ///
    /// # Errors
    /// The error of the first wrong parameter.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        find_experiment: impl FnOnce(&str) -> KnownExperiment,
    ) -> Result<Self, QuestionError> {
        let pairs: Vec<(&str, &str)> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        let key = single_value(&pairs, "key")?.unwrap_or_default();
        if !is_key(key) {
            return Err(QuestionError::invalid("key", "the key of an experiment", key));
        }
        Self::of_known(&pairs, zone, now_ms, find_experiment(key))
    }

    /// Parses the parameters of a question about the holdout of a site. They are those about an experiment without `key`.
    ///
    /// # Errors
    /// The error of the first wrong parameter.
    pub(crate) fn parse_holdout<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        holdout: KnownExperiment,
    ) -> Result<Self, QuestionError> {
        let pairs: Vec<(&str, &str)> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        Self::of_known(&pairs, zone, now_ms, holdout)
    }

    fn of_known(
        pairs: &[(&str, &str)],
        zone: &Zone,
        now_ms: i64,
        known_experiment: KnownExperiment,
    ) -> Result<Self, QuestionError> {
        for name in EXPERIMENT_PARAM_NAMES {
            if !["by", "more", "guardrail"].contains(&name) && Filters::default().by_name(name).is_none() {
                single_value(pairs, name)?;
            }
        }
        let single = |name: &str| pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let (range, is_default_range) =
            range_of(single("from"), single("to"), zone, now_ms, &known_experiment.phases)?;
        let (metrics, has_other_metrics) = metrics_of(&known_experiment, pairs)?;
        let published = known_experiment.published.as_ref().map(|published| &published.metrics);
        let published_window_ms = published.and_then(|metrics| parse_window_ms(metrics.window.as_ref()?));
        let window_ms = single("window").map(parse_window).transpose()?.or(published_window_ms);
        let published_planned = published.and_then(|metrics| metrics.planned).unwrap_or(PLANNED_DEFAULT);
        let planned = single("planned").map(parse_planned).transpose()?.unwrap_or(published_planned);
        // A forged snapshot can have a malformed cap.
        let published_cap =
            published.and_then(|metrics| Cap::parse(metrics.cap.as_ref()?)).unwrap_or(Cap::DEFAULT);
        let cap = single("cap").map(parse_cap).transpose()?.unwrap_or(published_cap);
        let alpha = single("alpha").map_or(Ok(ALPHA_DEFAULT), |text| parse_probability("alpha", text))?;
        let method = parse_method(single("method"), planned)?;
        let (by, asked_dimensions) = parse_by(pairs)?;
        let mut dimensions = published.map_or_else(Vec::new, published_dimensions);
        dimensions.extend(asked_dimensions);
        // Each one once, always in the same order.
        let dimensions = Dimension::ALL.into_iter().filter(|dimension| dimensions.contains(dimension));
        let mut question = Self {
            by,
            dimensions: dimensions.collect(),
            bots: single("bots").map_or(Ok(false), parse_bots)?,
            filters: parse_filters(pairs)?,
            window_ms,
            cap,
            alpha,
            method,
            cuped: single("cuped").map_or(Ok(true), parse_cuped)?,
            baseline: single("baseline").map(parse_baseline).transpose()?,
            power: single("power").map_or(Ok(POWER_DEFAULT), |text| parse_probability("power", text))?,
            lift: single("lift").map(parse_lift).transpose()?,
            metrics,
            currency: single("currency").map(parse_currency).transpose()?,
            is_exploratory: false,
            range,
            known: known_experiment,
        };
        question.is_exploratory = has_other_metrics
            || !is_default_range
            || window_ms != published_window_ms
            || planned != published_planned
            || cap != published_cap
            || question.has_other_choices();
        check_series(&question.range, question.by, zone)?;
        Ok(question)
    }

    /// Returns the key of the experiment.
    pub fn key(&self) -> &str {
        &self.known.key
    }

    /// Returns whether the question is about the holdout of the site.
    pub(super) fn is_of_site_holdout(&self) -> bool {
        self.key() == SITE_HOLDOUT
    }

    /// Returns the arm of the visitors that are held out and never compared. Empty if there is none.
    pub(super) fn held_out_arm(&self) -> &'static str {
        if self.is_of_site_holdout() { "" } else { HELD_OUT }
    }

    /// Returns the values of the filters, and the event name or the path of each goal.
    pub(crate) fn named_values(&self) -> Vec<NamedValue<'_>> {
        let mut values = filter_values(&self.filters);
        // A `value` metric has the same goal as the metric `goal`, so it adds no name.
        for metric in self.metrics.iter().filter(|metric| !metric.is_amount()) {
            values.extend(metric.goal.named_value(metric.role.name(), &metric.text));
        }
        values
    }

    /// Returns whether the question counts goals of the site.
    pub(crate) fn needs_goals(&self) -> bool {
        self.metrics.iter().any(Metric::needs_goals)
    }

    fn has_other_choices(&self) -> bool {
        self.bots
            || self.currency.is_some()
            || self.alpha.to_bits() != ALPHA_DEFAULT.to_bits()
            || self.method == Method::Fixed
            || !self.cuped
            || self.filters != Filters::default()
    }

    /// Returns the time from which events before the first exposures count. `None` if no such event counts.
    pub(super) fn before_from_ms(&self) -> Option<i64> {
        (self.cuped && !self.metrics.is_empty()).then(|| self.range.start.saturating_sub(BEFORE_MS))
    }

    /// Returns the time from which events count that are no exposures. `None` if only exposures and goals count.
    pub(super) fn activity_from_ms(&self) -> Option<i64> {
        if self.dimensions.contains(&Dimension::New) { Some(i64::MIN) } else { self.before_from_ms() }
    }

    /// Returns whether the visits of the exposures matter.
    pub(super) fn needs_visits(&self) -> bool {
        self.filters.select_visits() || self.dimensions.contains(&Dimension::Source)
    }

    /// Returns whether the published experiment is divided by this dimension.
    pub(super) fn publishes(&self, dimension: Dimension) -> bool {
        let published = self.known.published.as_ref();
        published.is_some_and(|published| published_dimensions(&published.metrics).contains(&dimension))
    }

    /// Returns the phases that overlap the range.
    pub(super) fn phases(&self) -> &[Phase] {
        let phases = &self.known.phases;
        let started_at = |time_ms: i64| phases.partition_point(|phase| phase.from_ms() <= time_ms);
        &phases[started_at(self.range.start).saturating_sub(1)..started_at(self.range.end - 1)]
    }
}

/// Returns the range of a question. The second result is true if the range has the default start: the start of the
/// newest phase that begins before the end. If there is no such phase, the default start is midnight 30 days before the
/// end.
fn range_of(
    from_text: Option<&str>,
    to_text: Option<&str>,
    zone: &Zone,
    now_ms: i64,
    phases: &[Phase],
) -> Result<(Range<i64>, bool), QuestionError> {
    let end = to_text.map(|text| parse_time("to", text, zone)).transpose()?;
    // Events after the end of the experiment do not count.
    let ended_ms = phases.last().and_then(|phase| phase.to_ms);
    let end = end.unwrap_or_else(|| {
        let tomorrow = zone.last_days(now_ms, 1).end;
        ended_ms.map_or(tomorrow, |ended_ms| tomorrow.min(ended_ms))
    });
    let newest = phases.iter().map(|phase| phase.from_ms()).rfind(|from_ms| *from_ms < end);
    let start_default = newest.unwrap_or_else(|| zone.midnight(zone.day_of(end) - DAYS_DEFAULT));
    let start = from_text.map(|text| parse_time("from", text, zone)).transpose()?.unwrap_or(start_default);
    if start >= end {
        return Err(QuestionError::invalid("from", "a time before 'to'", from_text.unwrap_or_default()));
    }
    Ok((start..end, start == start_default))
}

/// Returns the length of a bucket, and the dimensions that the question asks for.
fn parse_by(pairs: &[(&str, &str)]) -> Result<(Unit, Vec<Dimension>), QuestionError> {
    let texts = pairs.iter().filter(|(name, _)| *name == "by").map(|(_, text)| *text);
    let (segments, units): (Vec<&str>, Vec<&str>) = texts.partition(|text| text.starts_with(SEGMENT_PREFIX));
    let unit = match units[..] {
        [] => Unit::Day,
        [unit] => parse_unit(unit)?,
        _ => return Err(QuestionError::repeated("by")),
    };
    let dimensions = segments.into_iter().map(|text| {
        let dimension = Dimension::parse(&text[SEGMENT_PREFIX.len()..]);
        let names = Dimension::ALL.map(Dimension::name).join(", ");
        let expected = format!("'{SEGMENT_PREFIX}' and one of {names}");
        dimension.ok_or_else(|| QuestionError::invalid("by", &expected, text))
    });
    Ok((unit, dimensions.collect::<Result<_, _>>()?))
}

/// Returns the dimensions of a published experiment.
fn published_dimensions(metrics: &Metrics) -> Vec<Dimension> {
    metrics.segments.iter().filter_map(|name| Dimension::parse(name)).collect()
}

fn parse_filters(pairs: &[(&str, &str)]) -> Result<Filters, QuestionError> {
    let mut filters = Filters::default();
    for (name, value) in pairs {
        if ["event", "variant"].contains(name) {
            let expected = "a filter of the first exposure, since this one selects visitors by later events";
            return Err(QuestionError::invalid(name, expected, value));
        }
        filters.add(name, value)?;
    }
    Ok(filters)
}

fn parse_window(text: &str) -> Result<i64, QuestionError> {
    let expected = "a whole number of s, m, h or d, such as '14d'";
    parse_window_ms(text).ok_or_else(|| QuestionError::invalid("window", expected, text))
}

/// Parses a number above 0 and below 1.
fn parse_probability(name: &str, text: &str) -> Result<f64, QuestionError> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number < 1.0);
    number.ok_or_else(|| QuestionError::invalid(name, "a number above 0 and below 1, such as 0.05", text))
}

fn parse_planned(text: &str) -> Result<u64, QuestionError> {
    let planned = text.parse::<u64>().ok().filter(|planned| is_planned(*planned));
    planned.ok_or_else(|| QuestionError::invalid("planned", "a number of visitors, 2 or more", text))
}

fn parse_method(text: Option<&str>, planned_count: u64) -> Result<Method, QuestionError> {
    match text {
        None | Some("anytime") => Ok(Method::Anytime { planned: planned_count }),
        Some("fixed") => Ok(Method::Fixed),
        Some(text) => Err(QuestionError::invalid("method", "'anytime' or 'fixed'", text)),
    }
}

fn parse_cuped(text: &str) -> Result<bool, QuestionError> {
    match text {
        "auto" => Ok(true),
        "off" => Ok(false),
        _ => Err(QuestionError::invalid("cuped", "'auto' or 'off'", text)),
    }
}

fn parse_baseline(text: &str) -> Result<String, QuestionError> {
    let arm = is_key(text).then(|| text.to_owned());
    arm.ok_or_else(|| QuestionError::invalid("baseline", "the key of an arm", text))
}

fn parse_cap(text: &str) -> Result<Cap, QuestionError> {
    let expected = "an amount above 0, a quantile from p50 to p99.9, or 'none'";
    Cap::parse(text).ok_or_else(|| QuestionError::invalid("cap", expected, text))
}

fn parse_currency(text: &str) -> Result<String, QuestionError> {
    let is_currency = text.chars().count() <= CURRENCY_CHARS_MAX;
    let expected = || format!("a currency of at most {CURRENCY_CHARS_MAX} characters, such as 'EUR'");
    is_currency.then(|| text.to_owned()).ok_or_else(|| QuestionError::invalid("currency", &expected(), text))
}

fn parse_lift(text: &str) -> Result<f64, QuestionError> {
    let expected = "a change above 0, such as 0.05 for five percent";
    let lift = text.parse::<f64>().ok().filter(|lift| lift.is_finite() && *lift > 0.0);
    lift.ok_or_else(|| QuestionError::invalid("lift", expected, text))
}
