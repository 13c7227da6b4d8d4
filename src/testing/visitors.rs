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
pub mod erasure {
    pub use crate::visitors::erasure::{Eraser, ErasureError};
}
pub mod live {
    pub use crate::visitors::live::{ProfileReaders, ProfileTable};
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
