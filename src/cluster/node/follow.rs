//! The events of the stream: the checks at a connection, and the messages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checkpoints::{Candidate, CandidateSource};
use super::{Node, Phase, monotonic_ms};
use crate::clock::Clock;
use crate::cluster::era::FOLD_VERSION;
use crate::cluster::erasing::ErasureTask;
use crate::cluster::filter::{AcceptedRun, NoEffect, Step, step};
use crate::cluster::follow::{Comparison, Head, OwnLog, is_same_stream, known_seq, verified_seq};
use crate::cluster::forward::Forwarder;
use crate::cluster::link::{Command, EventKind, MessageBytes, PublishedEra};
use crate::cluster::message::{Sender, StreamMessage};
use crate::cluster::order::PositionEntry;
use crate::cluster::seal;
use crate::cluster::shared_log::EffectiveRecords;
use crate::cluster::state::StreamState;
use crate::ids;
use crate::metrics::cluster::ClusterState;
use crate::record::RecordKind;
use crate::visitors::live::ProfileTable;

/// The accepted records of a message, before they are in the log of the cluster.
pub(super) struct AcceptedRecords {
    run: AcceptedRun,
    records: EffectiveRecords,
    /// True if no own record of an erasure could be under way.
    is_settled: bool,
}

impl Node {
    /// Handles the next event. Returns whether there was one.
    pub(super) fn handle_next_event(&mut self, profiles: &mut ProfileTable, clock: &dyn Clock) -> bool {
        let Some(event) = self.link.next_event() else { return false };
        if let EventKind::Connected(head, era) = event.kind {
            self.connection = event.connection;
            self.on_connected(&head, era, clock);
            return true;
        }
        if event.connection < self.connection {
            return true;
        }
        match event.kind {
            EventKind::Connected(..) => {}
            EventKind::End(end) => self.on_end(end),
            EventKind::At(position, message) => self.on_at(position, message.as_ref(), profiles, clock),
            EventKind::Message(message, _permit) => self.on_message(&message, profiles, clock),
            EventKind::Appended => self.forwarder.on_acknowledged(),
            EventKind::AppendFailed => {
                self.metrics.publish_errors.fetch_add(1, Ordering::Relaxed);
                let returned = self.returned();
                self.forwarder.on_failed(returned);
            }
            EventKind::Disconnected(reason) => self.on_disconnected(&reason, clock),
        }
        true
    }

    fn on_disconnected(&mut self, reason: &str, clock: &dyn Clock) {
        self.is_reachable = false;
        self.connection = self.connection.max(1);
        if self.phase != Phase::Stopped {
            self.phase = Phase::Disconnected;
            self.set_state(ClusterState::Alone, reason, clock);
        }
        self.forwarder = Forwarder::new(self.returned());
    }

    /// Stops following the stream until the operator has acted and the node is started again.
    pub(super) fn stop(&mut self, reason: &str, clock: &dyn Clock) {
        tracing::error!(reason, "this node does not follow the stream");
        self.phase = Phase::Stopped;
        self.set_state(ClusterState::Alone, reason, clock);
    }

    fn on_connected(&mut self, head: &Head, published_era: Option<PublishedEra>, clock: &dyn Clock) {
        self.is_reachable = true;
        if self.phase == Phase::Stopped {
            return;
        }
        self.follower.on_connected(head);
        self.forwarder = Forwarder::new(self.returned());
        self.head = Some(*head);
        let Some(published) = published_era else {
            return self.wait_for_operator(
                "the stream has no era; found the cluster with `parallax cluster found`",
                clock,
            );
        };
        if let Err(reason) = self.check_era(&published, head) {
            return self.stop(&reason, clock);
        }
        self.metrics.set_era(format!("{:032x}", u128::from_be_bytes(published.era.id.0)));
        self.candidates = self.list_candidates(&published, head);
        if self.state.is_some() {
            self.candidates.push(Candidate { source: CandidateSource::Present, at: self.present_position() });
        }
        self.check_next_candidate(clock);
    }

