//! Checks that an external crate is named only in its files, so that it can be replaced there.

use std::collections::BTreeSet;

use super::text::{line, words};
use super::{File, assert_no_violations, files};

/// Every dependency, and the files or directories of `src/` that may name it. "" is all of them.
const FENCES: &[(&str, &[&str])] = &[
    ("aho_corasick", &["resolve/crawlers.rs"]),
    (
        "arc_swap",
        &[
            "admin/current_access.rs",
            "api/prepared_lists.rs",
            "api/user_verifier.rs",
            "api/visitor_token.rs",
            "site/catalog/catalog.rs",
        ],
    ),
    (
        "async_nats",
        &[
            "nats/connect.rs",
            "nats/leader.rs",
            "distribute/publish.rs",
            "distribute/jetstream.rs",
            "cluster/servers.rs",
            "cluster/session.rs",
            "cluster/stream.rs",
        ],
    ),
    ("async_trait", &["distribute/bucket.rs"]),
    ("base64", &["distribute/jetstream.rs", "http/authorization.rs"]),
    ("blake3", &["checksum.rs"]),
    ("bytes", &["cluster/link.rs"]),
    ("chacha20poly1305", &["visitor_token.rs"]),
    ("clap", &["acknowledgement.rs", "cli/", "config.rs", "config/"]),
    ("clap_complete", &["cli/reference.rs"]),
    ("clap_mangen", &["cli/reference.rs"]),
    ("crc32c", &["checksum.rs"]),
    ("crc32fast", &["checksum.rs"]),
    ("crossbeam_channel", &["audit/mod.rs", "audit/thread.rs", "log_lines.rs", "log/queue.rs"]),
    (
        "data_encoding",
        &[
            "access/file.rs",
            "access/token.rs",
            "cli/inspect_snapshot.rs",
            "invented/server.rs",
            "distribute/list.rs",
            "cluster/seal.rs",
            "identity_keys.rs",
            "record/tombstone.rs",
            "visitor_keys.rs",
            "visitor_token.rs",
        ],
    ),
    ("flate2", &["http/gzip.rs", "site/compile/piece.rs", "cli/inspect_snapshot.rs"]),
    (
        "futures_util",
        &["distribute/publish.rs", "distribute/jetstream.rs", "cluster/session.rs", "cluster/stream.rs"],
    ),
    ("hdrhistogram", &["metrics.rs"]),
    ("hmac", &["checksum.rs"]),
    ("http_body_util", &["distribute/bucket.rs"]),
    ("httparse", &["http/chunked.rs", "http/request.rs"]),
    ("httpdate", &["http/date.rs"]),
    ("idna", &["site/compile/mod.rs"]),
    ("include_dir", &["cli/demo.rs", "cli/init.rs"]),
    ("icu_normalizer", &["nfc.rs"]),
    ("indicatif", &["cli/progress.rs"]),
    ("io_uring", &["worker/runtime.rs"]),
    ("ipnet", &["admin/access.rs", "api/scratch.rs", "config.rs", "http/forwarded.rs"]),
    ("itoa", &["allocator.rs", "condition/bucket.rs", "json.rs"]),
    (
        "memchr",
        &[
            "http/chunked.rs",
            "http/head_parser.rs",
            "http/request.rs",
            "events/document.rs",
            "events/scalars.rs",
            "percent.rs",
            "cli/byte_search.rs",
            "url.rs",
        ],
    ),
    (
        "jiff",
        &[
            "access/file.rs",
            "events/time.rs",
            "insights/questions/calendar.rs",
            "site/compile/operands.rs",
            "site/compile/routes.rs",
            "site/compile/timezone.rs",
            "site/profile_values.rs",
        ],
    ),
    (
        "jsonc_parser",
        &[
            "site/source/json_schema.rs",
            "site/source/puck.rs",
            "site/source/diagnostics.rs",
            "site/source/validate.rs",
            "site/source/syntax.rs",
        ],
    ),
    ("memmap2", &["site/snapshot/sealed.rs"]),
    ("monoio", &["worker/"]),
    ("listenfd", &["worker/passed_sockets.rs"]),
    ("libc", &["allocator.rs", "server/memory.rs", "server/mod.rs"]),
    ("nkeys", &["nats/connect.rs", "nats/key.rs"]),
    ("nix", &["clock.rs", "storage/access.rs", "worker/timeouts.rs", "worker/unsent.rs"]),
    ("notify", &["site/catalog/watcher.rs", "site/inotify.rs", "site/source/watcher.rs"]),
    ("object_store", &["distribute/bucket.rs"]),
    ("parquet", &["events/parquet.rs"]),
    ("regex_automata", &["condition/pattern.rs"]),
    (
        "rkyv",
        &[
            "condition/operator.rs",
            "condition/program.rs",
            "site/compile/archive.rs",
            "site/compile/embed.rs",
            "site/compile/mod.rs",
            "site/snapshot/experiment_format.rs",
            "site/snapshot/format.rs",
            "site/snapshot/pattern_format.rs",
            "hosted/sealed.rs",
            "site/snapshot/segment_format.rs",
            "site/snapshot/zone_format.rs",
            "site/snapshot/open.rs",
            "site/snapshot/verify.rs",
            "site/query/run.rs",
            "site/snapshot/hash_index.rs",
        ],
    ),
    ("rustix", &["ids/random.rs", "storage/", "visitors/store/memory.rs", "worker/mod.rs"]),
    ("schemars", &["site/source/pattern.rs", "site/source/schema.rs", "site/source/types/"]),
    ("serde", &[""]),
    ("serde_json", &[""]),
    ("sha2", &["checksum.rs"]),
    ("signal_hook", &["cli/output_file.rs", "cluster/replaced.rs", "server/mod.rs"]),
    ("simd_json", &["events/document.rs"]),
    ("simdutf8", &["http/body.rs", "http/target.rs", "record/record.rs"]),
    ("socket2", &["worker/listener.rs", "worker/passed_sockets.rs"]),
    ("statrs", &["insights/statistics/distributions.rs"]),
    ("strsim", &["nearest.rs"]),
    ("thiserror", &[""]),
    ("tokio", &["cluster/", "distribute/", "nats/"]),
    ("toml", &["access/file.rs", "cli/print_config.rs", "cli/settings.rs", "cli/token.rs"]),
    ("tracing", &[""]),
    ("tracing_subscriber", &["cli/serve.rs", "log_lines.rs"]),
    (
        "ureq",
        &[
            "cli/demo_traffic/client.rs",
            "cli/enrolments.rs",
            "cli/health.rs",
            "cluster/servers.rs",
            "config.rs",
            "distribute/",
            "config/cluster.rs",
            "webhook/client.rs",
        ],
    ),
    ("wide", &["http/short_search.rs", "http/target.rs"]),
    ("xxhash_rust", &["checksum.rs"]),
    ("zstd", &["cluster/message.rs"]),
];

