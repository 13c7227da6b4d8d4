//! The part of the snapshot format that describes personalized zones, their variants and their rules.

use rkyv::{Archive, Serialize};

use super::format::Part;
use crate::condition::program::Program;

/// A personalized zone.
#[derive(Debug, Clone, Archive, Serialize)]
pub struct Zone {
    /// Unique within its route.
    pub name: String,
    /// `default` first, then sorted by key.
    pub variants: Vec<Variant>,
    /// In the order in which they are tried.
    pub rules: Vec<Rule>,
}

/// The place of a zone in its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Archive, Serialize)]
pub struct ZonePlace {
    /// Index of the zone.
    pub zone: u8,
    /// Index of the outer zone, and index of its variant that contains this zone. `None` if no zone contains it.
    pub within: Option<(u8, u8)>,
}

impl ArchivedZonePlace {
    /// Converts [`ZonePlace::within`] from its archived form.
    #[inline]
    pub fn within(&self) -> Option<(u8, u8)> {
        self.within.as_ref().map(|within| (within.0, within.1))
    }
}

/// A variant of a zone.
#[derive(Debug, Clone, Archive, Serialize)]
pub struct Variant {
    /// `default`, or as authored.
    pub key: Box<str>,
    /// `zone:key`. Empty for `default`, which canonical `variants` omit.
    pub pair: String,
    /// `"zone":"key"`
    pub selected: String,
    /// Its content, and the zones in it.
    pub parts: Vec<Part>,
}

/// A rule: a test, and the variants that it selects. Variants are indices into the zone's variants.
#[derive(Debug, Clone, Archive, Serialize)]
pub enum Rule {
    /// Matches if the visitor belongs to an audience.
    Audience {
        /// Index of the site's audience.
        audience: u16,
        /// The selected variant.
        variant: u8,
    },
    /// Matches if a condition holds.
    When {
        /// The condition.
        when: Condition,
        /// The selected variant.
        variant: u8,
    },
    /// Matches if the visitor is in the experiment.
    Experiment {
        /// Index of the site's experiment.
        experiment: u16,
        /// The variant of each arm.
        arms: Vec<u8>,
        /// A condition that must hold as well.
        when: Option<Condition>,
    },
}

/// A condition of a rule or an audience.
#[derive(Debug, Clone, Archive, Serialize)]
pub struct Condition {
    /// The compiled condition.
    pub program: Program,
    /// The condition as authored, as JSON. Explanations, lists and comparisons of versions read it, and no decision.
    pub authored: String,
}