    /// Stays alone until the next connection.
    fn wait_for_operator(&mut self, reason: &str, clock: &dyn Clock) {
        self.phase = Phase::Disconnected;
        self.set_state(ClusterState::Alone, reason, clock);
    }

    fn check_era(&self, published_era: &PublishedEra, head: &Head) -> Result<(), String> {
        let era = &published_era.era;
        if era.secret_check != self.keys.secret_check {
            return Err(
                "--cluster-secret is not the secret of this cluster; use the file of the other nodes"
                    .to_owned(),
            );
        }
        if era.fold_version != FOLD_VERSION {
            return Err(format!(
                "the era has fold version {}, and this release has {FOLD_VERSION}; use the release of the other nodes",
                era.fold_version
            ));
        }
        if era.created_ms != head.created_ms {
            return Err(
                "the stream was created again; begin a new era with `parallax cluster new-era`".to_owned()
            );
        }
        if era.cost_max > self.cost_max {
            return Err(format!(
                "--profiles-memory is {}, and the era needs {}; raise it",
                self.cost_max, era.cost_max
            ));
        }
        let own =
            self.state.as_ref().map(|state| &state.era).or(self.unfounded.as_ref().map(|saved| &saved.era));
        match own {
            Some(own) if own.id != era.id => {
                Err(new_era_text(era.checkpoint.as_ref().map(|file| &file.name)))
            }
            _ => Ok(()),
        }
    }

    /// Asks for the message at the position of the next candidate.
    fn check_next_candidate(&mut self, clock: &dyn Clock) {
        let Some(head) = self.head else { return };
        // A state that is older than the stream's first message cannot continue.
        while self.candidates.last().is_some_and(|one| one.at.position + 1 < head.first) {
            self.candidates.pop();
        }
        match self.candidates.last() {
            Some(candidate) => {
                self.phase = Phase::Checking;
                self.link.send(self.connection, Command::ReadAt(candidate.at.position));
            }
            None if head.last < self.position() => self.stop(
                "the stream has lost messages that all checkpoints of this node contain; begin a new era with `parallax cluster new-era`",
                clock,
            ),
            None => self.stop(
                "no checkpoint of this node fits the stream; stop it, and copy the data directory of another node",
                clock,
            ),
        }
    }

    fn on_at(
        &mut self,
        position: u64,
        message: Option<&StreamMessage<MessageBytes>>,
        profiles: &mut ProfileTable,
        clock: &dyn Clock,
    ) {
        let (Phase::Checking, Some(head)) = (&self.phase, self.head) else { return };
        let Some(candidate) = self.candidates.pop().filter(|candidate| candidate.at.position == position)
        else {
            return;
        };
        let is_present = matches!(candidate.source, CandidateSource::Present);
        let is_same = match &candidate.source {
            CandidateSource::Founding(era) => {
                message.is_some_and(|message| self.is_era_message(message, era))
            }
            _ => is_same_stream(&candidate.at, &head, message),
        };
        if is_present && !is_same {
            self.metrics.chain_mismatches.fetch_add(1, Ordering::Relaxed);
            tracing::error!(position, "the stream has lost its end; continuing from an older checkpoint");
        }
        let is_usable = is_same && (is_present || self.load(candidate, message, profiles, clock));
        self.last_message_ms = message.map(|message| message.stream_ms);
        if is_usable { self.follow(clock) } else { self.check_next_candidate(clock) }
    }

    /// Reads the stream from the state on.
    fn follow(&mut self, clock: &dyn Clock) {
        self.candidates.clear();
        self.phase = Phase::Following;
        self.follower.is_chain_checked = true;
        self.forwarder = Forwarder::new(self.returned());
        self.set_state(ClusterState::Joining, "", clock);
        self.link.send(self.connection, Command::ReadFrom(self.position() + 1));
        self.check_position(clock);
    }

