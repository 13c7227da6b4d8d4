//! The progress of the erasures of a node, for the requests that wait for one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::erase_limits::DoneErasures;
use super::nodes::Erasure;
use crate::log::ErasureSummary;
use crate::record::IdTag;

/// The progress of erasures, for the request that waits for one.
#[derive(Clone, Default)]
pub(crate) struct ErasureProgress(Arc<(Mutex<ProgressState>, Condvar)>);

#[derive(Default)]
struct ProgressState {
    /// The erasures that this node has done, with their orders.
    done: DoneErasures<(u64, ErasureSummary)>,
    /// The erasures of the state that a member has not confirmed, by their IDs.
    pending: HashMap<u128, PendingErasure>,
}

/// An erasure that a member has not confirmed.
#[derive(Debug, Clone)]
pub(crate) struct PendingErasure {
    pub(crate) owner: Option<IdTag>,
    /// The names of these members.
    pub(crate) nodes: Vec<String>,
}

impl ErasureProgress {
    fn change(&self, change: impl FnOnce(&mut ProgressState)) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// Sets the erasures that a member has not confirmed.
    pub(crate) fn set_pending(&self, pending_erasures: HashMap<u128, PendingErasure>) {
        self.change(|state| state.pending = pending_erasures);
    }

    /// Adds a result. A request of this node reads it within seconds, and the results of the other nodes'
    /// erasures are not read.
    pub(super) fn add_done(&self, erasure: &Erasure, summary: ErasureSummary) {
        self.change(|state| state.done.push(erasure.id, (erasure.order, summary)));
    }

    /// Waits until this node has done an erasure. Returns its order and its results. `None` after the time limit.
    pub(crate) fn wait_done(&self, id: u128, limit: Duration) -> Option<(u64, ErasureSummary)> {
        let state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(state, limit, |state| state.done.get(id).is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.done.get(id).copied()
    }

    /// Waits until all nodes have confirmed an erasure. Returns the names of the others after the time limit.
    pub(crate) fn wait_confirmed(&self, id: u128, limit: Duration) -> Vec<String> {
        let state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(state, limit, |state| state.pending.contains_key(&id));
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.pending.get(&id).map(|pending| pending.nodes.clone()).unwrap_or_default()
    }

    /// Returns the names of the nodes that have not confirmed an erasure of this owner. `None` if no erasure waits.
    pub(crate) fn pending_of(&self, owner: IdTag) -> Option<Vec<String>> {
        let state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_owner = state.pending.values().filter(|pending| pending.owner == Some(owner)).peekable();
        of_owner.peek()?;
        let nodes: BTreeSet<&String> = of_owner.flat_map(|pending| &pending.nodes).collect();
        Some(nodes.into_iter().cloned().collect())
    }
}
