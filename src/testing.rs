//! The internals that the tests, the benchmarks and the load generator use, under the paths of their modules.
//!
//! Everything else in the crate is private to it, so that the compiler finds dead code.

pub mod admin {
    pub use crate::admin::{AdminService, Metrics};
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
    pub mod waiting {
        pub use crate::admin::waiting::{WAIT_MAX, WaitingQuestion, WaitingQuestions};
    }
}
pub mod api {
    pub use crate::api::{EventSink, Handler, Poll, Service, Settings, SharedBytes, SharedParts};
    pub mod prepared_lists {
        pub use crate::api::prepared_lists::{LIST_BYTES_MIN, PreparedList, PreparedLists};
    }
    pub mod token_bucket {
        pub use crate::api::token_bucket::RateLimiter;
    }
    pub mod user_verifier {
        pub use crate::api::user_verifier::UserVerifier;
    }
}
pub mod checksum {
    #[cfg(feature = "cluster")]
    pub use crate::checksum::FileHash;
    pub use crate::checksum::{
        COPIED_BYTES_MAX, HmacKey, crc32, crc32_shift, crc32c, digest, hash64, hash128, hash128_parts,
        hmac_sha256, sha256_prefix,
    };
}
pub mod cli {
    pub mod byte_search {
        pub use crate::cli::byte_search::Needle;
    }
    pub mod contains {
        pub use crate::cli::contains::{ListedFile, SearchSummary, search_all};
    }
    pub mod demo {
        pub use crate::cli::demo::compile_demo;
    }
    pub mod inspect_snapshot {
        pub use crate::cli::inspect_snapshot::check;
    }
    pub mod print_config {
        pub use crate::cli::print_config::render_config;
    }
    pub mod settings {
        pub use crate::cli::settings::FileSettings;
    }
}
pub mod clock {
    pub use crate::clock::{Clock, LogClock, SystemClock, instant, now_ms};
}
#[cfg(feature = "cluster")]
pub mod cluster {
    pub use crate::cluster::{
        acknowledge, audit, era, erase, erase_limits, erased_file, filter, follow, forward, join, message,
        nodes, old_records, order, own_log, payloads, producer, saved, seal, skew, state,
    };
}
pub mod condition {
    pub use crate::condition::{
        Audiences, Condition, ConditionError, Document, EncodedDocument, Evaluator, Field, FieldKind, Memo,
        NoAudiences, Operator, Patterns, References, Value, Vocabulary, authored_shares, bucket_ranges,
        choose_variation, encode, equal_weights, find_overlong_chain, hash, hash_after_seed, in_namespace,
        operator_names, parse_lenient, parse_strict, seed_hash, verify, verify_audiences,
    };
    pub mod program {
        pub use crate::condition::program::*;
    }
}
pub mod config {
    pub mod identity_keys {
        pub use crate::config::identity_keys::{IdentityKeys, UserRule};
    }
    pub use crate::config::{Ack, ByteSize, Config, DriverChoice, LogFormat, MemorySize, Timeouts};
}
pub mod events {
    pub mod decode {
        pub use crate::events::decode::EventValidator;
    }
    pub mod document {
        pub use crate::events::document::JsonParser;
    }
    pub mod endpoint {
        pub use crate::events::endpoint::{EventEndpoint, PATHS};
    }
    pub mod export {
        pub use crate::events::export::write_line;
    }
    pub mod identity {
        pub use crate::events::identity::{NamedIds, Owner, Users};
    }
    pub mod ignored {
        pub use crate::events::ignored::IGNORED_VALUES_NAMED_MAX;
    }
    pub mod ip {
        pub use crate::events::ip::IpPolicy;
    }
    pub mod receipt {
        pub use crate::events::receipt::{EventResults, RejectedRequest, StoreOutcome};
    }
    pub mod refusal {
        pub use crate::events::refusal::{OwnedActual, Refusal};
    }
    pub mod request {
        pub use crate::events::request::{BotPolicy, Environment, Policy, RequestFacts};
    }
    pub mod submission {
        pub use crate::events::submission::Submission;
    }
    pub mod time {
        pub use crate::events::time::{
            CLOCK_SKEW_MS_MAX, EVENT_TIME_MS_MIN, SECONDS_END, TIME_MS_MAX, TIME_MS_MIN, correct_clock_skew,
            parse, write,
        };
    }
}
#[cfg(feature = "cluster")]
pub mod distribute {
    pub use crate::distribute::{list, mirror, publish};
}
pub mod http {
    pub mod head_parser {
        pub use crate::http::head_parser::HeadParser;
    }
    pub mod headers {
        pub use crate::http::headers::Field;
    }
    pub mod input {
        pub use crate::http::input::ReadBuffer;
    }
    pub mod params {
        pub use crate::http::params::{Param, ParamGroup, Params};
    }
    pub mod refused_head {
        pub use crate::http::refused_head::RefusedHead;
    }
    pub mod request {
        pub use crate::http::request::{
            BodyFraming, BufferedRequest, Method, ParseOutcome, RequestMeta, Surface, parse,
        };
    }
    pub mod short_search {
        pub use crate::http::short_search::{contains, position, position_or_non_ascii};
    }
}
pub mod insights {
    pub mod statistics {
        pub mod difference {
            pub use crate::insights::statistics::difference::{
                Difference, Interval, Method, PLANNED_DEFAULT, RelativeChange, mixture_variance,
            };
        }
        pub mod distributions {
            pub use crate::insights::statistics::distributions::{
                ln_gamma, normal_quantile, t_quantile_upper, t_sf,
            };
        }
        pub mod many {
            pub use crate::insights::statistics::many::{benjamini_hochberg, holm};
        }
        pub mod metric {
            pub use crate::insights::statistics::metric::{
                ArmSummary, ArmSums, BUYERS_MIN, CONVERSIONS_MIN, Comparison, DOUBTFUL_VISITORS_MIN,
                GuardrailVerdict, MetricKind, MetricResult, Settings, TooEarly, VISITORS_MIN, Verdict,
                compare, has_too_many_doubtful, summarize,
            };
        }
        pub mod mismatch {
            pub use crate::insights::statistics::mismatch::{BAYES_FACTOR_MAX, Mismatch, test_any_time};
        }
        pub mod moments {
            pub use crate::insights::statistics::moments::{CupedSums, Moments, RatioSums};
        }
        pub mod rates {
            pub use crate::insights::statistics::rates::wilson;
        }
        pub mod sample_size {
            pub use crate::insights::statistics::sample_size::{Target, days_left, visitors_per_arm};
        }
    }
    pub use crate::insights::{
        Amount, Answer, AnswerCache, BUCKETS_MAX, COLUMN_TEXT_BYTES_MAX, COLUMN_TEXTS_MAX, Cell,
        ColumnBuilder, ColumnFileError, ColumnInstaller, ColumnSource, ColumnStore, Columns, Comparison,
        ExperimentQuestion, ExperimentsQuestion, Filters, Group, KnownExperiment, LIMIT_MAX, LIST_BYTES_MAX,
        Limits, LogColumns, METRICS_MAX, MissingFiles, PARAM_NAMES, PARTS_MAX, PLACES_SHOWN_MAX, Places,
        PublishedExperiment, Query, Question, QuestionError, RowFacts, ScanError, SiteFacts, StoreError,
        Subject, UNKNOWN_ARMS_MAX, Unit, VisitorKey, ZONES_LIMIT_MAX, Zone, ZonesQuestion, answer_cached,
        answer_over,
    };
}
pub mod log_lines {
    pub use crate::log_lines::LogLines;
}
pub mod limits {
    pub use crate::cli::contains::MATCHES_SHOWN_MAX;
    pub use crate::condition::value::VALUE_NESTING_MAX;
    #[cfg(feature = "parquet")]
    pub use crate::events::parquet::{ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX};
    pub use crate::limits::log_lines::{
        LOG_LINE_OVERHEAD_BYTES, LOG_LINES_BYTES_MAX, LOG_LINES_RESERVED_BYTES,
    };
    pub use crate::limits::memory_defaults::*;
    pub use crate::limits::scrub::{
        DAMAGED_PLACES_MAX, SCRUB_ATTEMPTS_MAX, SCRUB_LOOK_MS, SCRUB_PERIOD_MS, SCRUB_PROGRESS_BYTES_MAX,
    };
    pub use crate::limits::{
        AUDIENCE_CHAIN_MAX, AUDIENCES_MAX, BATCH_BYTES_TARGET, BODY_BYTES_MAX, BODY_RENDERED_BYTES_MAX,
        CANONICAL_BYTES_MAX, CHECKPOINT_BLOCK_BYTES, CHECKPOINT_RUNS_MAX, CHECKPOINT_STOP_MS,
        CHUNK_LINE_BYTES_MAX, COLUMNS_FREE_BYTES_MIN, CONDITION_NESTING_MAX, CONTENT_FILE_BYTES_MAX,
        CONTEXT_MEMBERS_MAX, CONTEXTS_BYTES_MAX, DEDUP_WINDOW_MS, DIAGNOSTIC_TEXT_CHARS_MAX,
        EMBEDDED_QUERIES_MAX, EVENT_BYTES_MAX, EVENT_NAME_CHARS_MAX, EVENT_NESTING_MAX, EVENTS_MAX,
        EXPERIMENTS_BYTES_MAX, EXPERIMENTS_MAX, EXPORT_PAGE_BYTES_TARGET, FOLD_INPUT_BYTES_MAX,
        GUARDRAILS_MAX, HEAD_BYTES_MAX, HELD_REQUESTS_MAX, HELD_REQUESTS_OF_CLIENT_MAX,
        HELD_REQUESTS_OF_SITE_MAX, IDENTITY_KEY_CHARS_MAX, IDENTITY_KEY_CHARS_MIN, IDENTITY_KEYS_BYTES_MAX,
        IDENTITY_KEYS_OF_SITE_MAX, IGNORED_REFERRER_CHARS_MAX, IGNORED_REFERRERS_MAX, KEY_BYTES_MAX,
        NAME_BYTES_MAX, NODE_NESTING_MAX, ORDER_FIELDS_MAX, OUTSTANDING_REQUESTS_MAX, PAIRS_MAX,
        PATTERN_BYTES_MAX, PATTERN_DFA_BYTES_MAX, PATTERN_NFA_BYTES_MAX, PATTERNS_MAX, PAYLOAD_BYTES_MAX,
        PHASES_FILE_BYTES_MAX, PHASES_KEPT_MAX, PHASES_MAX, PREVIEW_NAME_CHARS_MAX, PROFILE_BYTES_MAX,
        PROFILE_EVENT_NAMES_MAX, PROFILE_PATH_BYTES_MAX, PROFILE_PATHS_MAX, PROFILES_MEMORY_BYTES_DEFAULT,
        PROGRAM_BYTES_MAX, QUERIES_MAX, QUERY_EVALUATIONS_MAX, QUERY_LIMIT_MAX, QUERY_PARAMS_MAX,
        RATE_LIMIT_BUCKETS_MAX, READ_BUFFER_BYTES, READ_CHUNK_BYTES, RECENT_TIES_MAX, REDIRECTS_IN_A_ROW_MAX,
        REQUEST_BYTES_MAX, RESERVED_BYTES_MAX, RETAIN_MS_MIN, RETENTION_INTERVAL_MS, REWRITE_CHUNK_BYTES,
        ROUTE_BYTES_MAX, RULES_MAX, SEED_CHARS_MAX, SEGMENT_BYTES_DEFAULT, SEGMENT_RECORDS_MAX, SEQ_MAX,
        SERVINGS_KEPT_MAX, SETTINGS_BYTES_MAX, SITE_IDS_KNOWN_MAX, SORT_KEY_BYTES_MAX, SOURCE_FILE_BYTES_MAX,
        SOURCE_FILES_MAX, SOURCE_NESTING_MAX, TARGET_BYTES_MAX, TEXT_BYTES_MAX, TIE_CACHE_ENTRIES_MAX,
        TIMES_KEPT, TOMBSTONE_IDS_MAX, TOMBSTONES_PER_BATCH_MAX, TOUCH_TEXT_BYTES_MAX, TRAILER_BYTES_MAX,
        TRAIT_BYTES_MAX, TRAIT_NAME_BYTES_MAX, TRAITS_MAX, UNSYNCED_BYTES_MAX, URL_BYTES_MAX, URL_PARAMS_MAX,
        USER_AGENT_BYTES_MAX, USER_ANON_IDS_MAX, VARIANTS_MAX, VERSIONS_FILE_BYTES_MAX, VERSIONS_KEPT_MAX,
        VISIT_TIMEOUT_MS, WAIT_S_MAX, WATERMARK_AFTER_MS, ZONES_MAX,
    };
    pub use crate::resolve::user_agent::USER_AGENTS_CACHED;
    pub use crate::site::compile::index::{INDEX_COMBINATIONS_MAX, INDEX_POSITIONS_MAX};
    pub use crate::site::source::diagnostics::{DIAGNOSTICS_SHOWN_MAX, EXCERPT_CHARS_MAX};
    pub use crate::visitors::checkpoint::scheduler::{CHECKPOINT_RETENTION_INTERVAL_MS, CHECKPOINT_RETRY_MS};
    pub use crate::visitors::store::table::{COPY_PRESERVED_BYTES_MAX, RETIRED_BYTES, TABLE_ENTRY_BYTES_MAX};
    pub use crate::worker::busy_poll::{IDLE_SPINS_MAX, SPIN_RETRY_INTERVAL};
}
pub mod log {
    pub use crate::log::{
        Ack, ClosedSegment, Completion, DISK_RECOVERED_MS, DamageKind, DedupWindow, DurableBatch, EraseError,
        EraseRule, Erasure, ErasureSummary, FinalPosition, InterruptedErasure, LOG_CLOCK_SAVE_MS, LockedLog,
        LogClient, LogConsumer, LogDirectory, LogError, LogId, LogItem, LogMetrics, LogReader, LogWriter,
        Options, PLACE_CHECK_MS, Queue, RecordResult, Records, RecoveryReport, RedactedIds, Request,
        RequestBatch, SegmentWriter, SendError, Treatment, Upkeep, VisitorIds, WriteOutcome, WriterThread,
        check_directory, check_file, inspect, open, parse_segment_name, read_footer, segment_name,
    };
    pub mod bloom {
        pub use crate::log::bloom::may_contain;
    }
    pub mod queue {
        pub use crate::log::queue::{QueueReceiver, channel};
    }
    pub mod format {
        pub use crate::log::format::{
            BATCH_HEADER_BYTES, BATCH_MAGIC, HEADER_BYTES, Header, TRAILER_MAGIC, batch_length,
            oldest_from_bytes, oldest_to_bytes, secret_from_bytes, secret_to_bytes,
        };
    }
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
    pub use crate::record::{
        Browser, ClientTimes, Code, Device, FoldInput, FoldInputBuilder, IdKind, IdTag, Os, RECORD_BYTES_MIN,
        Record, RecordContext, RecordError, RecordKind, TombstoneKey, UserAgentInfo, VisitorId,
    };
}
pub mod resolve {
    pub mod decide {
        pub use crate::resolve::decide::choose_forced;
    }
    pub mod path {
        pub use crate::resolve::path::RoutePath;
    }
    pub mod published_zones {
        pub use crate::resolve::published_zones::PublishedZone;
    }
    pub mod user_agent {
        pub use crate::resolve::user_agent::{
            Browser, Device, Os, UserAgentCache, UserAgentInfo, UserAgentParser,
        };
    }
    pub mod variants {
        pub use crate::resolve::variants::ForcedVariants;
    }
    pub mod visitor_context {
        pub use crate::resolve::visitor_context::profile_json;
    }
}
pub mod server {
    pub use crate::server::{Machine, MemoryPlan, start};
}
pub mod site {
    pub mod catalog {
        pub mod catalog {
            pub use crate::site::catalog::catalog::{Catalog, CurrentCatalog};
        }
        pub mod directory {
            pub use crate::site::catalog::directory::SnapshotDirectory;
        }
        pub mod files {
            pub use crate::site::catalog::files::{FileList, FileState, FileStatus};
        }
        pub mod phases {
            pub use crate::site::catalog::phases::{Phase, PhaseArm, Phases};
        }
        pub mod phases_file {
            pub use crate::site::catalog::phases_file::{check, decode, encode};
        }
        pub mod versions {
            pub use crate::site::catalog::versions::{ContentEntry, PublishedVersion, Serving, Versions};
        }
        pub mod versions_file {
            pub use crate::site::catalog::versions_file::{check, decode, encode};
        }
    }
    pub mod compile {
        pub use crate::site::compile::{compile, warn_about_past};
    }
    pub mod experiment_metrics {
        pub use crate::site::experiment_metrics::{Cap, Goal};
    }
    pub mod profile_fields {
        pub use crate::site::profile_fields::{ProfileField, field_paths, find_field};
    }
    pub mod profile_values {
        pub use crate::site::profile_values::{FieldValues, ValueList, ValueType};
    }
    pub mod query {
        pub mod cursor {
            pub use crate::site::query::cursor::{checksum_of, decode, encode};
        }
        pub mod order {
            pub use crate::site::query::order::{append_sort_key, number_key};
        }
    }
    pub mod snapshot {
        pub mod format {
            pub use crate::site::snapshot::format::{
                ARCHIVE_ALIGNMENT, ArchivedPage, ArchivedQuery, Argument, Audience, Branch, Column,
                ColumnBound, Condition, Experiment, Guardrail, HEADER_BYTES, Header, Index, IndexParam, Item,
                Metrics, Page, Param, ParamKind, Part, Piece, Query, QueryCall, Range, Redirect, Route,
                RouteTarget, Rule, Scan, Site, TargetPart, Variant, Zone, ZonePlace,
            };
        }
        pub mod hash_index {
            pub use crate::site::snapshot::hash_index::{build, find, is_valid};
        }
        pub mod open {
            pub use crate::site::snapshot::open::{Snapshot, SnapshotBudget, SnapshotError};
        }
    }
    pub mod source {
        pub mod diagnostics {
            pub use crate::site::source::diagnostics::{
                Diagnostic, Diagnostics, LocatedDiagnostic, Report, Target, push_token,
            };
        }
        pub mod files {
            pub use crate::site::source::files::Files;
        }
        pub mod pattern {
            pub use crate::site::source::pattern::PATTERNS;
        }
        pub mod read {
            pub use crate::site::source::read::{Source, read};
        }
        pub mod schema {
            pub use crate::site::source::schema::{FileKind, schema, structure};
        }
        pub mod types {
            pub use crate::site::source::types::{
                Audiences, Bots, CacheTimes, Content, Groups, IpPolicy, Queries, Route, Rule, Site, Zone,
            };
        }
        pub mod validate {
            pub use crate::site::source::validate::Validator;
        }
    }
    pub mod typescript {
        pub use crate::site::typescript::{ValueType, declarations};
    }
}
pub mod scrub {
    pub use crate::scrub::{Pace, Scrub, ScrubInputs, ScrubMetrics};
}
pub mod storage {
    pub use crate::storage::machine::memory_bytes as machine_memory_bytes;
    pub use crate::storage::write_atomic;
    pub mod damage {
        pub use crate::storage::damage::KnownDamage;
    }
    pub mod disk {
        pub use crate::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity, RealDisk};
    }
}
pub mod url {
    pub use crate::url::is_ignored_referrer;
}
pub mod varint {
    pub use crate::varint::{Decoder, put_number};
}
pub mod visitors;
pub mod webhook {
    pub mod queue {
        pub use crate::webhook::queue::{DeliveryQueue, Message, ServedSite};
    }
}
pub mod worker {
    pub use crate::worker::{BusyPoll, ENDPOINT_COUNTERS, Lifecycle, Output, ReceiveRate, UnsentBytes};
}
