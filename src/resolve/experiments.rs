//! The experiments that decided the zones of a request, and their text for the response: `key:variant` pairs, sorted by
//! key. The pair of the site's holdout is the first one.

use crate::limits::{EXPERIMENTS_BYTES_MAX, ZONES_MAX};
use crate::record::{HELD_OUT, NOT_HELD_OUT, SITE_HOLDOUT};
use crate::site::snapshot::format::{ArchivedPage, ArchivedSite};

/// Size of the text: the pair of the site's holdout, and the pairs of the experiments.
const TEXT_BYTES_MAX: usize = "~:on,".len() + EXPERIMENTS_BYTES_MAX;

/// The experiments that decided zones, and the text of the last decision. The buffers are reused from request to
/// request.
#[derive(Debug)]
pub(crate) struct DecidingExperiments {
    /// One entry for each experiment, in the order of the site's experiments.
    entries: Vec<Entry>,
    /// True if the visitor is in the holdout of the site. `None` if the page has no zone that the holdout concerns.
    is_held_out: Option<bool>,
    text: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    experiment: u16,
    zone: u8,
    /// The variant of the zone, or `None` in the holdout.
    variant: Option<u8>,
}

impl Default for DecidingExperiments {
    fn default() -> Self {
        Self {
            entries: Vec::with_capacity(ZONES_MAX),
            is_held_out: None,
            text: Vec::with_capacity(TEXT_BYTES_MAX),
        }
    }
}

impl DecidingExperiments {
    /// Removes the experiments of the previous request.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.is_held_out = None;
    }

    /// Adds the experiment that decided `zone_index`. If it decided another zone too, the visitor has the same arm in both.
    pub(super) fn add(&mut self, experiment_index: u16, zone_index: u8, variant_index: Option<u8>) {
        let at = self.entries.partition_point(|entry| entry.experiment < experiment_index);
        if self.entries.get(at).is_none_or(|entry| entry.experiment != experiment_index) {
            self.entries
                .insert(at, Entry { experiment: experiment_index, zone: zone_index, variant: variant_index });
        }
    }

    /// Adds the visitor to one of the two groups of the site's holdout.
    pub(super) fn set_held_out(&mut self, is_held_out: bool) {
        self.is_held_out = Some(is_held_out);
    }

    /// Writes the text of the added experiments.
    pub(super) fn write_text(&mut self, site: &ArchivedSite, page: &ArchivedPage) {
        let Self { entries, is_held_out, text } = self;
        text.clear();
        if let Some(is_held_out) = *is_held_out {
            write_pair(text, SITE_HOLDOUT, if is_held_out { HELD_OUT } else { NOT_HELD_OUT });
        }
        for entry in entries {
            let zone = &page.zones[usize::from(entry.zone)];
            let variant = entry.variant.map_or(HELD_OUT, |variant| &zone.variants[usize::from(variant)].key);
            write_pair(text, &site.experiments[usize::from(entry.experiment)].key, variant);
        }
    }

    /// Returns the text. It consists of letters, digits, '_', '-', ':', ',' and '~', so it needs no escapes.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

#[inline]
fn write_pair(text: &mut Vec<u8>, key: &str, variant: &str) {
    if !text.is_empty() {
        text.push(b',');
    }
    text.extend_from_slice(key.as_bytes());
    text.push(b':');
    text.extend_from_slice(variant.as_bytes());
}
