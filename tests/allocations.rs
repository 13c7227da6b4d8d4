//! A GET allocates nothing once the connection's buffers exist (invariant 2), counted over the whole process.
//!
//! This is a separate test binary, because the counting allocator counts for everything in it. The server
//! runs in this process with two workers. The client allocates nothing either, so that every counted
//! allocation is the server's. The test sends every kind of GET on every connection, first to warm up, then
//! to count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::Permissions;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parallax::testing::config::{Ack, ByteSize, Config, DriverChoice, LogFormat, MemorySize, Timeouts};
use parallax::testing::limits::{READ_BUFFER_BYTES, SEGMENT_BYTES_DEFAULT};
use parallax::testing::server;
use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;

/// The system's allocator with a counter of allocations. It counts while `COUNTING` is set.
struct CountingAllocator;

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the last counted allocation, as a hint to its purpose.
static LAST_BYTES: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LAST_BYTES.store(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged. The counter only uses atomics.
unsafe impl GlobalAlloc for CountingAllocator {
    // SAFETY: the system's allocator has the same requirements for its caller.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the system's allocator has the same requirements for its caller.
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    // SAFETY: the system's allocator has the same requirements for its caller.
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SITE: [(&str, &str); 9] = [
    (
        "site.json",
        r#"{"site":"acme","trackingId":"track_acme","name":"Acme","timeZone":"Europe/Oslo","origins":["https://acme.example"],
            "hosts":["shop.example"]}"#,
    ),
    (
        "audiences.json",
        r#"{"german":{"when":{"locale":{"$regex":"^de"}}},"tagged":{"when":{"url.query.tag":{"$regex":"^[a-z]+[0-9]{2,}$"}}},
            "known":{"when":{"$and":[{"visitor.isReturning":true},{"traits.company.size":{"$gt":10}},{"events.Bought.count":1},
                {"pages./docs/*":{"$count":{"$gte":1,"within":"7d"}}},{"events.Bo*.last":{"$gt":"2026-01-01T00:00:00Z"}},
                {"now.at":{"$gt":"2026-01-01T00:00:00Z"}},{"firstTouch.source":"letter"}]}},
            "letter":{"when":{"$or":[{"lastTouch.source":"letter"},{"country":{"$in":["NO","SE"]}}]}}}"#,
    ),
    (
        "routes/index.json",
        r#"{"path":"/","layout":{"root":{"props":{"title":"Front"}},"zones":{
            "hero":{"default":[{"id":"a","type":"Hero","props":{"text":"FILLER"}}],
                "variants":{"de":[{"id":"b","type":"Hero","props":{"text":"FILLER"},"zones":{
                    "inner":{"default":[],"variants":{"x":[{"id":"c","type":"T","props":{}}]},
                        "rules":[{"audience":"tagged","variant":"x"}]}}}],"back":[]},
                "rules":[{"audience":"german","variant":"de"},{"when":{"device.type":"mobile"},"variant":"back"}]},
            "foot":{"default":[],"variants":{"known":[{"id":"e","type":"T","props":{}}]},
                "rules":[{"audience":"known","variant":"known"}]},
            "cta":{"default":[],"variants":{"b":[{"id":"d","type":"T","props":{}}]},
                "rules":[{"experiment":{"key":"cta","variants":["default","b"],"namespace":["n",0,0.9],"holdout":0.1}},
                    {"audience":"letter","variant":"b"}]}}}}"#,
    ),
    ("routes/blog.json", r#"{"path":"/blog/:slug/*","layout":{"root":{"props":{}},"zones":{}}}"#),
    ("routes/old.json", r#"{"path":"/old","redirect":{"to":"/","status":308}}"#),
    (
        "routes/gone.json",
        r#"{"path":"/gone/:slug/*","redirect":{"to":"/blog/:slug/*?from=:slug","status":308}}"#,
    ),
    (
        "queries.json",
        r#"{"posts":{"collection":"posts","params":{"kind":{"type":"string","optional":true},
            "from":{"type":"number","optional":true},"tag":{"type":"string","optional":true}},
            "where":{"kind":{"$param":"kind"},"n":{"$gte":{"$param":"from"}},"title":{"$regex":"^[a-z]"},
            "tags":{"$elemMatch":{"$gt":{"$param":"tag"}}}},"orderBy":["-n"],"limit":2}}"#,
    ),
    (
        "content/posts.json",
        r#"[{"id":"1","type":"post","fields":{"title":"FILLER","kind":"a","n":1,"tags":["x"]}},
            {"id":"2","type":"post","fields":{"title":"FILLER","kind":"a","n":2,"tags":["y"]}},
            {"id":"3","type":"post","fields":{"title":"FILLER","kind":"b","n":3,"tags":[]}}]"#,
    ),
    (
        "routes/post.json",
        r#"{"path":"/kind/:kind","layout":{"root":{"props":{}},"zones":{"main":[{"id":"q","type":"T","props":{},
            "query":{"id":"posts","params":{"kind":{"$route":"kind"},"from":1}}}]}}}"#,
    ),
];