/// Returns the dependencies of a `Cargo.toml`, as code names them.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).expect("a section `[dependencies]`");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| Some(line.split_once(" = ")?.0.replace('-', "_"))).collect()
}

/// Returns the crates that a file names: the index in `FENCES` and the offset.
fn named(file: &File) -> Vec<(usize, usize)> {
    let mut named = Vec::new();
    for (index, (name, _)) in FENCES.iter().enumerate() {
        for at in words(&file.code, name) {
            let after = &file.code[at + name.len()..];
            let is_inner = file.code[..at].ends_with("::") && !file.code[..at].ends_with(" ::");
            let is_import = file.code[..at].ends_with("use ") || file.code[..at].ends_with("extern crate ");
            if !is_inner && (after.starts_with("::") || is_import) {
                named.push((index, at));
            }
        }
    }
    named
}

/// Returns whether the path is one of the files or in one of the directories.
fn is_inside(path: &str, places: &[&str]) -> bool {
    places
        .iter()
        .any(|place| path == *place || (place.is_empty() || place.ends_with('/')) && path.starts_with(place))
}

fn check_file(file: &File) -> Vec<String> {
    let Some(path) = file.in_src() else { return Vec::new() };
    let strays = named(file).into_iter().filter(|(index, _)| !is_inside(path, FENCES[*index].1));
    let violation = |(index, at): (usize, usize)| {
        let (name, places) = FENCES[index];
        let line = line(&file.code, at);
        format!(
            "{}:{line}: `{name}` may be named only in {places:?}; add a function there and call it",
            file.path
        )
    };
    strays.map(violation).collect()
}

#[test]
fn an_external_crate_is_named_only_in_its_files() {
    assert_no_violations(&files(&["src"]), check_file);
}

#[test]
fn every_dependency_has_a_list_of_files_and_each_file_names_it() {
    let fenced: BTreeSet<String> = FENCES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let listed = dependencies(include_str!("../../../Cargo.toml"));
    assert_eq!(fenced, listed, "FENCES must list the dependencies of Cargo.toml");
    let files = files(&["src"]);
    for (index, (name, places)) in FENCES.iter().enumerate() {
        for place in *places {
            let uses = |file: &File| {
                let path = file.in_src().unwrap_or_default();
                is_inside(path, &[place]) && named(file).iter().any(|(named, _)| *named == index)
            };
            assert!(
                files.iter().any(uses),
                "`{name}` is not named in src/{place}; delete this place from FENCES"
            );
        }
    }
}

#[test]
fn fold_recovery_and_erasure_name_no_json_parser() {
    let places = ["log/", "visitors/profile/", "visitors/store/", "visitors/checkpoint/"];
    let places = [&places[..], &["visitors/apply.rs", "visitors/live.rs", "visitors/verify.rs"]].concat();
    let parsers = ["JsonParser", "simd_json", "from_str", "from_slice", "RawValue"];
    let named = |file: &File| parsers.iter().map(|parser| words(&file.code, parser).count()).sum::<usize>();
    let is_after = |file: &&File| file.in_src().is_some_and(|path| is_inside(path, &places));
    let files = files(&["src"]);
    assert!(files.iter().filter(is_after).count() > 30);
    assert_eq!(files.iter().filter(is_after).map(named).sum::<usize>(), 0);
}

#[test]
fn a_crate_outside_of_its_files_is_found_however_it_is_written() {
    let count = |path: &str, text: &str| check_file(&File::new(path, text)).len();
    assert_eq!(count("src/resolve/a.rs", "use rkyv::vec::ArchivedVec;"), 1);
    assert_eq!(count("src/resolve/a.rs", "fn f() { ::rkyv::access(); }"), 1);
    assert_eq!(count("src/resolve/a.rs", "use clap;"), 1);
    assert_eq!(
        count("src/resolve/a.rs", "// rkyv::access\nuse crate::rkyv::x; let clap = 1; let a = \"rkyv::\";"),
        0
    );
    assert_eq!(count("src/site/snapshot/format.rs", "use rkyv::Archive;"), 0);
    assert_eq!(count("src/site/snapshot/formatted.rs", "use rkyv::Archive;"), 1);
    assert!(
        dependencies("\n[dependencies]\n# a\nb-c = \"1\"\n\n[dev-dependencies]\nd = \"1\"\n").contains("b_c")
    );
}
