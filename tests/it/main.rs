//! Integration tests: the behaviour of the server, seen from outside. They are one binary with a module for
//! each subject.
//!
//! `harness` starts servers and speaks HTTP to them byte by byte. `logged` reads their data directories.
//! `strict` checks their responses strictly. `dice` generates random numbers from a seed. Tests that use
//! public cases find them in `PARALLAX_CASES`, and print a note if it is not set. Long forms run if
//! `PARALLAX_LONG` is 1. The servers read their driver from `PARALLAX_DRIVER`.

mod dice;
mod folded;
#[path = "../fuzz/src/lib.rs"]
mod fuzz;
mod harness;
mod logged;
mod strict;

// Diagnostics for authors, with their places.
mod authoring;
mod authoring_json;
// The audit log: format, chain, damage, failing disks and commands.
mod audit;
// User-Agent parsing.
mod agent;
// The changes of experiments and audiences between two versions of a site.
mod against;
// The example site of the format description: compiled, published, replaced and removed.
mod example_site;
// Each bound of a site.
mod bounds;
mod busy_poll;
// Conditions and buckets, compared with GrowthBook's cases and naive oracles.
mod condition;
// The statistics of experiments, compared with reference cases and in simulations.
mod statistics;
// Content queries, compared with a naive evaluation.
mod queries;
// Prepared answers, compared with first ones.
mod answers;
// Prepared lists of routes: which are kept, and for how long.
mod prepared_lists;
// Every response of the public address and of the admin address, compared with the interface.
mod wire;
// The OpenAPI document, compared with the responses of the server.
mod openapi;
// The rules of this codebase: floors, fences, lengths, places.
mod tidy;
// The end of a request, compared with llhttp's cases.
mod framing;
// Requests with random mutations.
mod mutated;
// Many slow clients.
mod storm;
// The fuzz targets, without a fuzzer.
mod fuzzed;
// The snapshot format, byte for byte.
mod golden;
// Events as they are sent, and the records that they become.
mod events;
// Enrolments in experiments, over the wire.
mod enrolments;
// Exposures from the answer to the export, computed again by published hash functions.
mod exposed;
// Real traffic, sent as page views.
mod replayed;
// Profiles after a restart.
mod known_again;
// Crowds of visitors, and extreme ones.
mod crowd;
// The event log, on a simulated disk and clock.
mod log;
// Profiles, compared with naive models.
mod visitor_tokens;
mod visitors;
// The two spellings of a path with combining characters.
mod spellings;
// The domains of payment providers and identity providers.
mod referrers;
// Man pages and completions.
mod reference;
// The keys of sites that verify user IDs.
mod identity_keys;
// Ties and owners: profiles, exports, erasures and Insights, compared with one naive model.
mod identity;
// The owner of each record.
mod ties;
// Checkpoints of the table of visitors, which a start reads instead of the log.
mod backups;
mod checkpoints;
// Backups that the program makes.
mod made_backups;
// Damaged, foreign and forged snapshots.
mod snapshot_damage;
// Snapshots that are published, replaced and removed while a server runs.
mod publishing;
// The settings of a node.
mod node_settings;
// A node without the servers of its cluster.
mod node_alone;
// The limits of an erasure on several nodes.
mod erase_limits;
// A node whose clock is wrong.
mod node_clock;
// A node that is behind the stream.
mod node_joining;
// Servers without a leader.
mod node_leader;
// Snapshots that are pulled from a source, and `parallax publish`.
mod pulled;
// Messages about publications to a receiver.
mod webhook;
// Publications under load.
mod reload;
// Limits of connections, descriptors, memory and request rates.
mod load;
// The roles of the admin address.
mod access;
// The limit of connections of the admin address.
mod admin_connections;
// Half-sent bodies.
mod half_sent;
// Clients that do not read.
mod site_holdout;
mod slow_readers;
// More events than the disk can take.
mod overload;
// The erasure of a visitor beside other requests.
mod erased_under_load;
// Token buckets, compared with a naive one.
mod throttle;
// The table of visitors, compared with a naive one, and its concurrent readers.
mod visitors_table;
// Metrics and the access log.
mod metrics;
// Log lines whose reader stalls.
mod log_lines;
// Long admin requests, which run on a thread of their own.
mod jobs;
// Pages and events on one address, or each on its own.
mod surfaces;
// The readiness of the server, for load balancers and containers.
mod health;
// Startup of a server.
mod starting;
// A worker that polls before it parks.
// Shutdown of a server.
mod stopping;
// A start right after the end of another server.
mod restarted;
// Sockets that a service manager keeps open from one server to the next.
mod socket_activation;
// Events that survive a killed or stopped server.
mod killed;
// A full disk.
mod full_disk;
// Exports and data directories become a new data directory.
mod imported;
// The scrub of the data directory, and the damage that its readers know.
mod scrub;
// Access to the files of a data directory.
mod file_access;
// Starts with too few threads or too little memory.
mod scarce;
// The memory of the machine, and the limits that fit it.
mod memory_plan;
// A data directory that is removed, moved, or cannot be written at the start.
mod data_directory;
// Settings from flags, environment and file.
mod settings;
// The packaging files, compared with the options of the server.
mod packaging;
// The documentation, compared with the tables of the program.
mod docs;
// The documentation, command by command.
mod documented;
// Invented visitors for the demo site.
mod demo_traffic;
// The command line: arguments, output and written files.
mod cluster_key;
mod command_line;
// The commands of authors: init, lint, previews, and the warnings of compile.
mod site_commands;
// `parallax test`: cases, reports, and mistakes in cases.
mod site_tests;
// `parallax rollback`, and the directories into which `compile` publishes.
mod rollback;
// The TypeScript types of a site.
mod typescript;
// The server that compiles a site again after each change.
mod dev;
// Preview sites on the wire.
mod previews;
// Staging and production from one site directory.
mod environments;
// Decisions as at another time.
mod preview_times;
// Insights: column files, questions and their answers.
mod insights;
// The decision for a visitor who exists only in a question.
mod invented;
// Commands on the log: export, inspect, check and search.
mod log_commands;