/// Two keys of the site `signed`, which verifies user IDs.
const KEYS: &str = "signed ffffffffffffffffffffffffffffffff\nsigned 0123456789abcdef0123456789abcdef\n";

/// The hash of the user `u1` with the second key.
const SIGNED_USER: &str = "X-User-Hash: 39536bc0c20e6efcd22ec30bb96eec5aff9be6a37fe8e9db166b4cc950c94e7e\r\n";

/// Methods, targets and header fields. Each `#` becomes a number that no earlier request had.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("GET", "/v1/resolve?trackingId=track_acme&route=/&variants=hero:de,cta:b", ""),
    (
        "GET",
        "/v1/resolve?trackingId=track_acme&route=/&variants=hero:de,inner:x",
        "Accept-Encoding: gzip\r\n",
    ),
    ("GET", "/v1/resolve?site=acme&route=/&variants=nope:x,hero:nope", ""),
    ("GET", "/v1/resolve?site=acme&route=/&variants=hero:nope&strict=1", ""),
    (
        "GET",
        "/v1/resolve?site=acme&route=/&anonId=visitor-#",
        "Accept-Language: de-DE\r\nAccept-Encoding: gzip, br\r\n",
    ),
    (
        "GET",
        "/v1/resolve?site=acme&route=/&anonId=visitor-#&url=https://acme.example/p%3Ftag=abc#%26utm_source=letter",
        "",
    ),
    (
        "GET",
        "/v1/resolve?site=acme&route=/",
        "Cookie: a=b; anon_id=visitor-#\r\nX-Request-Id: mine-#\r\nX-Debug-Timing: 1\r\n",
    ),
    (
        "GET",
        "/v1/resolve?site=acme&route=/&locale=de",
        "User-Agent: Mozilla/5.0 (iPhone; # like Mac OS X) Safari/#\r\n",
    ),
    (
        "GET",
        "/v1/resolve?site=acme&route=/",
        "User-Agent: Googlebot/#\r\nReferer: https://acme.example/?tag=z#\r\n",
    ),
    ("GET", "/v1/resolve?site=acme&route=/", "Origin: https://acme.example\r\nX-Anon-Id: visitor-#\r\n"),
    ("GET", "/v1/resolve?site=acme&route=/", "Cookie: anon_id=%22visitor-#%22\r\n"),
    ("GET", "/v1/resolve?site=acme&route=/&userId=u1&override=hero:de,nope:x", ""),
    ("GET", "/v1/variants?site=acme&route=/&userId=u#&override=cta:b", ""),
    ("GET", "/v1/variants?site=signed&route=/&userId=u1", SIGNED_USER),
    ("GET", "/v1/resolve?site=signed&route=/&userId=u#", SIGNED_USER),
    ("GET", "/v1/resolve?site=signed&route=/&userId=u#", ""),
    ("GET", "/v1/resolve?site=acme&route=/&anonId=ana&personalize=0&v=#&v=1", "Sec-GPC: 1\r\n"),
    ("GET", "/v1/resolve?site=acme&route=/gone/%C3%A4-#/a%2Fb/c", ""),
    ("HEAD", "/v1/resolve?site=acme&route=/&variants=", ""),
    ("GET", "/v1/resolve?site=acme&route=/&variants=", "If-None-Match: *\r\n"),
    ("GET", "/v1/resolve?site=acme&route=/blog/%E2%82%AC-#/a%2Fb/c&variants=", ""),
    ("GET", "/v1/resolve?site=acme&route=/old", ""),
    ("GET", "/v1/resolve?site=acme&route=/nowhere-#", "Origin: https://stranger.example\r\n"),
    ("GET", "/v1/resolve?site=nobody-#&route=/", ""),
    ("GET", "/v1/resolve?site=acme&route=/&explain=1", ""),
    ("GET", "/v1/resolve?site=acme&route=/&now=2026-12-24T18:00:00Z", ""),
    ("GET", "/v1/nothing-#", ""),
    ("POST", "/v1/resolve", "Content-Length: 3\r\n\r\nabc"),
    ("OPTIONS", "/v1/resolve", "Origin: https://acme.example\r\nAccess-Control-Request-Method: GET\r\n"),
    ("GET", "/v1/variants?site=acme&route=/&anonId=visitor-#", "CF-IPCountry: NO\r\n"),
    ("GET", "/v1/variants?site=acme&route=/&anonId=ana", ""),
    (
        "GET",
        "/v1/resolve?site=acme&route=/&anonId=ana&url=https://acme.example/?n=#",
        "Accept-Encoding: gzip\r\n",
    ),
    ("GET", "/v1/variants?site=acme&route=/&anonId=ana&referrer=https://search.example/#", ""),
    ("GET", "/v1/variants?site=acme&route=/&include=combinations", ""),
    ("GET", "/v1/query?site=acme&query=posts", ""),
    ("GET", "/v1/query?site=acme&query=posts&params.kind=a", "Accept-Encoding: gzip\r\n"),
    ("GET", "/v1/query?site=acme&query=posts&params.kind=%61&params.from=1.5&params.tag=a+%23", ""),
    ("GET", "/v1/query?site=acme&query=posts&params.from=2&limit=1", "If-None-Match: *\r\n"),
    ("GET", "/v1/query?site=acme&query=posts&params.from=#&params.kind=none-#", ""),
    ("GET", "/v1/query?site=acme&query=posts&params.nope=#", ""),
    ("GET", "/v1/query?site=acme&query=posts&cursor=00", ""),
    ("GET", "/v1/query?site=acme&query=posts&limit=101", ""),
    ("GET", "/v1/query?site=acme&query=nope-#", ""),
    ("GET", "/v1/resolve?site=acme&route=/kind/a&variants=", "Accept-Encoding: gzip\r\n"),
    ("GET", "/v1/resolve?site=acme&route=/kind/none-#&variants=", ""),
    ("GET", "/v1/routes?site=acme", ""),
    ("GET", "/v1/routes?site=acme&include=variants&since=1&prefix=/b", ""),
    ("GET", "/v1/routes?site=acme&limit=1&cursor=00", ""),
    ("GET", "/v1/health?events=1", ""),
    ("GET", "/v1/openapi.json", ""),
    ("GET", "/v1/openapi.json", "If-None-Match: *\r\n"),
    ("GET", "/v1/openapi.json", "Accept-Encoding: gzip\r\n"),
    ("GET", "/v1/parallax.js?h=%30", ""),
    ("GET", "/v1/parallax.js", "Accept-Encoding: gzip\r\n"),
    ("GET", "/v1/problems/timeout", ""),
    ("HEAD", "/v1/problems/nothing", ""),
];

