//! The rules that a run can break, and the parameters of a run.

/// A rule that a run breaks. The rules that are called *of the design* are those that the corrected rules replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    None,
    // The outbox.
    /// O4: outbox records are deleted when they have returned, before the log is synced.
    DeletesOutboxBeforeSync,
    /// O4: outbox records are deleted when they have been sent.
    DeletesOutboxBeforeReturn,
    /// A8: outbox records are sent before they are synced.
    SendsVolatileRecords,
    /// O5: an event whose key is in the window is acknowledged before the log has its first copy on disk.
    AcknowledgesVolatileDuplicates,
    /// `replicated` is acknowledged when the message is sent.
    ReplicatedWhenSent,
    /// Run borders depend on the next seq, and not on the outbox only.
    MovesRunBorders,
    // The state.
    /// O2: a start keeps the session of the start before it.
    KeepsSession,
    /// O7: runs of unknown sessions are accepted.
    AcceptsUnknownSessions,
    /// Of the design: sessions that the outbox does not need any more leave the state at once.
    SessionsLeave,
    /// A5: a checkpoint gets its name before the log is synced.
    CheckpointBeforeSync,
    /// L5: batches of the tail are appended again.
    AppendsTailAgain,
    /// The window of a start ends at the end of the log, and not at the checkpoint.
    WindowAtEnd,
    /// A message without effective records makes no batch.
    SkipsEmptyBatches,
    // Erasure.
    /// Of the design: only the window keeps a repeated tombstone out, and not the list of erasures.
    RepeatsTombstones,
    /// E4: records of erased visitors are never void.
    IgnoresSeen,
    /// Of the design: `seen` is a position, capped while there is a lost file, and a run has the key of one tombstone.
    SeenIsPosition,
    /// `seen` of a lost history is sent as it is.
    SendsLostViews,
    /// A run that names an erasure which the state does not have is accepted.
    AcceptsUnknownErasures,
    /// Outbox records name an erasure before the log has its tombstone on disk.
    SeenBeforeSync,
    /// New outbox records name the erasures of the new history only, while there are lost files.
    ForgetsLostErasures,
    /// Of the design: heartbeats confirm erasures by position.
    ConfirmsByPosition,
    /// E5: erasures are confirmed without regard to the outbox.
    ConfirmsWithOutbox,
    /// Of the design: erasures are confirmed without regard to `lost/`.
    ConfirmsWithLostFiles,
    /// X2: `erased` is not lowered.
    KeepsErased,
    /// `erased` is written before the log is synced.
    ErasedBeforeSync,
    /// A copied directory takes the end of its log as `erased`.
    CopyCountsAsErased,
    /// Of the design: a member whose heartbeats the stream has lost need not confirm.
    ForgetsLostMembers,
    /// Of the design: a node with lost files can be copied.
    CopiesWithLostFiles,
    // The lost end.
    /// X3: lost batches are not sent.
    NeverRecovers,
    /// Of the design: lost batches are accepted by a session R and a seq in it.
    RecoversUnderR,
    /// Each node has its own R.
    RecoversUnderOwnR,
    /// X3: a recovered batch does not raise the next seq of its session.
    RecoversWithoutNext,
    /// A recovered batch opens an unknown session at the batch, and not at the base of the session.
    OpensAtLostBatch,
    /// X3: recovered batches are not filtered by the window.
    RecoversWithoutWindow,
    /// A recovered batch is accepted although the batch before it is missing.
    RecoversInAnyOrder,
    /// Of the design: lost files are sent one after the other, oldest first.
    RecoversOldestFirst,
    /// X4: outbox records do not wait for lost batches.
    SendsOutboxFirst,
    /// X2: the log is not synced before the lost file gets its name.
    LostBeforeSync,
    /// X2: the cut begins before the rename of the lost file is durable.
    CutsBeforeRename,
    /// X2: the cut begins with the log, and not with the checkpoints.
    CutsBeforeCheckpoints,
    /// X2: the cut deletes all checkpoints but the first.
    DeletesAllCheckpoints,
    /// A start during a cut compares again and writes the lost file again.
    RewritesLostFile,
    /// Of the design: each start that finds a lost file cuts.
    CutsAtEachStart,
    /// A start does not continue a cut and uses the log as it is.
    ForgetsCut,
    /// X4: a second lost end replaces the file of the first.
    OverwritesLostFile,
    /// X4: a lost file is deleted before the log is synced.
    DeletesLostBeforeSync,
    /// X4: a lost file is deleted when its batches are sent.
    DeletesLostBeforeReturn,
    /// A start does not delete `lost/R.new`.
    KeepsUnfinishedFile,
}

/// All broken rules.
pub const RULES: [Rule; 46] = [
    Rule::KeepsSession,
    Rule::DeletesAllCheckpoints,
    Rule::ForgetsLostMembers,
    Rule::OpensAtLostBatch,
    Rule::RepeatsTombstones,
    Rule::DeletesOutboxBeforeSync,
    Rule::DeletesOutboxBeforeReturn,
    Rule::SendsVolatileRecords,
    Rule::AcknowledgesVolatileDuplicates,
    Rule::ReplicatedWhenSent,
    Rule::MovesRunBorders,
    Rule::AcceptsUnknownSessions,
    Rule::SessionsLeave,
    Rule::CheckpointBeforeSync,
    Rule::AppendsTailAgain,
    Rule::WindowAtEnd,
    Rule::SkipsEmptyBatches,
    Rule::IgnoresSeen,
    Rule::SeenIsPosition,
    Rule::SendsLostViews,
    Rule::AcceptsUnknownErasures,
    Rule::SeenBeforeSync,
    Rule::ForgetsLostErasures,
    Rule::ConfirmsByPosition,
    Rule::ConfirmsWithOutbox,
    Rule::ConfirmsWithLostFiles,
    Rule::KeepsErased,
    Rule::ErasedBeforeSync,
    Rule::CopyCountsAsErased,
    Rule::CopiesWithLostFiles,
    Rule::NeverRecovers,
    Rule::RecoversUnderR,
    Rule::RecoversUnderOwnR,
    Rule::RecoversWithoutNext,
    Rule::RecoversWithoutWindow,
    Rule::RecoversInAnyOrder,
    Rule::RecoversOldestFirst,
    Rule::LostBeforeSync,
    Rule::CutsBeforeRename,
    Rule::CutsBeforeCheckpoints,
    Rule::RewritesLostFile,
    Rule::CutsAtEachStart,
    Rule::OverwritesLostFile,
    Rule::DeletesLostBeforeSync,
    Rule::DeletesLostBeforeReturn,
    Rule::KeepsUnfinishedFile,
];

/// Rules of the design that no promise needs any more. They keep the order of events, and save the comparison after a crash.
pub const OPTIONAL: [Rule; 2] = [Rule::SendsOutboxFirst, Rule::ForgetsCut];

/// The parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub broken: Rule,
    pub window_max: usize,
    pub checkpoints_max: usize,
    /// An erasure removes the visitor from older checkpoints. Otherwise it deletes them.
    pub rewrites_checkpoints: bool,
}

impl Rules {
    pub fn breaks(&self, rule: Rule) -> bool {
        self.broken == rule
    }
}
