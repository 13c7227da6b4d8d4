//! Several nodes: the rules by which they fold one stream of messages into equal tables of visitors.
//!
//! Each rule is a function without I/O, clock and randomness. Time, random IDs and the content of files are
//! parameters. The simulator in `tests/simulator/` runs the rules with thousands of seeds. [`node`] drives
//! them on the log writer's thread, and [`session`] connects it with the stream.
//!
//! | Where is the rule that ... | file |
//! |---|---|
//! | specifies a message of the stream | [`message`] |
//! | specifies the file `producer`, with the predecessors of a producer ID | [`producer`] |
//! | specifies the settings that all nodes share | [`era`] |
//! | is the state of a node beside its table | [`state`] |
//! | selects the records that take effect | [`filter`] |
//! | checks the stream, compares returned records, notices lost and foreign records | [`follow`] |
//! | chooses the records to send | [`forward`] |
//! | refuses to join with a wrong clock | [`skew`] |
//! | decides when an event is acknowledged | [`acknowledge`] |
//! | decides when a node that lacks messages is ready | [`join`] |
//! | says which process of a name is the member | [`members`] |
//! | specifies the file `node` | [`identity`] |
//! | compares tables | [`audit`] |
//! | knows the logs, lists erasures | [`nodes`] |
//! | specifies the payloads of heartbeats | [`payloads`] |
//! | orders records and ties, with the file `positions` | [`order`] |
//! | finds erased records that take effect after their tombstone | [`erase`] |
//! | finds records of a restored backup that retention had deleted | [`old_records`] |
//! | bounds the attempts of an erasure | [`erase_limits`] |
//! | specifies the file `erased`, with the erasures of a directory | [`erased_file`] |
//! | specifies the payload of a tombstone | [`seal`] |
//! | adds records that took effect to the log of the cluster | [`shared_log`] |
//!
//! [`erase_request`] erases a visitor for a client, [`erasing`] makes own records void, and [`operate`] is
//! the view of the operator.
//!
//! # Invariants
//!
//! * The state after a message is a function of the state before it and of the message. Equal states have equal bytes.
//! * A record of a producer ID takes effect once, in seq order.
//! * The filter and the follower never read the clock of this node.

pub mod acknowledge;
pub mod audit;
pub mod era;
pub mod erase;
pub mod erase_limits;
pub(crate) mod erase_request;
pub mod erased_file;
pub(crate) mod erasing;
pub(crate) mod erasure_progress;
pub mod filter;
pub mod follow;
pub mod forward;
pub mod identity;
pub mod join;
pub mod members;
pub mod message;
pub mod nodes;
pub mod order;
pub mod own_log;
pub mod payloads;
pub mod producer;
pub mod saved;
pub mod seal;
pub mod skew;
pub mod state;

pub(crate) mod found;
mod link;
pub(crate) mod node;
pub mod old_records;
pub(crate) mod operate;
pub mod positions;
mod replaced;
pub(crate) mod restore;
mod secret;
pub(crate) mod servers;
mod session;
pub mod shared_log;
pub(crate) mod start;
mod stream;
