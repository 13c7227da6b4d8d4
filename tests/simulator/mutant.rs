//! The rules that the simulator can switch off. The driver of a node leaves the rule out, or undoes its
//! effect: the rules themselves have no switches.

/// A rule that a run leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Every rule holds.
    None,
    /// A1: a node folds its own records when it writes them, and skips them in the stream.
    FoldsOwnOnArrival,
    /// A2: the clock of the node enters the state.
    UsesLocalClock,
    /// A3: a message without effect does not enter the chain.
    SkipsChain,
    /// A4: the producer ID follows from the name of the node.
    NamesProducerByNode,
    /// A5: a run after a gap is accepted.
    AcceptsGaps,
    /// A6: there is no duplicate window.
    HasNoWindow,
    /// A7: each node has a bound of its own.
    EvictsByOwnBound,
    /// A8: records are sent before they are durable.
    SendsVolatileRecords,
    /// A9: records are sent before the node has caught up.
    SendsBeforeCaughtUp,
    /// A9: a reconnection does not ask for the end of the stream again.
    StaysCaughtUp,
    /// A10: the forwarder never goes back.
    NeverGoesBack,
    /// A11: the engine's acknowledgement counts as the return of the records.
    TrustsAcknowledgement,
    /// A15: own records enter the table before they return.
    FoldsOwnTwice,
    /// A16: the chain is not checked.
    SkipsChainCheck,
    /// A17: returned records are not compared.
    SkipsComparison,
    /// A18: an erased record equals only itself.
    ComparesErasedRecords,
    /// A19: retention deletes everything durable.
    DeletesEarly,
    /// A20: a producer ID is used before it is durable.
    SendsUnderVolatileId,
    /// A21: predecessors are forgotten.
    ForgetsPredecessors,
    /// G1: the log is not compared at a start.
    SkipsBootComparison,
    /// G2: an event with a generated message ID has no key.
    HasNoGeneratedKeys,
    /// G3: a tombstone has no key.
    HasNoTombstoneKeys,
    /// G1: a loaded state is trusted beyond the records that the hash or the directory has compared.
    TrustsLoadedState,
    /// G5: the chain does not cover the stream time.
    ChainOmitsTime,
    /// The stream's clock counts however far it is ahead of the sender's.
    TrustsStreamClock,
    /// An erased record that was under way gets no second tombstone.
    HasNoSecondTombstone,
    /// A damaged record that was under way gets no second tombstone.
    IgnoresUnreadableRecords,
    /// A record that a restored disk has lost and that was under way gets no second tombstone.
    IgnoresLostRecords,
    /// Erased records that a loaded state has accepted count as received before their tombstone.
    TrustsLoadedOrder,
    /// The file `erased` is missing at each start.
    ForgetsErasures,
    /// The file `erased` is written after the records are void.
    NotesErasuresLate,
    /// M1: another instance takes a name although the present one was heard.
    TakesNameAtOnce,
    /// M3: a late heartbeat of an earlier session takes the name back.
    AcceptsEarlierSession,
    /// A process that was replaced goes on.
    IgnoresReplacement,
    /// A node that has never joined acknowledges events.
    AcknowledgesUnjoined,
    /// Each message counts as one of the operator, also that of a node.
    TrustsEverySender,
    /// A node may send under the producer ID of another one.
    AcceptsForeignProducers,
    /// A copy under another name keeps the producer ID of its original.
    KeepsForeignProducer,
    /// A message in an unknown format stops its readers.
    StopsAtUnknownFormat,
    /// A removed member never becomes one again.
    BansRemovedMembers,
    /// A record that was under way when its disk was replaced gets no second tombstone.
    IgnoresEarlierDisk,
    /// A node is ready before it has read to the end of the stream.
    ReadyBeforeCaughtUp,
}

/// All mutants.
pub const MUTANTS: [Mutant; 42] = [
    Mutant::FoldsOwnOnArrival,
    Mutant::UsesLocalClock,
    Mutant::SkipsChain,
    Mutant::NamesProducerByNode,
    Mutant::AcceptsGaps,
    Mutant::HasNoWindow,
    Mutant::EvictsByOwnBound,
    Mutant::SendsVolatileRecords,
    Mutant::SendsBeforeCaughtUp,
    Mutant::StaysCaughtUp,
    Mutant::NeverGoesBack,
    Mutant::TrustsAcknowledgement,
    Mutant::FoldsOwnTwice,
    Mutant::SkipsChainCheck,
    Mutant::SkipsComparison,
    Mutant::ComparesErasedRecords,
    Mutant::DeletesEarly,
    Mutant::SendsUnderVolatileId,
    Mutant::ForgetsPredecessors,
    Mutant::SkipsBootComparison,
    Mutant::HasNoGeneratedKeys,
    Mutant::HasNoTombstoneKeys,
    Mutant::TrustsLoadedState,
    Mutant::ChainOmitsTime,
    Mutant::TrustsStreamClock,
    Mutant::HasNoSecondTombstone,
    Mutant::IgnoresUnreadableRecords,
    Mutant::IgnoresLostRecords,
    Mutant::TrustsLoadedOrder,
    Mutant::ForgetsErasures,
    Mutant::NotesErasuresLate,
    Mutant::TakesNameAtOnce,
    Mutant::AcceptsEarlierSession,
    Mutant::IgnoresReplacement,
    Mutant::AcknowledgesUnjoined,
    Mutant::TrustsEverySender,
    Mutant::AcceptsForeignProducers,
    Mutant::KeepsForeignProducer,
    Mutant::StopsAtUnknownFormat,
    Mutant::BansRemovedMembers,
    Mutant::IgnoresEarlierDisk,
    Mutant::ReadyBeforeCaughtUp,
];