/// Duration of the count, at least. Workers have a tick once a second, and it is counted as well.
const COUNT_DURATION_MIN: Duration = Duration::from_millis(1200);

/// Time after which the log writer has marked the events as durable and is idle.
const SETTLE_DURATION: Duration = Duration::from_millis(1000);

/// Size of the response buffer, in bytes. It holds the largest response, the OpenAPI document.
const RESPONSE_BYTES: usize = 256 * 1024;

/// A keep-alive connection that reads and writes in fixed buffers.
struct Connection {
    stream: TcpStream,
    request: [u8; 2048],
    response: [u8; RESPONSE_BYTES],
    received: usize,
}

impl Connection {
    fn to(address: SocketAddr) -> Box<Self> {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("the timeout is set");
        stream.set_nodelay(true).expect("the option is set");
        Box::new(Self { stream, request: [0; 2048], response: [0; RESPONSE_BYTES], received: 0 })
    }

    fn send(&mut self, request: (&str, &str, &str), number: usize) {
        let length = self.write(request, number);
        self.stream.write_all(&self.request[..length]).expect("sent");
    }

    /// Writes a request into the buffer, with `number` in place of each `#`. Returns its length.
    fn write(&mut self, (method, target, fields): (&str, &str, &str), number: usize) -> usize {
        let mut out = &mut self.request[..];
        let parts = [method, " ", target, " HTTP/1.1\r\nHost: acme.example\r\n", fields];
        for text in parts.iter().flat_map(|part| part.split_inclusive('#')) {
            match text.strip_suffix('#') {
                Some(text) => write!(out, "{text}{number}").expect("it fits"),
                None => out.write_all(text.as_bytes()).expect("it fits"),
            }
        }
        if !fields.contains("\r\n\r\n") {
            out.write_all(b"\r\n").expect("it fits");
        }
        2048 - out.len()
    }

