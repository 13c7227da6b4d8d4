//! The file `phases` of the data directory: the phases of experiments, so that a result after a restart covers the time
//! since the last change. THE SPEC; there is no other.
//!
//! **Purpose.** The watcher replaces the file after a publication that begins a phase. A start reads it. If it is missing or
//! damaged, the first phase of each experiment begins with the start, and the weights before it are unknown.
//!
//! The header is that of [`super::state_file`], with the magic FF 50 4C 58 50 48 41 53 ("\xFFPLXPHAS").
//!
//! ```text
//! payload     the number of sites, and the sites, sorted by ID
//!
//! site        the site ID; the number of experiments, and the experiments, sorted by key
//! experiment  the key; the number of phases, 1 to 16, and the phases, oldest first
//! phase       the seed; the holdout, a share; the number of arms, and the arms; the number of coverages, 1 to 64, and the
//!             coverages, oldest first, of which the first one begins the phase; the end of the experiment, in milliseconds
//!             since 1970, or 0
//! arm         the key of the variant; its weight, a share
//! coverage    the time when it was first served, in milliseconds since 1970; a share
//! share       8 bytes, a little-endian f64 from 0 to 1
//! ```
//!
//! Numbers are varints, and a text is its length and its bytes (`varint`).
//!
//! **Version 1** has other phases: the time, the seed, the number of arms, and the arms with the start and the end of their
//! ranges. The reader calculates the weights and the coverage from them. The holdout is unknown and counts as 0.
//!
//! **The smallest file in hex** is `tests/golden/smallest.phases.hex`, a golden test.

use std::io;
use std::path::Path;

use super::phases::{Coverage, ExperimentPhases, Phase, PhaseArm, Phases};
use super::state_file::{FileDamage, FileKind, HEADER_BYTES, StateFile, decode_sorted};
use crate::condition::without_residue;
use crate::limits::{COVERAGES_KEPT_MAX, PHASES_FILE_BYTES_MAX, PHASES_KEPT_MAX, PHASES_MAX};
use crate::varint::{Decoder, put_number, put_sized};

/// The file `phases`.
pub(crate) static PHASES_FILE: FileKind = FileKind {
    name: "phases",
    magic: *b"\xFFPLXPHAS",
    format_version: 2,
    format_version_min: 1,
    bytes_max: PHASES_FILE_BYTES_MAX,
    content: "phases of experiments",
    if_unreadable: "the first phase of each experiment begins now",
    if_unsaved: "after a restart a phase may begin late",
};

/// Reads the file. A file that is damaged or cannot be read is logged. It counts as one without phases.
pub(crate) fn load(file: &StateFile) -> Phases {
    file.load(decode)
}

/// Reads the file at `path`. `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, or it is damaged.
pub(crate) fn read(path: &Path) -> io::Result<Option<Phases>> {
    PHASES_FILE.read(path, decode)
}

/// Reads the file at `path` and returns the number of its phases. `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, or it is damaged.
pub fn check(path: &Path) -> io::Result<Option<usize>> {
    Ok(read(path)?.map(|phases| phases.count()))
}

/// Encodes the content of the file.
pub fn encode(phases: &Phases) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    put_number(&mut bytes, phases.by_site.len() as u64);
    for (site, experiments) in &phases.by_site {
        put_sized(&mut bytes, site.as_bytes());
        put_number(&mut bytes, experiments.len() as u64);
        for (key, phases) in experiments {
            put_sized(&mut bytes, key.as_bytes());
            put_number(&mut bytes, phases.len() as u64);
            phases.iter().for_each(|phase| encode_phase(phase, &mut bytes));
        }
    }
    PHASES_FILE.seal(bytes)
}

fn encode_phase(phase: &Phase, out: &mut Vec<u8>) {
    put_sized(out, phase.seed.as_bytes());
    out.extend_from_slice(&phase.holdout.to_le_bytes());
    put_number(out, phase.arms.len() as u64);
    for arm in &phase.arms {
        put_sized(out, arm.key.as_bytes());
        out.extend_from_slice(&arm.weight.to_le_bytes());
    }
    put_number(out, phase.coverages.len() as u64);
    for coverage in &phase.coverages {
        put_number(out, coverage.from_ms.cast_unsigned());
        out.extend_from_slice(&coverage.share.to_le_bytes());
    }
    put_number(out, phase.to_ms.unwrap_or_default().cast_unsigned());
}