    /// Compares the own log with a loaded state: it may be a restored backup or a copy, or the state may be
    /// of another node.
    pub(super) fn compare_loaded(&mut self) {
        self.log.refresh_first_seq();
        let new_id = Self::random_id();
        let Some(state) = &self.state else {
            // The state comes with the message of the era. Only a log that was cut can be noticed now, and only now.
            let producer = &self.follower.producer;
            if let Some(verified) = verified_seq(producer, None, &self.log, None) {
                let clock_ms = producer.returned_ms;
                self.follower.take_new_id(new_id, verified, clock_ms);
                self.on_new_producer(verified);
            }
            return;
        };
        let last = self.follower.returned(state).min(self.log.last_seq());
        if last > 0
            && let Err(error) = self.log.load(last, last)
        {
            tracing::error!(%error, "cannot compare the last returned record with the own log");
        }
        let known = known_seq(&self.follower.producer, state, &self.log);
        let (seq, last_order) = (state.seq, state.last_order());
        match self.follower.on_loaded(state, &self.log, known, new_id) {
            Some(verified) => self.on_new_producer(verified),
            None => self.forwarder = Forwarder::new(self.follower.returned(state)),
        }
        self.membership.on_loaded();
        self.note_removal();
        self.shared.on_loaded(seq, last_order);
        self.positions.rewind(last_order);
        self.positions.delete_after(self.log.last_seq());
        self.positions.set_returned(self.returned());
        self.begin_unread_erasures();
    }