    /// Reads one response and returns its status.
    fn receive(&mut self, head_only: bool) -> u16 {
        loop {
            if let Some((status, length)) =
                parse_complete_response(&self.response[..self.received], head_only)
            {
                self.response.copy_within(length..self.received, 0);
                self.received -= length;
                return status;
            }
            let count = match self.stream.read(&mut self.response[self.received..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                received => received.expect("received"),
            };
            assert!(count > 0, "the connection was closed");
            self.received += count;
        }
    }
}

/// Returns status and length of the response at the start of `bytes`, or `None` if it is incomplete.
fn parse_complete_response(bytes: &[u8], head_only: bool) -> Option<(u16, usize)> {
    let head = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).expect("ASCII");
    let status = text[9..12].parse().expect("a status");
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let body = length.filter(|_| !head_only && status != 304).map_or(0, |l| l.parse().expect("digits"));
    (bytes.len() >= head + body).then_some((status, head + body))
}

/// Sends every request on every connection: first one by one, then all of them before the first response is
/// read.
fn send_all_requests(connections: &mut [Box<Connection>], number: &mut usize) -> usize {
    let before = *number;
    for connection in connections {
        for request in REQUESTS {
            *number += 1;
            connection.send(*request, *number);
            let status = connection.receive(request.0 == "HEAD");
            assert!(status < 500, "{status} for {}", request.1);
        }
        for request in REQUESTS {
            *number += 1;
            connection.send(*request, *number);
        }
        for request in REQUESTS {
            connection.receive(request.0 == "HEAD");
        }
    }
    *number - before
}

/// Makes each worker's output buffer as large as it will ever be. Responses to pipelined requests gather in
/// it up to a bound, and the kernel decides how many requests arrive in one read.
fn fill_output_buffers(connections: &mut [Box<Connection>]) {
    const LARGE: (&str, &str, &str) = ("GET", "/v1/openapi.json", "");
    for connection in connections {
        let mut burst = Vec::new();
        while burst.len() < READ_BUFFER_BYTES {
            let length = connection.write(LARGE, 0);
            burst.extend_from_slice(&connection.request[..length]);
        }
        connection.stream.write_all(&burst).expect("sent");
        for _ in burst.windows(4).filter(|w| *w == b"\r\n\r\n") {
            connection.receive(false);
        }
    }
}

/// Creates a known visitor, who gets other variants than an unknown one.
fn create_known_visitor(address: SocketAddr) {
    const EVENTS: &str = r#"{"batch":[
        {"type":"page","anonId":"ana","timestamp":1600000000000,"properties":{"url":"https://acme.example/?utm_source=letter"}},
        {"type":"page","anonId":"ana","properties":{"path":"/docs/start"}},{"type":"track","anonId":"ana","event":"Bought"},
        {"type":"identify","anonId":"ana","userId":"u1","traits":{"company":{"size":12}}}]}"#;
    let send = |head: &str, body: &str| {
        let mut stream = TcpStream::connect(address).expect("connects");
        let fields = format!("Host: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head} HTTP/1.1\r\n{fields}{body}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("received");
        answer
    };
    let receipt = send("POST /v1/batch?site=acme", EVENTS);
    assert!(receipt.contains("\"accepted\":4,"), "{receipt}");
    let decided = send("GET /v1/variants?site=acme&route=/&anonId=ana", "");
    assert!(decided.contains("foot:known"), "{decided}");
}

/// Compiles the site with this `site.json`.
fn compile_site(site: &str) -> Vec<u8> {
    let filler = "a text that is long enough to be worth compressing ".repeat(40);
    let texts: Vec<(&str, String)> =
        SITE.iter().map(|(path, text)| (*path, text.replace("FILLER", &filler))).collect();
    let texts = texts.iter().map(|(path, text)| (*path, text.as_str())).skip(1);
    let texts = std::iter::once(("site.json", site)).chain(texts);
    let files = Files::from_memory(texts.map(|(path, text)| (path, text.as_bytes())));
    let (source, diagnostics) = read(&files, &|_, _| {});
    let bytes = compile(&source, diagnostics, 2, &|_, _| {});
    bytes.unwrap_or_else(|diagnostics| panic!("{}", diagnostics.report(&files))).bytes
}

