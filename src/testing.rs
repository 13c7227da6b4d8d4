//! The internals that the tests, the benchmarks and the load generator use, under the paths of their modules.
//!
//! Of a module that is named here as a whole, or with `*`, the `pub` items are visible. Everything else in the crate is
//! private to it, so that the compiler finds dead code.

pub mod admin {
    pub use crate::admin::{AccessSettings, AdminService, Metrics, waiting};
    pub mod changes {
        pub use crate::admin::changes::{
            ChangesReceiver, ChangesRequest, PART_TIMEOUT, Received, SnapshotRules,
        };
    }
    pub mod slow_requests {
        use std::os::unix::net::UnixStream;
        use std::sync::Arc;

        pub use crate::admin::slow_requests::{JobResult, SlowRequests};
        pub use crate::insights::engine::{AnswerError, JobOutput, Output};
        use crate::insights::engine::{InsightsClient, ReplySender};
        use crate::metrics::JobCounters;

        /// Returns a table for jobs alone, without the thread `insights`.
        pub fn jobs_alone(wakeup_tx: UnixStream, job_counters: JobCounters) -> SlowRequests {
            let (reply_sender, replies) = ReplySender::new(Arc::new(wakeup_tx));
            SlowRequests::new(InsightsClient::without_thread(), replies, reply_sender, job_counters)
        }
    }
}
pub mod api {
    pub use crate::api::*;
}
pub mod audit {
    pub use crate::audit::*;
}
pub mod checksum {
    pub use crate::checksum::*;
}
pub mod cli {
    pub use crate::cli::{byte_search, contains, demo, inspect_snapshot, print_config, settings};
}
pub mod clock {
    pub use crate::clock::{Clock, LogClock, SystemClock, instant, now_ms};
}
#[cfg(feature = "cluster")]
pub mod cluster {
    pub use crate::cluster::*;
}
pub mod condition {
    pub use crate::condition::*;
}
pub mod config {
    pub use crate::acknowledgement::Ack;
    pub use crate::config::*;
}
pub mod events {
    pub use crate::events::*;
}
#[cfg(feature = "cluster")]
pub mod distribute {
    pub use crate::distribute::{list, mirror, publish};
}
pub mod http {
    pub use crate::http::{head_parser, headers, input, params, refused_head, request, short_search};
}
pub mod identity_keys {
    pub use crate::identity_keys::{IdentityKeys, UserRule};
}
pub mod insights {
    pub use crate::insights::*;
}
pub mod log_lines {
    pub use crate::log_lines::LogLines;
}
pub mod limits {
    pub use crate::cli::contains::MATCHES_SHOWN_MAX;
    pub use crate::condition::value::VALUE_NESTING_MAX;
    pub use crate::events::parquet::{ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX};
    #[cfg(feature = "parquet")]
    pub use crate::invented::EVENTS_WITH_ARMS_MAX;
    pub use crate::limits::access;
    pub use crate::limits::log_lines::{
        LOG_LINE_OVERHEAD_BYTES, LOG_LINES_BYTES_MAX, LOG_LINES_RESERVED_BYTES,
    };
    pub use crate::limits::memory_defaults::*;
    pub use crate::limits::scrub::{
        DAMAGED_PLACES_MAX, SCRUB_ATTEMPTS_MAX, SCRUB_LOOK_MS, SCRUB_PERIOD_MS, SCRUB_PROGRESS_BYTES_MAX,
    };
    pub use crate::limits::{
        ATTRIBUTION_MS_MAX, AUDIENCE_CHAIN_MAX, AUDIENCES_MAX, AUDIT_DAMAGE_OF_FILE_MAX,
        AUDIT_DETAIL_BYTES_MAX, AUDIT_FILE_BYTES_MAX, AUDIT_FILE_MS_MAX, AUDIT_NAME_BYTES_MAX,
        AUDIT_QUEUE_LINES_MAX, AUDIT_RECORD_BYTES_MAX, BATCH_BYTES_TARGET, BODY_BYTES_MAX,
        BODY_RENDERED_BYTES_MAX, CANONICAL_BYTES_MAX, CHECKPOINT_BLOCK_BYTES, CHECKPOINT_RUNS_MAX,
        CHECKPOINT_STOP_MS, CHUNK_LINE_BYTES_MAX, COLUMNS_FREE_BYTES_MIN, CONDITION_NESTING_MAX,
        CONTENT_FILE_BYTES_MAX, CONTEXT_MEMBERS_MAX, CONTEXTS_BYTES_MAX, COVERAGES_KEPT_MAX, DEDUP_WINDOW_MS,
        DIAGNOSTIC_TEXT_CHARS_MAX, DISCARDED_BYTES_MAX, EMBEDDED_QUERIES_MAX, ENROLMENTS_MAX,
        EVENT_BYTES_MAX, EVENT_NAME_CHARS_MAX, EVENT_NESTING_MAX, EVENTS_MAX, EXPERIMENT_VALUES_MAX,
        EXPERIMENTS_BYTES_MAX, EXPERIMENTS_MAX, EXPORT_PAGE_BYTES_TARGET, FILTER_VALUE_CHARS_MAX,
        FILTER_VALUES_MAX, FOLD_INPUT_BYTES_MAX, GOAL_TESTS_MAX, GOALS_ASKED_MAX, GOALS_MAX, GUARDRAILS_MAX,
        HEAD_BYTES_MAX, HELD_REQUESTS_MAX, HELD_REQUESTS_OF_CLIENT_MAX, HELD_REQUESTS_OF_SITE_MAX,
        IDENTITY_KEY_CHARS_MAX, IDENTITY_KEY_CHARS_MIN, IDENTITY_KEYS_BYTES_MAX, IDENTITY_KEYS_OF_SITE_MAX,
        IGNORED_REFERRER_CHARS_MAX, IGNORED_REFERRERS_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, NODE_NESTING_MAX,
        ORDER_FIELDS_MAX, OUTSTANDING_REQUESTS_MAX, PAIRS_MAX, PATTERN_BYTES_MAX, PATTERN_DFA_BYTES_MAX,
        PATTERN_NFA_STATES_MAX, PATTERNS_MAX, PAYLOAD_BYTES_MAX, PHASES_FILE_BYTES_MAX, PHASES_KEPT_MAX,
        PHASES_MAX, PREVIEW_NAME_CHARS_MAX, PRIVATE_TRAITS_MAX, PROFILE_BYTES_MAX, PROFILE_EVENT_NAMES_MAX,
        PROFILE_PATH_BYTES_MAX, PROFILE_PATHS_MAX, PROFILES_MEMORY_BYTES_DEFAULT, PROGRAM_BYTES_MAX,
        PROPERTIES_MAX, PROPERTY_NAME_CHARS_MAX, PROPERTY_VALUE_BYTES_MAX, QUERIES_MAX,
        QUERY_EVALUATIONS_MAX, QUERY_LIMIT_MAX, QUERY_PARAMS_MAX, RAMP_STEPS_MAX, RATE_LIMIT_BUCKETS_MAX,
        READ_BUFFER_BYTES, READ_CHUNK_BYTES, RECENT_TIES_MAX, REDIRECTS_IN_A_ROW_MAX, REQUEST_BYTES_MAX,
        RESERVED_BYTES_MAX, RETAIN_MS_MIN, RETENTION_INTERVAL_MS, REWRITE_CHUNK_BYTES, ROUTE_BYTES_MAX,
        RULES_MAX, SEARCHABLE_TRAITS_MAX, SEED_CHARS_MAX, SEGMENT_BYTES_DEFAULT, SEGMENT_NAME_CHARS_MAX,
        SEGMENT_RECORDS_MAX, SEQ_MAX, SERVINGS_KEPT_MAX, SETTINGS_BYTES_MAX, SITE_IDS_KNOWN_MAX,
        SITE_SEGMENTS_MAX, SORT_KEY_BYTES_MAX, SOURCE_FILE_BYTES_MAX, SOURCE_FILES_MAX, SOURCE_NESTING_MAX,
        TARGET_BYTES_MAX, TEXT_BYTES_MAX, TIE_CACHE_ENTRIES_MAX, TIMES_KEPT, TOMBSTONE_IDS_MAX,
        TOMBSTONES_PER_BATCH_MAX, TOUCH_TEXT_BYTES_MAX, TRAILER_BYTES_MAX, TRAIT_BYTES_MAX,
        TRAIT_NAME_BYTES_MAX, TRAITS_MAX, UNSYNCED_BYTES_MAX, URL_BYTES_MAX, URL_PARAMS_MAX,
        USER_AGENT_BYTES_MAX, USER_ANON_IDS_MAX, VARIANTS_MAX, VERSIONS_FILE_BYTES_MAX, VERSIONS_KEPT_MAX,
        VISIT_TIMEOUT_MS, VISITOR_KEY_CHARS_MAX, VISITOR_KEY_CHARS_MIN, VISITOR_KEY_ID_CHARS_MAX,
        VISITOR_KEYS_BYTES_MAX, VISITOR_KEYS_MAX, VISITOR_TOKEN_CHARS_MAX, VISITOR_TOKEN_S_MAX,
        VISITOR_TOKEN_SKEW_S_MAX, WAIT_S_MAX, WATERMARK_AFTER_MS, ZONES_MAX,
    };
    pub use crate::resolve::open_decision::POSSIBLE_DECISIONS_MAX;
    pub use crate::resolve::user_agent::USER_AGENTS_CACHED;
    pub use crate::site::compile::index::{INDEX_COMBINATIONS_MAX, INDEX_POSITIONS_MAX};
    pub use crate::site::source::diagnostics::{DIAGNOSTICS_SHOWN_MAX, EXCERPT_CHARS_MAX};
    pub use crate::visitors::checkpoint::scheduler::{CHECKPOINT_RETENTION_INTERVAL_MS, CHECKPOINT_RETRY_MS};
    pub use crate::visitors::store::table::{COPY_PRESERVED_BYTES_MAX, RETIRED_BYTES, TABLE_ENTRY_BYTES_MAX};
    pub use crate::worker::busy_poll::{IDLE_SPINS_MAX, SPIN_RETRY_INTERVAL};
}
pub mod log {
    pub use crate::acknowledgement::{Ack, RecordResult};
    pub use crate::log::*;
}
pub mod metrics {
    pub use crate::metrics::{EventCounters, JobCounters, PublishCounters, Totals, WebhookCounters};
}
#[cfg(feature = "cluster")]
pub mod nats {
    pub use crate::nats::leader;
}
pub mod nearest {
    pub use crate::nearest::nearest;
}
pub mod problem {
    pub use crate::problem::{ALL, Detail, INTERNAL, MALFORMED_JSON, OVERLOADED};
}
pub mod nfc {
    pub use crate::nfc::normalize;
}
pub mod providers {
    pub use crate::providers::{SLOTS, contains, domains};
}
pub mod record {
    pub use crate::record::*;
}
pub mod resolve {
    pub use crate::resolve::{decide, path, published_zones, user_agent, variants, visitor_context};
}
pub mod server {
    pub use crate::server::{Machine, MemoryPlan, start};
}

pub mod site {
    pub use crate::site::*;
}
pub mod scrub {
    pub use crate::scrub::{Pace, Scrub, ScrubInputs, ScrubMetrics};
}
pub mod storage {
    pub use crate::storage::machine::memory_bytes as machine_memory_bytes;
    pub use crate::storage::{damage, disk, write_atomic};
}
pub mod url {
    pub use crate::url::is_ignored_referrer;
}
pub mod varint {
    pub use crate::varint::{Decoder, put_number};
}
pub mod visitor_keys {
    pub use crate::visitor_keys::{SiteKeys, VisitorKeys};
}
pub mod visitor_token {
    pub use crate::visitor_token::{TokenError, TokenOwner, open};
}
pub mod visitors {
    pub use crate::visitors::*;
}
pub mod webhook {
    pub use crate::webhook::queue;
}
pub mod worker {
    pub use crate::worker::{BusyPoll, ENDPOINT_COUNTERS, Lifecycle, Output, ReceiveRate, UnsentBytes};
}