    pub(super) fn on_new_producer(&mut self, verified_seq: u64) {
        self.metrics.new_producer_ids.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            after_seq = verified_seq,
            "the own log and the stream differ; sending the log again from here under a new producer ID"
        );
        self.forwarder = Forwarder::new(verified_seq);
        self.log_seqs.clear();
        self.sent_before = verified_seq;
        self.positions.set_returned(self.returned());
    }

    fn on_message(
        &mut self,
        message: &StreamMessage<MessageBytes>,
        profiles: &mut ProfileTable,
        clock: &dyn Clock,
    ) {
        let Some(state) = self.state.as_mut().filter(|_| self.phase == Phase::Following) else { return };
        if message.position <= state.position {
            return;
        }
        self.last_message_ms = Some(message.stream_ms);
        match step(state, &mut self.decoder, message) {
            Step::Accepted(run) => self.accept(run, profiles, clock),
            Step::NoEffect(reason) => self.on_no_effect(reason, message, clock),
            Step::Heartbeat(_, heartbeat) => self.on_heartbeat(&heartbeat, profiles, clock),
            Step::Forget(forget) => self.on_forget(&forget.node, profiles, clock),
            Step::StatusRequest => self.hasten_heartbeat(),
            Step::NewEra(era) => {
                return self.stop(&new_era_text(era.checkpoint.as_ref().map(|file| &file.name)), clock);
            }
            Step::WrongPosition => {
                let reason = format!(
                    "the stream lacks the messages {} to {}; stop this node, and copy the data directory of another node",
                    state.position + 1,
                    message.position - 1
                );
                return self.stop(&reason, clock);
            }
        }
        self.check_position(clock);
    }

    fn on_no_effect(&mut self, reason: NoEffect, message: &StreamMessage<MessageBytes>, clock: &dyn Clock) {
        let metrics = &self.metrics;
        let is_own = message.sender == Sender::Node(self.membership.identity.name.clone());
        let counter = match reason {
            NoEffect::Gap => &metrics.gap_skips,
            NoEffect::Repeated => &metrics.duplicate_skips,
            NoEffect::SameEra | NoEffect::EarlierSession => return,
            NoEffect::NameInUse => {
                if is_own {
                    self.look_at_standing(clock);
                }
                return;
            }
            NoEffect::Malformed
            | NoEffect::OtherEra
            | NoEffect::TooManyProducers
            | NoEffect::TooManyMembers
            | NoEffect::OtherBaseSeq => &metrics.malformed_messages,
            NoEffect::Forbidden(_) | NoEffect::OtherNode | NoEffect::UnsupportedFormat(_) => {
                if is_own {
                    self.leave_producer_of_other_node();
                }
                self.report_forbidden(reason, message, clock);
                &self.metrics.forbidden_messages
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Selects the records of a run that take effect, then adds them to the log of the cluster and to the table.
    fn accept(&mut self, mut run: AcceptedRun, profiles: &mut ProfileTable, clock: &dyn Clock) {
        let Some(state) = &mut self.state else { return };
        let (mut records, first) = (EffectiveRecords::default(), run.first);
        let is_settled = self.erasures.is_settled();
        while let Some((record, is_effective)) = run.next_record(state) {
            let order = state.order(record.seq - first);
            if is_effective {
                records.push(&record, order);
            }
            self.erasures.on_accepted(&record, is_effective, order);
        }
        self.stalled = Some(AcceptedRecords { run, records, is_settled });
        self.finish_stalled(profiles, clock);
    }

    /// Adds the records of the last message to the log and to the table. Returns whether nothing is left to add: while the
    /// disk fails, the node reads no message.
    pub(super) fn finish_stalled(&mut self, profiles: &mut ProfileTable, clock: &dyn Clock) -> bool {
        let Some((accepted, state)) = self.stalled.take().zip(self.state.as_ref()) else { return true };
        let first_seq = state.seq + 1 - accepted.records.len();
        if !self.shared.add(first_seq, &accepted.records) {
            self.stalled = Some(accepted);
            return false;
        }
        let AcceptedRecords { run, records, is_settled } = accepted;
        let (mut makes_entry, mut tombstones, mut effective) = (false, Vec::new(), Vec::new());
        for (record, order, seq) in records.iter() {
            if record.kind == RecordKind::Tombstone {
                let sealed = seal::open(&self.keys.seal, record.key, record.payload).unwrap_or_default();
                let hashes = sealed.hashes.into_iter().collect();
                profiles.apply_tombstone(&record, order, &sealed.keys, &hashes);
                tombstones.push((record.key, seq, record.received_ms));
                makes_entry = true;
            } else {
                makes_entry |= profiles.apply(&record, order);
            }
            if !is_settled {
                effective.push(seq);
            }
        }
        profiles.on_folded(records.len() as usize, records.byte_len());
        if records.len() > 0 {
            self.shared.note_orders(first_seq, &records, makes_entry);
        }
        self.publish_log_end();
        if run.producer_id() == self.follower.producer.id {
            self.log_seqs.add(first_seq, &records);
        }
        let last_own = self.compare(&run, &effective, clock);
        self.note_positions(&run, makes_entry, last_own.is_some());
        self.begin_erasures(&tombstones, last_own.unwrap_or(0), profiles);
        true
    }

    /// Compares a run with the own log. Returns the last seq of the run that is the own log's, if it has one.
    /// `effective_seqs` has the seqs that took effect while own records of an erasure were under way.
    fn compare(&mut self, run: &AcceptedRun, effective_seqs: &[u64], clock: &dyn Clock) -> Option<u64> {
        let state = self.state.as_ref()?;
        let Some(own_seqs) = self.follower.producer.seqs_of(run.producer_id()) else {
            self.note_absent(run, effective_seqs);
            return None;
        };
        if let Err(error) = self.log.load(run.first, run.last()) {
            tracing::error!(%error, "cannot compare returned records with the own log");
        }
        self.note_absent(run, effective_seqs);
        match self.follower.on_accepted(run, state, &self.log, Self::random_id()) {
            Comparison::Foreign => own_seqs.contains(&run.first).then(|| run.last().min(own_seqs.end - 1)),
            Comparison::Returned(last) => {
                self.on_returned(last, clock);
                Some(last)
            }
            Comparison::NewProducer(verified) => {
                self.positions.delete_after(verified);
                self.on_new_producer(verified);
                (verified >= run.first).then_some(verified)
            }
        }
    }

    /// Notes the position of own records, if there are entries of ownership between them and the records before.
    fn note_positions(&mut self, run: &AcceptedRun, makes_tie: bool, is_own: bool) {
        let Some(state) = &self.state else { return };
        let returned = self.follower.returned(state);
        if makes_tie || is_own {
            let first = PositionEntry { first_seq: run.first, order: state.order(0) };
            self.positions.on_message(is_own.then_some(first), makes_tie, returned);
        }
    }

    /// Begins the erasures of tombstones that took effect, with their keys, seqs and times. `last_own_seq` is the
    /// last own seq of their run, or 0.
    fn begin_erasures(
        &mut self,
        tombstones: &[(u128, u64, i64)],
        last_own_seq: u64,
        profiles: &ProfileTable,
    ) {
        let Some(state) = self.state.as_ref().filter(|_| !tombstones.is_empty()) else { return };
        let (log_end, returned) = (self.log.last_seq(), self.follower.returned(state));
        let clock_ms = state.clock_ms;
        for (id, seq, tombstone_ms) in tombstones {
            let listed = state.nodes.erasures.iter().rev().find(|erasure| erasure.id == *id);
            let Some(erasure) = listed.cloned() else { continue };
            // Records after an own tombstone belong to a new visitor.
            let last_seq = if *seq <= last_own_seq { *seq } else { log_end };
            let task = ErasureTask::new(erasure, (last_seq, returned), clock_ms);
            self.erasures.begin(ErasureTask { tombstone_ms: *tombstone_ms, ..task });
        }
        self.publish_erasures(profiles);
    }

    fn on_returned(&mut self, returned_seq: u64, clock: &dyn Clock) {
        self.forwarder.on_returned(returned_seq, monotonic_ms(clock));
        while let Some(batch) = self.waiting.next_returned(returned_seq) {
            batch.complete_visible(|seq| self.log_seqs.of(seq));
        }
        self.log.forget_through(returned_seq);
        let clock_ms = self.state.as_ref().map_or(i64::MIN, |state| state.clock_ms);
        self.erasures.forget_returned(returned_seq, clock_ms);
        if self.follower.is_caught_up {
            self.history.note(returned_seq, clock.now_ms());
        }
    }

    /// Checks the own log against the state at the end of the stream.
    fn check_position(&mut self, clock: &dyn Clock) {
        let Some(state) = &self.state else { return };
        if self.follower.is_caught_up {
            return;
        }
        let seq = state.seq;
        if let Some(verified) = self.follower.on_position(state, &self.log, Self::random_id()) {
            self.on_new_producer(verified);
        }
        if self.follower.is_caught_up {
            self.shared.end_tail(seq);
            self.set_state(ClusterState::Connected, "", clock);
            self.leave_producer_of_other_node();
            self.void_old_records();
            self.hasten_heartbeat();
            self.look_at_standing(clock);
            self.stop_if_away_too_long(clock);
        }
    }

    /// Returns the state right after the message of an era, for an era that begins with an empty table or
    /// with the loaded file.
    pub(super) fn found(
        &mut self,
        era: &crate::cluster::era::Era,
        message: &StreamMessage<MessageBytes>,
    ) -> StreamState {
        let seed = ids::random_u64();
        match self.unfounded.take() {
            Some(saved) => saved.founded(era.clone(), message).restore(seed),
            None => StreamState::founded(era.clone(), message, seed),
        }
    }

    fn is_era_message(
        &mut self,
        message: &StreamMessage<MessageBytes>,
        era: &Arc<crate::cluster::era::Era>,
    ) -> bool {
        let decoded = self.decoder.decode(&message.bytes).ok();
        decoded
            .and_then(|decoded| crate::cluster::era::Era::from_message(&decoded))
            .is_some_and(|found| found == **era)
    }
}

fn new_era_text(checkpoint_name: Option<&String>) -> String {
    match checkpoint_name {
        Some(name) => format!(
            "the cluster has begun a new era; stop this node, copy the file {name} of `parallax cluster new-era`, and start with \
             --bootstrap {name}"
        ),
        None => "the cluster has begun a new era with an empty table; start this node with an empty data directory".to_owned(),
    }
}
