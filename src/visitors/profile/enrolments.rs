//! The enrolments of one ID: the phases of experiments that it was exposed to.
//!
//! ```text
//! enrolments = each: hash of the phase:4 bytes | hour of the latest exposure:4 bytes
//! ```
//!
//! Numbers are little-endian, and the enrolments are sorted by the hash, so equal enrolments have equal bytes. The hour counts
//! from 1970, by the timestamps of the events. An enrolment names no arm: the hash of the ID gives it.

use crate::limits::ENROLMENTS_MAX;

/// Size of an enrolment.
pub(super) const ENROLMENT_BYTES: usize = 8;
/// An hour in milliseconds.
pub(crate) const HOUR_MS: i64 = 3_600_000;

/// The enrolments of one ID, encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Enrolments<'a>(&'a [[u8; ENROLMENT_BYTES]]);

impl<'a> Enrolments<'a> {
    /// The enrolments of an unknown ID.
    pub const NONE: Self = Self(&[]);

    /// Decodes enrolments. A rest that is shorter than an enrolment is ignored.
    pub fn decode(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    /// Returns the encoded enrolments.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0.as_flattened()
    }

    /// Returns the number of enrolments.
    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    /// Iterates over the hash of each phase, and the hour of the latest exposure.
    pub fn iter(self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        self.0
            .iter()
            .map(|[a, b, c, d, hour @ ..]| (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes(*hour)))
    }

    /// Returns whether the ID is enrolled in the phase with this hash.
    pub(crate) fn contains(self, phase_hash: u32) -> bool {
        self.iter().any(|(hash, _)| hash == phase_hash)
    }

    /// Returns the enrolments after an exposure to these phases, encoded. `None` if they do not change. Beyond
    /// [`ENROLMENTS_MAX`] the one with the oldest latest exposure is dropped, and of several such ones that with the smallest
    /// hash.
    pub(crate) fn after(self, phase_hashes: impl Iterator<Item = u32>, exposed_ms: i64) -> Option<Vec<u8>> {
        let hour = u32::try_from(exposed_ms.div_euclid(HOUR_MS)).unwrap_or_default();
        let mut entries: Vec<(u32, u32)> = self.iter().collect();
        for hash in phase_hashes {
            match entries.binary_search_by_key(&hash, |(hash, _)| *hash) {
                Ok(index) => entries[index].1 = entries[index].1.max(hour),
                Err(index) => entries.insert(index, (hash, hour)),
            }
        }
        while entries.len() > ENROLMENTS_MAX
            && let Some(oldest) = (0..entries.len()).min_by_key(|index| entries[*index].1)
        {
            entries.remove(oldest);
        }
        let entries = entries.iter().flat_map(|(hash, hour)| [hash.to_le_bytes(), hour.to_le_bytes()]);
        let encoded: Vec<u8> = entries.flatten().collect();
        (encoded != self.bytes()).then_some(encoded)
    }
}
