//! Merges new entries into sorted ones, and drops the entries that decide no owner any more.

use super::TieEntry;
use crate::record::IdTag;

/// The entries that a merge leaves out.
#[derive(Debug, Clone, Default)]
pub struct DropRule {
    /// The first seq of the log. No record before it needs an owner.
    pub oldest_seq: u64,
    /// Erased users, each with the seq of the tombstone. Their earlier ties are dropped.
    pub erased: Vec<(IdTag, u64)>,
}

impl DropRule {
    fn is_erased(&self, entry: &TieEntry) -> bool {
        self.erased.iter().any(|(user, seq)| entry.user == Some(*user) && entry.seq < *seq)
    }
}

/// A merge of entries in ascending order. It holds back one entry, because the next one can replace it.
struct TieMerger<'a> {
    rule: &'a DropRule,
    held: Option<TieEntry>,
    /// The anonymous ID of the last entry, and whether an entry of it was returned.
    group: Option<IdTag>,
    group_has_output: bool,
}

impl<'a> TieMerger<'a> {
    /// Creates a merger that drops entries by `rule`.
    fn new(rule: &'a DropRule) -> Self {
        Self { rule, held: None, group: None, group_has_output: false }
    }

    /// Adds the next entry. Returns an entry that is complete, if there is one.
    fn push(&mut self, entry: TieEntry) -> Option<TieEntry> {
        if self.rule.is_erased(&entry) {
            return None;
        }
        let mut done = None;
        if self.group != Some(entry.anon) {
            done = self.held.take();
            (self.group, self.group_has_output) = (Some(entry.anon), false);
        }
        match self.held {
            // A tie to the present user, or an end after an end, changes no owner.
            Some(held) if held.user == entry.user => return done,
            // All records of the held entry are before the first one of the log.
            Some(_) if entry.seq < self.rule.oldest_seq => self.held = None,
            Some(held) => {
                done = Some(held);
                self.group_has_output = true;
            }
            None => {}
        }
        // An end before the first tie changes no owner: the records before it are void.
        let is_leading_end = entry.user.is_none() && !self.group_has_output;
        self.held = (!is_leading_end).then_some(entry);
        done
    }

    /// Returns the last entry.
    fn finish(self) -> Option<TieEntry> {
        self.held
    }
}

/// Merges two ascending sequences and passes the remaining entries to `emit`.
///
/// # Errors
/// The first error of `base_entries` or of `emit`.
pub fn merge<E>(
    base_entries: impl Iterator<Item = Result<TieEntry, E>>,
    recent_entries: &[TieEntry],
    rule: &DropRule,
    mut emit: impl FnMut(TieEntry) -> Result<(), E>,
) -> Result<(), E> {
    let mut base_entries = base_entries.peekable();
    let mut recent_entries = recent_entries.iter().copied().peekable();
    let mut merger = TieMerger::new(rule);
    loop {
        let takes_base = match (base_entries.peek(), recent_entries.peek()) {
            (Some(Ok(old)), Some(new)) => old <= new,
            (Some(_), _) => true,
            (None, _) => false,
        };
        let next = if takes_base { base_entries.next().transpose()? } else { recent_entries.next() };
        let Some(entry) = next else { break };
        merger.push(entry).map_or(Ok(()), &mut emit)?;
    }
    merger.finish().map_or(Ok(()), emit)
}
