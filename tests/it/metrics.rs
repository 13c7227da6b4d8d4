//! Metrics, and the optional access log.

use std::collections::BTreeMap;
use std::path::Path;

use parallax::testing::log::segment_name;

use crate::harness::{Client, Response, Server, eventually, temporary_directory};

/// Parses a page of metrics. Returns the samples by name and labels.
fn samples(response: &Response) -> BTreeMap<String, f64> {
    assert_eq!(response.status, 200);
    assert_eq!(response.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut samples = BTreeMap::new();
    let (mut helped, mut typed) = (String::new(), String::new());
    for line in response.text().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split(' ').next().expect("a name").to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert_eq!(name, helped);
            typed = format!("{kind} {name}");
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(name.starts_with(&helped), "{line} is listed under {typed}");
            let value = value.parse().unwrap_or_else(|e| panic!("{e}: {line}"));
            assert_eq!(samples.insert(name.to_owned(), value), None, "{name} occurs twice");
        }
    }
    samples
}

fn metrics(server: &Server) -> BTreeMap<String, f64> {
    samples(&server.admin_get("/metrics"))
}

/// Waits until a sample has this value. Returns all samples.
fn wait_for_sample(server: &Server, sample: &str, value: f64) -> BTreeMap<String, f64> {
    eventually(&format!("{sample} is {value}"), || {
        let samples = metrics(server);
        (samples.get(sample).copied().unwrap_or_default() == value).then_some(samples)
    })
}

#[test]
fn responses_are_counted_by_endpoint_and_class_problems_by_code() {
    let server = Server::demo();
    let mut client = Client::to(server.edge);
    for _ in 0..3 {
        assert_eq!(client.request("GET", "/v1/resolve?site=fjell&route=/", &[]).status, 200);
    }
    assert_eq!(client.request("GET", "/v1/resolve?site=fjell&route=/nowhere", &[]).status, 404);
    assert_eq!(client.request("GET", "/v1/nothing", &[]).status, 404);
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.response(false).status, 400);
    let shown = wait_for_sample(&server, "parallax_http_problems_total{code=\"malformed_request\"}", 1.0);
    let count = |endpoint: &str, status: &str| {
        shown[&format!(
            "parallax_http_request_duration_seconds_count{{endpoint=\"{endpoint}\",status=\"{status}\"}}"
        )]
    };
    assert_eq!(count("/v1/resolve", "2xx"), 3.0);
    assert_eq!(count("/v1/resolve", "4xx"), 1.0);
    assert_eq!(count("other", "4xx"), 2.0);
    assert_eq!(shown["parallax_http_problems_total{code=\"route_not_found\"}"], 1.0);
    assert_eq!(shown["parallax_http_problems_total{code=\"unknown_endpoint\"}"], 1.0);
    assert_eq!(shown["parallax_connections_total{event=\"accepted\"}"], 1.0);
    assert!(shown["parallax_http_response_bytes_total"] > 3_000.0);
}

#[test]
fn histogram_buckets_are_cumulative_and_end_with_all_requests() {
    let server = Server::demo();
    (0..20).for_each(|_| assert_eq!(server.get("/v1/routes?site=fjell").status, 200));
    let labels = "endpoint=\"/v1/routes\",status=\"2xx\"";
    let shown =
        wait_for_sample(&server, &format!("parallax_http_request_duration_seconds_count{{{labels}}}"), 20.0);
    let bucket = format!("parallax_http_request_duration_seconds_bucket{{{labels},le=\"");
    let mut buckets: Vec<(f64, f64)> = shown
        .iter()
        .filter_map(|(name, count)| Some((name.strip_prefix(&bucket)?.strip_suffix("\"}")?, *count)))
        .map(|(bound, count)| (bound.parse().expect("a bound"), count))
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, 20.0)));
    assert_eq!(buckets[0], (1e-6, 0.0), "no request takes less than a microsecond");
    let sum = shown[&format!("parallax_http_request_duration_seconds_sum{{{labels}}}")];
    assert!(sum > 20.0 * 1e-6 && sum < 20.0, "{sum}");
}

