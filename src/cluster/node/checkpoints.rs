//! The states from which a node can continue: its checkpoints, and the beginning of the era. And the states
//! of the checkpoints that are kept, for retention.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Node;
use crate::clock::Clock;
use crate::cluster::era::Era;
use crate::cluster::follow::{Head, OwnLog, deletable_seq};
use crate::cluster::link::{MessageBytes, PublishedEra};
use crate::cluster::message::StreamMessage;
use crate::cluster::producer::Producer;
use crate::cluster::saved;
use crate::cluster::state::{ChainPosition, SavedState};
use crate::ids;
use crate::limits::CHECKPOINT_GENERATIONS;
use crate::metrics::cluster::ClusterState;
use crate::visitors::checkpoint::directory::CheckpointDirectory;
use crate::visitors::checkpoint::reader::CheckpointReader;
use crate::visitors::live::ProfileTable;

/// A state from which a node may continue.
pub(super) struct Candidate {
    pub(super) source: CandidateSource,
    pub(super) at: ChainPosition,
}

/// The place of a candidate.
pub(super) enum CandidateSource {
    /// The present state.
    Present,
    /// A checkpoint of the own directory, by the number in its name.
    Checkpoint(u64),
    /// The beginning of the era.
    Founding(Arc<Era>),
}

impl Node {
    /// Returns the position of the present state.
    pub(super) fn present_position(&self) -> ChainPosition {
        let nothing = ChainPosition { position: 0, chain: [0; 16], previous_chain: [0; 16], created_ms: 0 };
        self.state.as_ref().map_or(nothing, |state| state.chain_position())
    }

    /// Lists the states other than the present one, the best last: the beginning of the era, then the own checkpoints.
    pub(super) fn list_candidates(&self, published_era: &PublishedEra, head: &Head) -> Vec<Candidate> {
        let (mut candidates, mut checkpoints) = (Vec::new(), Vec::new());
        let era = &published_era.era;
        let is_founding = era.checkpoint.is_none() || self.unfounded.is_some();
        if is_founding && published_era.position >= head.first {
            let at = ChainPosition {
                position: published_era.position,
                chain: [0; 16],
                previous_chain: [0; 16],
                created_ms: era.created_ms,
            };
            candidates.push(Candidate { source: CandidateSource::Founding(Arc::new(era.clone())), at });
        }
        let present = self.position();
        let directory = CheckpointDirectory::new(Arc::clone(&self.disk), &self.directory);
        for seq in directory.seqs().unwrap_or_default() {
            let reader = CheckpointReader::open(directory.disk(), &directory.path_of(seq)).ok();
            let state =
                reader.and_then(|reader| reader.stream().ok()).and_then(|bytes| saved::decode(&bytes));
            if let Some(state) = state.filter(|state| state.era.id == era.id && state.position != present) {
                checkpoints
                    .push(Candidate { source: CandidateSource::Checkpoint(seq), at: state.chain_position() });
            }
        }
        checkpoints.sort_by_key(|one| one.at.position);
        candidates.extend(checkpoints);
        candidates
    }

    /// Replaces state and table by those of a candidate. Returns whether that succeeded.
    pub(super) fn load(
        &mut self,
        candidate: Candidate,
        message: Option<&StreamMessage<MessageBytes>>,
        profiles: &mut ProfileTable,
        clock: &dyn Clock,
    ) -> bool {
        self.kept.clear();
        // Its records are of the state before.
        self.stalled = None;
        if matches!(candidate.source, CandidateSource::Checkpoint(_)) {
            self.set_state(ClusterState::Loading, "", clock);
        }
        let is_loaded = self.load_state(candidate.source, message, profiles);
        if let Some(state) = self.state.as_ref().filter(|_| is_loaded) {
            profiles.set_orders(self.order_rules(state));
            self.readiness.on_loaded();
            self.compare_loaded();
        }
        is_loaded
    }