/// Starts a server with the site, and with a copy of it that verifies user IDs.
fn start(directory: &std::path::Path) -> SocketAddr {
    let snapshots = directory.join("snapshots");
    std::fs::create_dir(&snapshots).expect("the directory is created");
    let signed = SITE[0].1.replace("acme", "signed").replacen('{', r#"{"identity":{"verify":"signed"},"#, 1);
    for (name, site) in [("acme.snapshot", SITE[0].1), ("signed.snapshot", &signed)] {
        std::fs::write(snapshots.join(name), compile_site(site)).expect("written");
    }
    let keys = directory.join("keys");
    std::fs::write(&keys, KEYS).expect("written");
    std::fs::set_permissions(&keys, Permissions::from_mode(0o600)).expect("the mode is set");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let driver = match std::env::var("PARALLAX_DRIVER").as_deref() {
        Ok("epoll") => DriverChoice::Epoll,
        Ok("uring") => DriverChoice::Uring,
        _ => DriverChoice::Auto,
    };
    let long = Duration::from_secs(3600);
    let config = Config {
        tracking_id: Vec::new(),
        #[cfg(feature = "cluster")]
        cluster: Default::default(),
        snapshots: Some(snapshots),
        data: directory.join("data"),
        data_group: None,
        ack: Ack::Disk,
        segment_bytes: ByteSize(SEGMENT_BYTES_DEFAULT),
        retain_days: None,
        retain_bytes: None,
        audit_retain_days: 400,
        settings_digest: String::new(),
        listen: any,
        events_listen: None,
        admin: any,
        admin_token: None,
        access: Default::default(),
        identity_keys: Some(keys),
        visitor_keys: None,
        workers: Some(2),
        driver,
        busy_poll: Duration::ZERO,
        explain: false,
        is_dev: false,
        country_header: Some("cf-ipcountry".to_owned()),
        profiles_memory: MemorySize::Bytes(64 << 20),
        // The thread that looks for missing column files allocates once a second.
        insights_memory: Some(ByteSize(0)),
        checkpoint_bytes: ByteSize(256 << 20),
        // The scrub looks at the data directory once a minute, and allocates then.
        scrub_rate: ByteSize(0),
        snapshots_memory: Some(ByteSize(1 << 30)),
        connections: None,
        admin_connections: 8,
        connections_memory: Some(ByteSize(64 << 20)),
        bodies_memory: Some(ByteSize(64 << 20)),
        trusted_proxy: Vec::new(),
        rate_limit_per_ip: Some(1_000_000),
        rate_limit_per_site: Some(1_000_000),
        on_publish: None,
        on_publish_token: None,
        on_publish_timeout: long,
        log_format: LogFormat::Text,
        access_log: false,
        timeouts: Timeouts { head: long, body: long, idle: long, write: long },
        // No rescan happens while GETs are counted, because its allocations are not those of a GET.
        rescan_interval: long,
    };
    server::start(config, Vec::new()).expect("the server starts").addresses.listen
}

#[test]
fn a_get_allocates_nothing_once_its_connection_is_warm() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = start(directory.path());
    create_known_visitor(address);
    let created = Instant::now();
    // There are enough connections for both workers: the kernel spreads them.
    let mut connections: Vec<_> = (0..16).map(|_| Connection::to(address)).collect();
    let mut number = 0;
    send_all_requests(&mut connections, &mut number);
    while created.elapsed() < SETTLE_DURATION {
        send_all_requests(&mut connections, &mut number);
    }
    fill_output_buffers(&mut connections);
    let begun = Instant::now();
    COUNTING.store(true, Ordering::SeqCst);
    let mut requests = 0;
    while requests < 3000 || begun.elapsed() < COUNT_DURATION_MIN {
        requests += send_all_requests(&mut connections, &mut number);
    }
    COUNTING.store(false, Ordering::SeqCst);
    let (allocations, last) = (ALLOCATIONS.load(Ordering::SeqCst), LAST_BYTES.load(Ordering::SeqCst));
    assert_eq!(allocations, 0, "{requests} requests allocated; the last allocation had {last} bytes");
    // The counter itself works.
    COUNTING.store(true, Ordering::SeqCst);
    drop(std::hint::black_box(Box::new(number)));
    COUNTING.store(false, Ordering::SeqCst);
    assert_ne!(ALLOCATIONS.load(Ordering::SeqCst), 0);
}