#[test]
fn metrics_show_connections_snapshots_and_memory() {
    let server = Server::start(
        &[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)],
        &["--connections", "2"],
    );
    let open: Vec<_> = (0..2).map(|_| Client::to(server.edge)).collect();
    let shown = wait_for_sample(&server, "parallax_connections", 2.0);
    assert_eq!(shown["parallax_connections_max"], 2.0);
    assert_eq!(server.get("/v1/routes?site=fjell").status, 503);
    wait_for_sample(&server, "parallax_connections_total{event=\"refused\"}", 1.0);
    drop(open);
    server.publish("bad.snapshot", b"not a snapshot");
    let shown = wait_for_sample(&server, "parallax_snapshots_refused", 1.0);
    assert_eq!(shown["parallax_snapshots_refused_total"], 1.0);
    assert_eq!(shown["parallax_snapshots_activated_total"], 1.0);
    assert!(shown["parallax_site_version{site=\"fjell\"}"] >= 1.0);
    assert!(shown["parallax_site_routes{site=\"fjell\"}"] >= 96.0);
    let snapshot = parallax::testing::cli::demo::compile_demo().1.len() as f64;
    assert!(shown["parallax_snapshots_memory_bytes"] >= snapshot);
    let bounds = shown.iter().filter(|(name, _)| name.starts_with("parallax_memory_max_bytes{"));
    let sum: f64 = bounds.map(|(_, bytes)| bytes).sum();
    let logged = server.log();
    let logged = logged.split("total_mib=").nth(1).and_then(|rest| rest.split(' ').next());
    let logged: f64 = logged.expect("the sum is logged at startup").parse().expect("mebibytes");
    assert_eq!(logged, (sum / 1048576.0).ceil());
    assert!(shown["process_resident_memory_bytes"] < sum);
    assert!(shown["process_open_fds"] > 5.0);
    assert!(shown["process_start_time_seconds"] > 1.7e9);
}

/// Returns the bytes of the segments in a data directory.
fn bytes_of_segments(data: &Path) -> u64 {
    let entries = std::fs::read_dir(data).expect("a directory").map(|entry| entry.expect("an entry"));
    let segments = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".segment"));
    segments.map(|segment| segment.metadata().expect("it exists").len()).sum()
}

/// Waits until `parallax_log_bytes` is the size of the segments: an idle writer still appends a mark. Returns all samples.
fn wait_for_log_bytes(server: &Server, data: &Path) -> BTreeMap<String, f64> {
    eventually("parallax_log_bytes is the size of the segments", || {
        let samples = metrics(server);
        (samples["parallax_log_bytes"] == bytes_of_segments(data) as f64).then_some(samples)
    })
}

