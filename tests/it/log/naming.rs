//! Erasures of the tests of the log: their rule goes by names, because the log knows no owners.

use std::collections::HashMap;

use parallax::testing::log::{
    EraseError, EraseRule, Erasure, ErasureSummary, RedactedIds, Treatment, VisitorIds,
};
use parallax::testing::record::{IdKind, IdTag, Record, TombstoneKey};

use super::Log;

fn kind(id: &str) -> IdKind {
    if id.starts_with("user-") { IdKind::User } else { IdKind::Anon }
}

/// Returns the names of a visitor. The first ID is the owner.
pub fn visitor(key: &TombstoneKey, ids: &[&str]) -> VisitorIds {
    let named: Vec<IdTag> = ids.iter().map(|id| key.tag("acme", kind(id), id)).collect();
    let known_ids = ids.iter().map(|id| (kind(id), (*id).to_owned())).collect();
    let owner = named.first().copied().unwrap_or_default();
    VisitorIds { site: "acme".to_owned(), owner, named, known_ids, ..VisitorIds::default() }
}

/// The rule of these tests: an erased visitor owns each record that names one of their IDs, and a `previousId`
/// is redacted.
struct NameRule {
    key: TombstoneKey,
    /// The seq of the tombstone for each erased ID.
    erased: HashMap<IdTag, u64>,
}

impl EraseRule for NameRule {
    fn may_match(&self, _filter: &[u8]) -> bool {
        true
    }

    fn may_name(&self, _hash: u64) -> bool {
        true
    }

    fn treatment(&mut self, seq: u64, record: &Record<'_>) -> Treatment {
        let Some(site) = record.site else { return Treatment::Keep };
        let is_erased = |kind: IdKind, id: Option<&str>| {
            let tombstone = id.and_then(|id| self.erased.get(&self.key.tag(site, kind, id)));
            tombstone.is_some_and(|tombstone| seq < *tombstone)
        };
        if is_erased(IdKind::Anon, record.anon_id) || is_erased(IdKind::User, record.user_id) {
            return Treatment::Void;
        }
        let mut fold_input = Vec::new();
        let previous = record.previous_id(&mut fold_input);
        match is_erased(IdKind::Anon, previous) || is_erased(IdKind::User, previous) {
            true => Treatment::Redact(RedactedIds { previous_id: true, ..RedactedIds::default() }),
            false => Treatment::Keep,
        }
    }

    fn names_visitor(&mut self, record: &Record<'_>) -> bool {
        // No tombstone has a lower seq than 0.
        self.treatment(0, record) != Treatment::Keep
    }
}

/// Does the part of an erasure that runs beside the writer, also for earlier erasures that were not finished.
pub fn finish(erasure: Erasure, key: &TombstoneKey, ids: &[&str]) -> Result<ErasureSummary, EraseError> {
    let started = erasure.begin()?;
    let tombstones = started.tombstones()?;
    let seq = tombstones.iter().map(|tombstone| tombstone.seq).max().unwrap_or(0);
    let owners = tombstones.iter().map(|tombstone| (tombstone.owner, tombstone.seq));
    let named = ids.iter().map(|id| (key.tag("acme", kind(id), id), seq));
    let mut rule = NameRule { key: key.clone(), erased: owners.chain(named).collect() };
    let summary =
        if tombstones.is_empty() { ErasureSummary::default() } else { started.rewrite(&mut rule)? };
    started.end()?;
    Ok(ErasureSummary { seq, ..summary })
}

pub fn erase(log: &mut Log, ids: &[&str]) -> Result<ErasureSummary, EraseError> {
    let erasure = log.queue.erase(visitor(&log.key, ids))?;
    log.writer.run_once();
    finish(erasure, &log.key, ids)
}
