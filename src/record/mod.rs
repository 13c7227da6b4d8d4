//! The types and bytes of one record of the log: an event, a tombstone, or a void record.
//!
//! [`record`] has the columns and their encoding, [`fold_input`] the data that only the fold reads, [`context`] and
//! [`agent`] the device and language of the client, [`ids`] the hashes of a record's IDs, and [`tombstone`] the
//! digests that name an erased visitor.
//!
//! Invariant: nothing here names a file, a thread or a clock. The module doc of `log/format.rs` specifies the bytes.

mod agent;
mod code;
mod context;
pub(crate) mod fold_input;
mod ids;
mod record;
mod tombstone;

pub use agent::{Browser, Device, Os, UserAgentInfo};
pub use code::Code;
pub use context::RecordContext;
pub(crate) use context::{CONTEXT_BYTES, primary_language};
pub use fold_input::{ClientTimes, FoldInput, FoldInputBuilder};
pub(crate) use ids::{IdHasher, hash_parts, id_hash};
pub use ids::{IdKind, VisitorId};
pub(crate) use record::{
    ERROR_EVENT, EXPOSURE_EVENT, FOLD_LENGTH_OFFSET, HELD_OUT, KEY_OFFSET, LENGTHS_OFFSET, NOT_HELD_OUT,
    SITE_HOLDOUT, encoded_records, key_and_time, key_from_bytes, key_to_bytes, site,
};
pub use record::{RECORD_BYTES_MIN, Record, RecordError, RecordKind};
pub use tombstone::{IdTag, TombstoneKey};
pub(crate) use tombstone::{tombstone_owner, tombstone_payload, tombstone_tags};

/// Largest absolute time, in milliseconds. Times beyond it are clamped, so that their last bytes are 00 or
/// FF.
const TIME_MS_MAX: i64 = (1 << 47) - 1;