#[test]
fn metrics_show_the_cpu_time_the_bytes_of_the_log_and_the_space_of_its_disk() {
    let snapshots = [("demo.snapshot", &*parallax::testing::cli::demo::compile_demo().1)];
    let data = temporary_directory();
    let flags = ["--segment-bytes", "65536"];
    let mut server = Server::start_with_data(data.path(), &snapshots, &flags);
    let before = metrics(&server);
    let body = format!(r#"{{"anonId":"v","event":"e","properties":{{"pad":"{}"}}}}"#, "p".repeat(20_000));
    for _ in 0..20 {
        assert_eq!(server.post("/v1/track?site=fjell", &[], body.as_bytes()).status, 200);
    }
    wait_for_sample(&server, "parallax_log_seq", 20.0);
    let after = wait_for_log_bytes(&server, data.path());
    assert!(after["parallax_log_segments"] > 3.0, "{after:?}");
    assert!(after["parallax_log_bytes"] > before["parallax_log_bytes"] + 20.0 * 20_000.0);
    let spent = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"];
    assert!(spent > 0.0 && spent < 60.0, "{spent}");
    let (size, free) = (after["parallax_disk_size_bytes"], after["parallax_disk_free_bytes"]);
    assert!(size > free && free > 0.0, "{free} of {size}");
    let space = rustix::fs::statvfs(data.path()).expect("it has a file system");
    assert_eq!(size, (space.f_blocks * space.f_frsize) as f64);
    // A restart counts the segments that it finds.
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let server = Server::start_with_data(data.path(), &snapshots, &flags);
    wait_for_log_bytes(&server, data.path());
}

#[test]
fn a_connection_that_times_out_is_counted() {
    let server = Server::start(&[], &["--timeout-head-ms", "200"]);
    let mut client = Client::to(server.edge);
    client.send(b"GET / HT");
    assert_eq!(client.response(false).status, 408);
    let shown = wait_for_sample(&server, "parallax_connections_total{event=\"timed_out\"}", 1.0);
    assert_eq!(shown["parallax_http_problems_total{code=\"timeout\"}"], 1.0);
}

#[test]
fn the_access_log_is_optional_and_names_no_visitor() {
    let snapshot = parallax::testing::cli::demo::compile_demo().1;
    let server = Server::start(&[("demo.snapshot", &snapshot)], &["--access-log", "--log-format", "json"]);
    let target = "/v1/resolve?trackingId=track_demo&route=/&anonId=secret-visitor&userAgent=secret-agent";
    let fields = [("Cookie", "anon_id=secret-cookie"), ("X-Forwarded-For", "192.0.2.99")];
    assert_eq!(server.get_with(target, &fields).status, 200);
    assert_eq!(server.get("/v1/resolve?site=secret%20site&route=/nowhere%3Fsecret%23secret").status, 404);
    assert_eq!(server.get("/unknown?secret").status, 404);
    let refused = format!("GET /refused/{}?secret HTTP/2.0\r\nHost: a\r\n\r\n", "x".repeat(300));
    let mut client = Client::to(server.edge);
    client.send(refused.as_bytes());
    assert_eq!(client.response(false).status, 505);
    let logged = eventually("both requests are logged", || {
        let log = server.log();
        let lines: Vec<serde_json::Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .filter(|line: &serde_json::Value| line["fields"]["message"] == "request answered")
            .collect();
        (lines.len() == 2).then_some(lines)
    });
    assert_eq!(logged[1]["fields"]["route"], "/nowhere");
    let fields = &logged[0]["fields"];
    assert_eq!((&fields["method"], &fields["path"]), (&"GET".into(), &"/v1/resolve".into()));
    assert_eq!((&fields["site"], &fields["route"]), (&"track_demo".into(), &"/".into()));
    assert_eq!(fields["status"], 200);
    assert!(fields["bytes"].as_u64() > Some(1_000) && fields["took_us"].is_u64());
    assert_eq!(logged[1]["fields"]["status"], 404);
    let cut = format!("\"path\":\"/refused/{}\"", "x".repeat(191));
    let log = eventually("the refused requests are logged", || {
        let log = server.log();
        (log.contains("\"path\":\"/unknown\",\"status\":404") && log.contains(&cut)).then_some(log)
    });
    assert!(!log.contains("secret") && !log.contains("192.0.2.99"), "{log}");
    let quiet = Server::demo();
    assert_eq!(quiet.get("/v1/routes?site=fjell").status, 200);
    assert!(!quiet.log().contains("request answered"), "without the flag no request is logged");
}

#[test]
fn damage_in_the_log_is_counted_and_logged() {
    let data = temporary_directory();
    let snapshots = [("demo.snapshot", &*parallax::testing::cli::demo::compile_demo().1)];
    let server = Server::start_with_data(data.path(), &snapshots, &[]);
    for _ in 0..3 {
        assert_eq!(server.post("/v1/track?site=fjell", &[], br#"{"anonId":"v","event":"e"}"#).status, 200);
    }
    wait_for_sample(&server, "parallax_log_damaged", 0.0);
    drop(server);
    let segment = data.path().join(segment_name(1));
    let mut bytes = std::fs::read(&segment).expect("the first segment");
    bytes[120] ^= 1;
    std::fs::write(&segment, bytes).expect("the damage is written");
    let server = Server::start_with_data(data.path(), &snapshots, &[]);
    wait_for_sample(&server, "parallax_log_damaged", 1.0);
    server.wait_for_log("lost seqs 1..=1");
    let logged = server.log();
    let logged =
        logged.lines().find(|line| line.contains("lost seqs 1..=1")).expect("a line names the damage");
    assert!(logged.contains("ERROR") && logged.contains(&segment_name(1)), "{logged}");
}