/// Decodes the content of the file.
///
/// # Errors
/// The content is damaged, or of another format version.
pub fn decode(bytes: &[u8]) -> Result<Phases, FileDamage> {
    let (format_version, payload) = PHASES_FILE.unseal(bytes)?;
    let decode_phase = if format_version == 1 { decode_phase_of_ranges } else { decode_phase };
    let mut payload = Decoder(payload);
    let decode_site = |decoder: &mut Decoder<'_>| decode_experiments(decoder, decode_phase);
    let by_site = decode_sorted(&mut payload, decode_site).filter(|_| payload.0.is_empty());
    let phases = by_site.map(|by_site| Phases { by_site }).filter(|phases| phases.count() <= PHASES_MAX);
    phases.ok_or_else(|| PHASES_FILE.damage("its payload is malformed"))
}

fn decode_experiments(
    decoder: &mut Decoder<'_>,
    decode_phase: fn(&mut Decoder<'_>) -> Option<Phase>,
) -> Option<ExperimentPhases> {
    decode_sorted(decoder, |decoder| {
        let count = decoder.number().filter(|count| (1..=PHASES_KEPT_MAX as u64).contains(count))?;
        let phases = (0..count).map(|_| decode_phase(decoder)).collect::<Option<Vec<_>>>()?;
        phases.is_sorted_by_key(Phase::from_ms).then_some(phases)
    })
}

fn decode_phase(decoder: &mut Decoder<'_>) -> Option<Phase> {
    let seed = decoder.text()?.to_owned();
    let holdout = decode_share(decoder)?;
    let arms = (0..decoder.number()?).map(|_| {
        let key = decoder.text()?.to_owned();
        Some(PhaseArm { key, weight: decode_share(decoder)? })
    });
    let arms = arms.collect::<Option<_>>()?;
    let count = decoder.number().filter(|count| (1..=COVERAGES_KEPT_MAX as u64).contains(count))?;
    let coverages = (0..count).map(|_| {
        let from_ms = i64::try_from(decoder.number()?).ok()?;
        Some(Coverage { from_ms, share: decode_share(decoder)? })
    });
    let coverages = coverages.collect::<Option<Vec<_>>>()?;
    let to_ms = i64::try_from(decoder.number()?).ok()?;
    let is_sorted = coverages.is_sorted_by_key(|coverage| coverage.from_ms);
    is_sorted.then_some(Phase {
        arms,
        seed,
        holdout,
        coverages,
        to_ms: Some(to_ms).filter(|to_ms| *to_ms != 0),
    })
}

/// Decodes a phase of format version 1.
fn decode_phase_of_ranges(decoder: &mut Decoder<'_>) -> Option<Phase> {
    let from_ms = i64::try_from(decoder.number()?).ok()?;
    let seed = decoder.text()?.to_owned();
    let arms = (0..decoder.number()?).map(|_| {
        let key = decoder.text()?.to_owned();
        let start = decode_share(decoder)?;
        let end = decode_share(decoder)?;
        (start <= end).then_some((key, start, end))
    });
    let arms = arms.collect::<Option<Vec<_>>>()?;
    let mut starts = arms.iter().map(|(_, start, _)| *start).skip(1);
    let weight = |start: f64, next: f64| without_residue(next - start).clamp(0.0, 1.0);
    let weights: Vec<f64> =
        arms.iter().map(|(_, start, _)| weight(*start, starts.next().unwrap_or(1.0))).collect();
    let shown = arms.iter().zip(&weights).find(|(_, weight)| **weight > 0.0);
    let share = shown.map_or(0.0, |((_, start, end), weight)| without_residue((end - start) / weight));
    let arms = arms.into_iter().zip(weights).map(|((key, ..), weight)| PhaseArm { key, weight });
    let coverages = vec![Coverage { from_ms, share: share.clamp(0.0, 1.0) }];
    Some(Phase { arms: arms.collect(), seed, holdout: 0.0, coverages, to_ms: None })
}

fn decode_share(decoder: &mut Decoder<'_>) -> Option<f64> {
    let share = f64::from_le_bytes(decoder.take(8)?.try_into().ok()?);
    (0.0..=1.0).contains(&share).then_some(share)
}
