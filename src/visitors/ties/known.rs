//! The state that the log writer shares with the jobs of the admin address: the entries since the last
//! checkpoint, and the IDs of the sites that the log knows.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lost::LostAliases;
use super::merge::DropRule;
use super::recent::RecentTies;
use super::{ORDERS_PER_POSITION, TieEntry};
use crate::limits::SITE_IDS_KNOWN_MAX;
use crate::log::VisitorIds;
use crate::record::IdTag;

/// The shared state. The writer locks it for each new tie and each new site, a job for some microseconds.
#[derive(Clone, Default)]
pub struct KnownTies(Arc<Mutex<State>>);

/// A copy of the state as of one moment.
#[derive(Debug, Clone, Default)]
pub struct TieCopy {
    /// The entries after the checkpoint of `base_seq`.
    pub recent: RecentTies,
    /// The seq of the checkpoint that has all earlier entries, or 0.
    pub base_seq: u64,
    /// Erased users whose ties the next checkpoint leaves out, each with the seq of the tombstone.
    pub erased: Vec<(IdTag, u64)>,
    /// The known sites.
    pub sites: Arc<BTreeSet<Box<str>>>,
    /// The check of the key with which the entries were made, or 0 if there are none.
    pub key_check: u32,
    /// The rules of a node of a cluster. `None` if the server is alone.
    pub orders: Option<OrderRules>,
}

/// The rules by which a node of a cluster numbers and drops entries. Its checkpoints are numbered by
/// positions of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderRules {
    /// The number that is added to each position of the present stream.
    pub base_position: u64,
    /// No node has a record below this order.
    pub floor: u64,
}

/// The parts of a fold beside the table, as a checkpoint has them.
#[derive(Clone, Default)]
pub struct FoldState {
    /// The IDs that lost their alias.
    pub lost: LostAliases,
    /// The entries of ownership and the known sites.
    pub known: KnownTies,
    /// Visitors evicted since the beginning of the log.
    pub visitors_evicted: u64,
}

type State = TieCopy;

impl KnownTies {
    /// Creates the state of a restored checkpoint.
    pub fn restored(checkpoint_seq: u64, sites: BTreeSet<Box<str>>) -> Self {
        Self(Arc::new(Mutex::new(State {
            base_seq: checkpoint_seq,
            sites: Arc::new(sites),
            ..State::default()
        })))
    }

    /// Sets the check of the key of the entries, unless the checkpoint states that of another key.
    pub fn set_key_check(&self, key_check: u32) {
        let mut state = self.lock();
        if state.key_check == 0 {
            state.key_check = key_check;
        }
    }

    /// Returns a copy of the state.
    pub fn copy(&self) -> TieCopy {
        self.lock().clone()
    }

    /// Adds the entries of one record.
    pub fn push(&self, entries: impl IntoIterator<Item = TieEntry>) {
        let mut state = self.lock();
        entries.into_iter().for_each(|entry| state.recent.push(entry));
    }

    /// Returns whether no entry since `as_of_seq` changes the IDs of a visitor. Also false if a checkpoint has
    /// taken such entries meanwhile.
    pub fn is_current(&self, visitor_ids: &VisitorIds) -> bool {
        let state = self.lock();
        let named: HashSet<IdTag> = visitor_ids.named.iter().copied().collect();
        let changes = |entry: &TieEntry| entry.user == Some(visitor_ids.owner) || named.contains(&entry.anon);
        state.last_order(state.base_seq) <= visitor_ids.as_of_seq
            && !state.recent.after(visitor_ids.as_of_seq).any(changes)
    }

    /// Returns the number of entries since the last checkpoint.
    pub fn recent_len(&self) -> usize {
        self.lock().recent.len()
    }

    /// Adds the ID of a site. At [`SITE_IDS_KNOWN_MAX`] no ID is added.
    pub fn add_site(&self, site: &str) {
        let mut state = self.lock();
        if !state.sites.contains(site) && state.sites.len() < SITE_IDS_KNOWN_MAX {
            Arc::make_mut(&mut state.sites).insert(site.into());
        }
    }

    /// Returns whether the log may know a site: also true when the set is full.
    pub fn knows_site(&self, site: &str) -> bool {
        let state = self.lock();
        state.sites.len() >= SITE_IDS_KNOWN_MAX || state.sites.contains(site)
    }

    /// Leaves the ties of an erased user out of the next checkpoint.
    pub fn forget(&self, user_tag: IdTag, tombstone_seq: u64) {
        self.lock().erased.push((user_tag, tombstone_seq));
    }

    /// Notes that the checkpoint of `seq` has all entries up to that seq, and no tie of `erased_users`.
    pub fn on_checkpoint(&self, seq: u64, erased_users: &[(IdTag, u64)]) {
        let mut state = self.lock();
        let last_order = state.last_order(seq);
        state.recent.remove_through(last_order);
        state.base_seq = seq;
        state.erased.retain(|one| !erased_users.contains(one));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The changes of a node of a cluster.
#[cfg(feature = "cluster")]
impl KnownTies {
    /// Sets the rules of a node of a cluster.
    pub(crate) fn set_orders(&self, rules: OrderRules) {
        self.lock().orders = Some(rules);
    }

    /// Sets the check of the key of all later entries. There is no earlier one.
    pub(crate) fn replace_key_check(&self, key_check: u32) {
        self.lock().key_check = key_check;
    }

    /// Continues with the entries of the checkpoint `checkpoint_seq`, or with `entries`, in the order of their
    /// seqs, if it is 0.
    pub(crate) fn reset(&self, checkpoint_seq: u64, entries: impl IntoIterator<Item = TieEntry>) {
        let mut state = self.lock();
        (state.recent, state.base_seq) = (RecentTies::default(), checkpoint_seq);
        entries.into_iter().for_each(|entry| state.recent.push(entry));
    }
}

impl TieCopy {
    /// Returns the seq of the last entry, or a later one up to which no entry follows.
    pub fn last_seq(&self) -> u64 {
        let base = self.last_order(self.base_seq);
        self.recent.iter().next_back().map_or(base, |entry| entry.seq.max(base))
    }

    /// Returns the last seq that an entry of the checkpoint `seq` can have.
    fn last_order(&self, seq: u64) -> u64 {
        match self.orders {
            Some(orders) if seq > 0 => (orders.base_position + seq + 1) * ORDERS_PER_POSITION - 1,
            _ => seq,
        }
    }

    /// Returns the rule by which a checkpoint drops entries. `oldest_seq` is the first seq of the log.
    pub fn drop_rule(&self, oldest_seq: u64) -> DropRule {
        let oldest_seq = self.orders.map_or(oldest_seq, |orders| orders.floor);
        DropRule { oldest_seq, erased: self.erased.clone() }
    }
}
