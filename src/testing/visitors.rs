//! The internals of `visitors` that the tests and the benchmarks use.

pub mod apply {
    pub use crate::visitors::apply::{KeyHasher, ProfileUpdater};
}
pub mod checkpoint {
    pub use crate::visitors::checkpoint::CheckpointMetrics;
    pub mod directory {
        pub use crate::visitors::checkpoint::directory::{CheckpointDirectory, checkpoint_name};
    }
    pub mod format {
        pub use crate::visitors::checkpoint::format::{
            BLOCK_HEADER_BYTES, CheckpointEntry, ENTRY_HEADER_BYTES, HEADER_BYTES, Header, Parts, Run,
            begin_block, block_length, end_block, extend_checksum, trailer_from_bytes, trailer_to_bytes,
        };
    }
    pub mod reader {
        pub use crate::visitors::checkpoint::reader::CheckpointReader;
    }
    pub mod restore {
        pub use crate::visitors::checkpoint::restore::{
            LoadedFold, LogRange, RestoredTable, load_fold, restore,
        };
    }
    pub mod scheduler {
        pub use crate::visitors::checkpoint::scheduler::{CheckpointState, Options, build_checkpointer};
    }
    pub mod writer {
        pub use crate::visitors::checkpoint::writer::CheckpointWriter;
    }
}
pub mod events {
    pub mod decode {
        pub use crate::visitors::events::decode::{
            BotPolicy, Environment, EventContext, EventValidator, Policy, Submission,
        };
    }
    pub mod document {
        pub use crate::visitors::events::document::JsonParser;
    }
    pub mod endpoint {
        pub use crate::visitors::events::endpoint::{EventEndpoint, PATHS};
    }
    pub mod export {
        pub use crate::visitors::events::export::write_line;
    }
    pub mod ignored {
        pub use crate::visitors::events::ignored::IGNORED_VALUES_NAMED_MAX;
    }
    pub mod ip {
        pub use crate::visitors::events::ip::IpPolicy;
    }
    pub mod receipt {
        pub use crate::visitors::events::receipt::{EventResults, RejectedRequest, StoreOutcome};
    }
    pub mod refusal {
        pub use crate::visitors::events::refusal::{OwnedActual, Refusal};
    }
    pub mod time {
        pub use crate::visitors::events::time::{
            CLOCK_SKEW_MS_MAX, EVENT_TIME_MS_MIN, SECONDS_END, TIME_MS_MAX, TIME_MS_MIN, correct_clock_skew,
            parse, write,
        };
    }
}
pub mod identity {
    pub use crate::visitors::events::identity::{NamedIds, Owner, Users};
}
pub mod erasure {
    pub use crate::visitors::erasure::{Eraser, ErasureError};
}
pub mod live {
    pub use crate::visitors::live::{ProfileReaders, ProfileTable};
}
pub mod log {
    pub use crate::visitors::log::{
        Ack, Browser, ClientTimes, ClosedSegment, Code, Completion, DISK_RECOVERED_MS, DamageKind,
        DedupWindow, Device, DurableBatch, EraseError, EraseRule, Erasure, ErasureSummary, FinalPosition,
        FoldInput, FoldInputBuilder, IdTag, InterruptedErasure, LOG_CLOCK_SAVE_MS, LockedLog, LogClient,
        LogConsumer, LogDirectory, LogError, LogId, LogItem, LogMetrics, LogReader, LogWriter, Options, Os,
        PLACE_CHECK_MS, Queue, Record, RecordContext, RecordError, RecordKind, RecordResult, Records,
        RecoveryReport, RedactedIds, Request, RequestBatch, SegmentWriter, SendError, TombstoneKey,
        Treatment, Upkeep, UserAgentInfo, VisitorIds, WriteOutcome, WriterThread, check_directory,
        check_file, inspect, open, parse_segment_name, read_footer, segment_name,
    };
    pub mod bloom {
        pub use crate::visitors::log::bloom::{IdKind, may_contain};
    }
    pub mod queue {
        pub use crate::visitors::log::queue::{QueueReceiver, channel};
    }
    pub mod format {
        pub use crate::visitors::log::RECORD_BYTES_MIN;
        pub use crate::visitors::log::format::{
            BATCH_HEADER_BYTES, BATCH_MAGIC, HEADER_BYTES, Header, TRAILER_MAGIC, batch_length,
            oldest_from_bytes, oldest_to_bytes, secret_from_bytes, secret_to_bytes,
        };
    }
}
pub mod lookup {
    pub use crate::visitors::lookup::ProfileReader;
}
pub mod ownership {
    pub use crate::visitors::ownership::{OwnershipRule, OwnershipSource};
}
pub mod profile {
    pub use crate::visitors::profile::FoldCounts;
    pub mod builder {
        pub use crate::visitors::profile::builder::ProfileBuilder;
    }
    pub mod history {
        pub use crate::visitors::profile::history::History;
    }
    pub mod profile {
        pub use crate::visitors::profile::profile::{Profile, TableEntry};
    }
    pub mod touch {
        pub use crate::visitors::profile::touch::Touch;
    }
}
pub mod store {
    pub mod bulk {
        pub use crate::visitors::store::bulk::{BulkLoader, DuplicateKey};
    }
    pub mod table {
        pub use crate::visitors::store::table::{
            ENTRY_COST, EvictionClass, Key, Table, TableReader, memory_bytes_max,
        };
    }
}
pub mod ties {
    pub use crate::visitors::ties::{TIE_BYTES, TieEntry, users_around};
    pub mod cache {
        pub use crate::visitors::ties::cache::TieCache;
    }
    pub mod known {
        pub use crate::visitors::ties::known::{FoldState, KnownTies};
    }
    pub mod lost {
        pub use crate::visitors::ties::lost::{LINE_BYTES, LINES, LostAliases};
    }
    pub mod merge {
        pub use crate::visitors::ties::merge::{DropRule, merge};
    }
    pub mod recent {
        pub use crate::visitors::ties::recent::RecentTies;
    }
}
pub mod verify {
    pub use crate::visitors::verify::{CheckReport, check_directory, newest_checkpoint_seq};
}