    fn load_state(
        &mut self,
        source: CandidateSource,
        message: Option<&StreamMessage<MessageBytes>>,
        profiles: &mut ProfileTable,
    ) -> bool {
        match source {
            CandidateSource::Present => true,
            CandidateSource::Founding(era) => {
                let Some(message) = message else { return false };
                if self.state.is_some() {
                    profiles.clear();
                }
                profiles.set_cost_max(era.cost_max);
                self.state = Some(self.found(&era, message));
                true
            }
            CandidateSource::Checkpoint(seq) => match self.load_checkpoint(seq, profiles) {
                Ok(state) => {
                    tracing::warn!(position = state.position, "continuing from an older checkpoint");
                    self.state = Some(state.restore(ids::random_u64()));
                    true
                }
                Err(error) => {
                    tracing::error!(seq, error, "cannot use a checkpoint");
                    false
                }
            },
        }
    }

    fn load_checkpoint(
        &self,
        checkpoint_seq: u64,
        profiles: &mut ProfileTable,
    ) -> Result<SavedState, String> {
        let directory = CheckpointDirectory::new(Arc::clone(&self.disk), &self.directory);
        let reader = CheckpointReader::open(directory.disk(), &directory.path_of(checkpoint_seq));
        let reader = reader.map_err(|error| error.to_string())?;
        let bytes = reader.stream().map_err(|error| error.to_string())?;
        let state = saved::decode(&bytes).ok_or_else(|| "its section `stream` is invalid".to_owned())?;
        profiles.reload(reader, state.era.cost_max).map_err(|error| error.to_string())?;
        Ok(state)
    }

    /// Encodes the state for a checkpoint, and keeps a copy without the window and the erasures for
    /// retention. The file `producer` is written first: otherwise the checkpoint could have more returned
    /// records than this directory is known to have compared.
    pub(crate) fn encode_state(&mut self, clock: &dyn Clock) -> Vec<u8> {
        if self.state.is_some() {
            self.save_producer(clock.now_ms());
            self.log.refresh_first_seq();
            if let Err(error) = self.positions.save(self.log.first_seq()) {
                tracing::error!(%error, "cannot write the file `positions` of the outbox; erasures may miss own events after a crash; check the disk");
            }
            self.shared.save();
        }
        let Some(state) = &self.state else { return Vec::new() };
        let mut saved = state.save();
        let bytes = saved::encode(&saved);
        (saved.window, saved.nodes.erasures) = (Vec::new(), Vec::new());
        self.kept.begin(saved);
        bytes
    }

    /// Notes that the checkpoint of a position is complete.
    pub(crate) fn on_checkpoint(&mut self, position: u64) {
        self.kept.complete(position);
        self.shared.set_needed(self.kept.needed_seq());
    }

    /// Returns whether a checkpoint can be made: the table has all records that the state has.
    pub(crate) fn is_consistent(&self) -> bool {
        self.stalled.is_none()
    }
}

/// The states of the newest checkpoints that this process has written, without their windows and erasures.
#[derive(Default)]
pub(super) struct KeptStates {
    begun: Option<SavedState>,
    complete: VecDeque<SavedState>,
}

impl KeptStates {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn begin(&mut self, state: SavedState) {
        self.begun = Some(state);
    }

    fn complete(&mut self, position: u64) {
        if let Some(state) = self.begun.take_if(|state| state.position == position) {
            self.complete.push_back(state);
            let surplus = self.complete.len().saturating_sub(CHECKPOINT_GENERATIONS);
            self.complete.drain(..surplus);
        }
    }

    /// Returns the seq of the log of the cluster up to which no kept checkpoint needs records: 0 while an earlier process
    /// wrote one of them.
    fn needed_seq(&self) -> u64 {
        let oldest = self.complete.front().filter(|_| self.complete.len() >= CHECKPOINT_GENERATIONS);
        oldest.map_or(0, |state| state.seq)
    }

    /// Returns the seq up to which retention may delete records: 0 while an earlier process wrote one of the
    /// kept checkpoints.
    pub(super) fn deletable_seq(&self, producer: &Producer) -> u64 {
        if self.complete.len() < CHECKPOINT_GENERATIONS {
            return 0;
        }
        deletable_seq(producer, &self.complete)
    }
}
