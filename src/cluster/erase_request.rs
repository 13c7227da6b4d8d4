//! The erasure of a visitor on all nodes, at the node that a client asks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::erase_limits::{in_rounds, while_changed};
use super::erasing::{append, random_id};
use super::erasure_progress::ErasureProgress;
use super::members::REACHABLE_MS;
use super::seal::{self, SealKey};
use crate::clock;
use crate::log::{ClusterTombstone, EraseError, ErasureSummary, Tombstone, VisitorIds};
use crate::metrics::cluster::{ClusterMetrics, ClusterState, NodeStatus};
use crate::record::{IdKind, IdTag, VisitorId};
use crate::visitors::apply::KeyHasher;
use crate::visitors::erasure::{ClusterErasure, ClusterErasureError, ErasedInCluster, Eraser, ErasureError};
use crate::visitors::ownership::Ownership;

/// Time until this node has done an erasure: the stream returns the tombstone, and 10 GB of log are rewritten
/// in about 30 s.
const OWN_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which the answer waits for the other nodes. A heartbeat follows each erasure at once.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(10);

/// Erases visitors on all nodes.
pub(crate) struct ClusterEraser {
    pub(crate) eraser: Eraser,
    pub(crate) seal: SealKey,
    pub(crate) hasher: KeyHasher,
    pub(crate) progress: ErasureProgress,
    pub(crate) metrics: Arc<ClusterMetrics>,
}

impl ClusterErasure for ClusterEraser {
    fn erase(
        &self,
        visitor_id: VisitorId<'_>,
        known_ids: Vec<(IdKind, String)>,
    ) -> Result<ErasedInCluster, ClusterErasureError> {
        self.check_reachable()?;
        let find = |ownership: &Ownership| {
            let visitor = ownership.visitor(visitor_id)?;
            Ok(ownership.erased_ids(&visitor, known_ids.clone()))
        };
        let again = |last: &Round, unnamed: VisitorIds| {
            let mut next = self.erase_round(&|_| Ok(unnamed.clone()))?;
            next.summary.add_counts(&last.summary);
            Ok(next)
        };
        let rounds =
            in_rounds(self.erase_round(&find)?, |last| self.unnamed_ids(visitor_id.site, last), again)?;
        let erased = rounds.ok_or(EraseError::Changed)?;
        let pending = self.progress.wait_confirmed(erased.id, OTHERS_TIMEOUT);
        Ok(ErasedInCluster { summary: erased.summary, pending })
    }

    fn pending(&self, visitor_id: VisitorId<'_>) -> Option<Vec<String>> {
        let ownership = self.eraser.source.open().ok()?;
        let visitor = ownership.visitor(visitor_id).ok()?;
        self.progress.pending_of(ownership.erased_ids(&visitor, Vec::new()).owner)
    }

    fn position(&self) -> u64 {
        self.metrics.position.load(Ordering::Relaxed)
    }
}

/// A tombstone that this node has carried out.
struct Round {
    id: u128,
    owner: IdTag,
    order: u64,
    summary: ErasureSummary,
}

impl ClusterEraser {
    /// Checks that this node and all members can be reached. A node that is away would keep the visitor.
    fn check_reachable(&self) -> Result<(), ClusterErasureError> {
        let NodeStatus { state, reason, .. } = self.metrics.status();
        if state != ClusterState::Connected {
            return Err(ClusterErasureError::Alone(reason));
        }
        let (names, as_of_ms) = self.metrics.unreachable();
        if !names.is_empty() {
            return Err(ClusterErasureError::Unreachable(names.join(", ")));
        }
        // Without a recent heartbeat, of this node at least, the names are of an earlier time.
        if clock::now_ms().saturating_sub(as_of_ms) >= REACHABLE_MS {
            return Err(ClusterErasureError::Alone("no heartbeat has returned for 30 s".to_owned()));
        }
        Ok(())
    }

    /// Appends the tombstones of a visitor and waits until this node has carried them out.
    fn erase_round(
        &self,
        find: &dyn Fn(&Ownership) -> Result<VisitorIds, ClusterErasureError>,
    ) -> Result<Round, ClusterErasureError> {
        let is_changed = |error: &ClusterErasureError| {
            matches!(error, ClusterErasureError::Erasure(ErasureError::Log(EraseError::Changed)))
        };
        let append_once = || {
            let ids = find(&self.eraser.source.open()?)?;
            let key_of = |(kind, id): &(IdKind, String)| self.hasher.key(&ids.site, *kind, id);
            let keys: Vec<_> = ids.known_ids.iter().map(key_of).collect();
            let payloads = seal::payloads(&self.seal, &ids, &keys, random_id);
            let site = ids.site.clone();
            let tombstone = |(key, payload)| ClusterTombstone { site: site.clone(), key, payload };
            let tombstones: Vec<_> = payloads.into_iter().map(tombstone).collect();
            let log = &self.eraser.log;
            let next_seq =
                append(&self.eraser, || log.append_tombstones(Some(ids.clone()), tombstones.clone()))?;
            Ok((tombstones, ids.owner, next_seq - 1))
        };
        let (tombstones, owner, seq) = while_changed(is_changed, append_once)?;
        self.wait_done(&tombstones, owner, seq)
    }

    fn wait_done(
        &self,
        tombstones: &[ClusterTombstone],
        owner: IdTag,
        last_seq: u64,
    ) -> Result<Round, ClusterErasureError> {
        let mut round =
            Round { id: 0, owner, order: 0, summary: ErasureSummary { seq: last_seq, ..Default::default() } };
        for ClusterTombstone { key, .. } in tombstones {
            let done = self.progress.wait_done(*key, OWN_TIMEOUT);
            let (order, summary) = done.ok_or(ClusterErasureError::Timeout)?;
            (round.id, round.order) = (*key, order);
            round.summary.add_counts(&summary);
        }
        Ok(round)
    }

    /// Returns the IDs that the visitor got between the look-up of its IDs and the tombstone. `None` if there are none.
    fn unnamed_ids(
        &self,
        site: &str,
        erased_round: &Round,
    ) -> Result<Option<VisitorIds>, ClusterErasureError> {
        let ownership = self.eraser.source.open()?;
        let tombstone = Tombstone {
            site: site.to_owned(),
            owner: erased_round.owner,
            named: Vec::new(),
            seq: erased_round.order,
        };
        let visitor = ownership.erased_visitor(&tombstone, None)?;
        let unnamed = visitor.has_unnamed_ids();
        Ok(unnamed.then(|| ownership.erased_ids(&visitor, Vec::new())))
    }
}
