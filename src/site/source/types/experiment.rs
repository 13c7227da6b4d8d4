//! The types of an experiment in a rule: its arms, and the metrics that its result is measured by.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Number;

use super::goal::PropertyName;
use crate::site::experiment_metrics::Dimension;
use crate::site::goals::PropertyPath;
use crate::site::source::pattern::Name;

/// An experiment. Zones whose experiments have the same key share one experiment: a visitor gets the same arm
/// in all of them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The key of the experiment. Zones with the same key share the experiment.
    pub key: Name,
    /// The variant key of each arm. `default` is the default content of the zone.
    #[schemars(length(min = 1))]
    pub variants: Vec<Name>,
    /// The share of visitors in each arm, from 0 to 1. The sum must be 1. Default: equal shares.
    pub weights: Option<Vec<Share>>,
    /// The share of new visitors that take part, from 0 to 1, or a ramp: a list of shares and the times from which they apply.
    /// A visitor who was exposed before takes part at any coverage.
    #[serde(default = "everyone")]
    #[schemars(extend("default" = 1))]
    pub coverage: AuthoredCoverage,
    /// The time from which the experiment runs (RFC 3339). Before it the rule does not match.
    pub from: Option<String>,
    /// The time at which the experiment ends (RFC 3339). From then on the rule shows the `winner`, or does not match. The
    /// result counts events before it.
    pub to: Option<String>,
    /// The arm that all visitors get from `to` on, if `when` holds.
    pub winner: Option<Name>,
    /// The seed that is hashed with the visitor's ID to choose the arm, at most 256 characters. Default: the key of the
    /// experiment.
    #[schemars(length(min = 1, max = 256))]
    pub seed: Option<String>,
    /// The name of a namespace and the start and end of a range of its visitors, from 0 to 1. Only visitors
    /// in the range take part. Experiments with disjoint ranges of one namespace never share a visitor.
    pub namespace: Option<(Name, Share, Share)>,
    /// The share of visitors that always get `default`, from 0 to 1. No later rule applies to them.
    pub holdout: Option<Share>,
    /// The goal of the experiment: the key of a goal in `site.json`, an event name such as `Order Placed`, or `page:` and a path
    /// such as `page:/thanks`. `event:` before a name allows a name that is a key or begins with `page:`. A `*` at the end matches
    /// any rest. The result compares the shares of visitors that
    /// reach the goal. It changes no decision.
    #[schemars(length(min = 1))]
    pub goal: Option<String>,
    /// The property of the goal's events that is added up per visitor and compared too, such as `properties.revenue`. Needs an
    /// event as goal. A goal of `site.json` has its own value.
    #[schemars(with = "Option<PropertyName>")]
    pub value: Option<PropertyPath>,
    /// The property with the currency of the value, such as `properties.currency`. Needs a `value`.
    #[schemars(with = "Option<PropertyName>")]
    pub currency: Option<PropertyPath>,
    /// The limit of the value of one visitor, so that no single order decides the result: an amount above 0, a quantile
    /// of the values of all arms from `p50` to `p99.9`, or `none`. Needs a `value`. Default: `p99`.
    pub cap: Option<AuthoredCap>,
    /// Goals that must not get worse.
    #[schemars(length(max = 16))]
    pub guardrails: Option<Vec<Guardrail>>,
    /// The planned number of visitors of two compared arms together. The result is most exact near this number, and
    /// valid at every number. Default: 5,000.
    #[schemars(range(min = 2, max = 9_007_199_254_740_992_u64))]
    pub planned: Option<u64>,
    /// The time after a visitor's first exposure in which a goal counts, such as `14d`: a whole number of `s`, `m`, `h`
    /// or `d`. Default: no limit.
    pub window: Option<String>,
    /// The properties of visitors by which the result is divided too, each once: `device`, `country`, `source`, `language`, or
    /// `new`, which tells visitors without an earlier event from the others.
    #[schemars(
        with = "Option<Vec<String>>",
        extend("maxItems" = 4, "items" = { "type": "string", "enum": ["device", "country", "source", "language", "new"] })
    )]
    pub segments: Option<Vec<Dimension>>,
}

/// A goal that must not get worse.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guardrail {
    /// The goal: an event name, or `page:` and a path, as in the goal of the experiment.
    #[schemars(length(min = 1))]
    pub goal: String,
    /// The largest loss that is tolerated, as a fraction of the baseline: above 0 and at most 1. `0.02` is two percent.
    pub margin: Share,
    /// True if fewer visitors that reach the goal are better.
    #[serde(default)]
    pub lower_is_better: bool,
}

/// A limit of the value of one visitor, as authored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum AuthoredCap {
    Amount(Number),
    Rule(String),
}

impl AuthoredCap {
    /// Returns the text that a snapshot has. A question has the same syntax.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Amount(amount) => amount.to_string(),
            Self::Rule(rule) => rule.clone(),
        }
    }
}

/// Writes the limit as diagnostics quote it.
impl fmt::Display for AuthoredCap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amount(amount) => amount.fmt(out),
            Self::Rule(rule) => write!(out, "{rule:?}"),
        }
    }
}

fn everyone() -> AuthoredCoverage {
    AuthoredCoverage::Share(Share(1.0))
}

/// A coverage, as authored.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum AuthoredCoverage {
    Share(Share),
    Ramp(#[schemars(length(min = 1, max = 32))] Vec<CoverageStep>),
}

/// A step of a ramp.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoverageStep {
    /// The time from which the share applies (RFC 3339). Before the first step no new visitor takes part.
    pub from: String,
    /// The share of new visitors that take part, from 0 to 1.
    pub share: Share,
}

/// A share, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[schemars(inline, extend("minimum" = 0, "maximum" = 1))]
pub struct Share(pub f64);
