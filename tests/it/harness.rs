//! A running server and a client that speaks HTTP byte by byte.

mod data;
mod mounted_disk;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::http::request::{RequestMeta, Surface};
use tempfile::TempDir;

use self::data::Data;
pub use self::mounted_disk::MountedDisk;

pub use crate::fuzz::site::snapshot;

/// Time limit of a wait. It is longer than any step takes on a busy machine, and only a failing test reaches
/// it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A child process that is killed when its value is dropped.
struct Process(Child);

impl Process {
    fn exit_code(&mut self) -> i32 {
        let ended = eventually("the server ends", || self.0.try_wait().expect("its status is readable"));
        ended.code().expect("an exit code")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server process with its own snapshots directory. It is killed when its value is dropped.
pub struct Server {
    process: Process,
    pub edge: SocketAddr,
    pub admin: SocketAddr,
    snapshots: Arc<TempDir>,
    data: Arc<Data>,
    log: LogFile,
}

impl Server {
    /// Starts a server with `snapshots`, given as names and contents, with two workers and with `flags`.
    pub fn start(snapshots: &[(&str, &[u8])], flags: &[&str]) -> Self {
        Self::start_on(&[], create_snapshots_directory(snapshots), Data::temporary(), flags)
    }

    /// Starts a server on an existing data directory.
    pub fn start_with_data(data: &Path, snapshots: &[(&str, &[u8])], flags: &[&str]) -> Self {
        Self::start_on(
            &[],
            create_snapshots_directory(snapshots),
            Arc::new(Data::Given(data.to_owned())),
            flags,
        )
    }

    /// Starts a server through another program, such as one that sets limits.
    pub fn start_through(starter: &[&str], snapshots: &[(&str, &[u8])], flags: &[&str]) -> Self {
        Self::start_on(starter, create_snapshots_directory(snapshots), Data::temporary(), flags)
    }

    /// Kills the process and starts another one on the same directories.
    pub fn restart(self, flags: &[&str]) -> Self {
        let (snapshots, data) = (Arc::clone(&self.snapshots), Arc::clone(&self.data));
        drop(self);
        Self::start_on(&[], snapshots, data, flags)
    }

    fn start_on(starter: &[&str], snapshots: Arc<TempDir>, data: Arc<Data>, flags: &[&str]) -> Self {
        Self::begin(starter, snapshots, data, flags).wait_until_serving()
    }

    /// Begins to start a server on an existing data directory, whose contents may keep it from serving.
    pub fn begin_with_data(data: &Path, snapshots: &[(&str, &[u8])], flags: &[&str]) -> StartingServer {
        Self::begin(&[], create_snapshots_directory(snapshots), Arc::new(Data::Given(data.to_owned())), flags)
    }

    fn begin(starter: &[&str], snapshots: Arc<TempDir>, data: Arc<Data>, flags: &[&str]) -> StartingServer {
        let command: Vec<&str> = starter.iter().copied().chain([env!("CARGO_BIN_EXE_parallax")]).collect();
        let file = tempfile::tempfile().expect("a file");
        let defaults = [("--listen", "127.0.0.1:0"), ("--admin", "127.0.0.1:0"), ("--workers", "2")];
        let defaults = defaults.into_iter().filter(|(flag, _)| !flags.contains(flag));
        let child = Command::new(command[0])
            .args(&command[1..])
            .arg("serve")
            .args(defaults.flat_map(|(flag, value)| [flag, value]))
            .arg("--snapshots")
            .arg(snapshots.path())
            .arg("--data")
            .arg(data.path())
            .args(flags)
            .stderr(file.try_clone().expect("a descriptor"))
            .spawn()
            .expect("the server starts");
        let log = LogFile(file);
        let process = Process(child);
        let admin = log.address("admin address");
        StartingServer { process, admin, log, snapshots, data }
    }

    /// Starts a server with the demo site.
    pub fn demo() -> Self {
        Self::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], &[])
    }

    /// Returns the snapshots directory.
    pub fn snapshots_directory(&self) -> &Path {
        self.snapshots.path()
    }

    /// Returns the data directory.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.snapshots.path().join(name)
    }

    /// Publishes a snapshot as `compile` does: with a temporary name and a rename.
    pub fn publish(&self, name: &str, bytes: &[u8]) {
        parallax::testing::storage::write_atomic(&self.path(name), bytes).expect("published");
    }

    /// Waits until the log has a line with `text`. A thread of its own writes the lines, so a line may appear after the
    /// response or the metric that a test has seen.
    pub fn wait_for_log(&self, text: &str) {
        eventually(&format!("the log has a line with {text:?}"), || self.log().contains(text).then_some(()));
    }

    /// Returns the lines that the server has written so far. Lines that it has just logged may be missing.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Sends one GET to the public address, on a new connection.
    pub fn get(&self, target: &str) -> Response {
        self.get_with(target, &[])
    }

    /// Sends one GET with header fields to the public address, on a new connection.
    pub fn get_with(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        Client::to(self.edge).request("GET", target, fields)
    }

    /// Sends one POST to the public address, on a new connection.
    pub fn post(&self, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Response {
        Client::to(self.edge).post(target, fields, body)
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends a signal, given by its name without the prefix SIG: "TERM".
    pub fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.process.0.id().to_string()]).status();
        assert!(sent.expect("kill is there").success(), "a signal is sent");
    }

    /// Waits for the end of the process and returns its exit code.
    pub fn exit_code(&mut self) -> i32 {
        self.process.exit_code()
    }

    /// Returns the number of open descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.0.id())).expect("it runs").count()
    }

    /// Returns the highest open descriptor.
    pub fn highest_descriptor(&self) -> usize {
        let directory = std::fs::read_dir(format!("/proc/{}/fd", self.process.0.id())).expect("it runs");
        let numbers = directory.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers.max().expect("a descriptor")
    }

    /// Returns the resident memory of the process (VmRSS), in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("digits")
    }

    /// Sends one GET to the admin address, on a new connection.
    pub fn admin_get(&self, target: &str) -> Response {
        Client::to(self.admin).request("GET", target, &[])
    }
}

/// Creates a directory with these snapshots, given as names and contents.
fn create_snapshots_directory(snapshots: &[(&str, &[u8])]) -> Arc<TempDir> {
    let directory = temporary_directory();
    for (name, bytes) in snapshots {
        std::fs::write(directory.path().join(name), bytes).expect("a snapshot is written");
    }
    Arc::new(directory)
}

/// A server process that is starting. So far only its admin address answers.
pub struct StartingServer {
    process: Process,
    pub admin: SocketAddr,
    log: LogFile,
    snapshots: Arc<TempDir>,
    data: Arc<Data>,
}

impl StartingServer {
    /// Waits for the end of the process and returns its exit code.
    pub fn exit_code(&mut self) -> i32 {
        self.process.exit_code()
    }

    /// Waits until the server serves.
    pub fn wait_until_serving(self) -> Server {
        let Self { process, admin, log, snapshots, data } = self;
        let edge = log.address("serving");
        Server { process, edge, admin, snapshots, data, log }
    }
}

/// The log output of a server. It is a file, so that a line that was logged before a response is there when
/// the response arrives.
struct LogFile(File);

impl LogFile {
    fn text(&self) -> String {
        let mut bytes = vec![0; self.0.metadata().expect("it is open").len() as usize];
        self.0.read_exact_at(&mut bytes, 0).expect("the file only grows");
        String::from_utf8(bytes).expect("UTF-8")
    }

    /// Waits for a line that contains `text`, and returns its address.
    fn address(&self, text: &str) -> SocketAddr {
        let address = |line: &str| line.split("http://").nth(1)?.split([' ', '"']).next()?.parse().ok();
        eventually("the server logs its addresses", || {
            self.text().lines().filter(|line| line.contains(text)).find_map(address)
        })
    }
}

/// A keep-alive connection.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout is set");
        stream.set_nodelay(true).expect("a socket option is set");
        Self { stream, received: Vec::new() }
    }

    /// Sends a request and reads its response.
    pub fn request(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
        self.response(method == "HEAD")
    }

    /// Sends a POST with a body, and reads its response.
    pub fn post(&mut self, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Response {
        self.send(&post(target, fields, body));
        self.response(false)
    }

    /// Sets the time that reads wait for a response from now on.
    pub fn set_read_timeout(&mut self, timeout: Duration) {
        self.stream.set_read_timeout(Some(timeout)).expect("a timeout is set");
    }

    /// Reads the next response, or returns `None` if nothing arrives in time.
    pub fn try_response(&mut self) -> Option<Response> {
        self.receive().then(|| self.response(false))
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Reads the next response. With `head_only` it has no body, as after HEAD.
    pub fn response(&mut self, head_only: bool) -> Response {
        let head_end = loop {
            if let Some(at) = self.received.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.receive(), "the connection closed or timed out before the head was complete");
        };
        let head = String::from_utf8(self.received[..head_end].to_vec()).expect("an ASCII head");
        let mut lines = head.trim_end_matches("\r\n").split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let fields = lines.map(|line| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_ascii_lowercase(), value.to_owned())
        });
        let mut response =
            Response { status: status.expect("a status"), fields: fields.collect(), body: Vec::new() };
        let length = response.field("content-length").map_or(0, |l| l.parse().expect("digits"));
        let length = if head_only { 0 } else { length };
        while self.received.len() < head_end + length {
            assert!(self.receive(), "the connection closed or timed out before the body was complete");
        }
        response.body = self.received[head_end..head_end + length].to_vec();
        self.received.drain(..head_end + length);
        response
    }

    /// Returns everything that arrives until the server closes the connection.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        while self.receive() {}
        std::mem::take(&mut self.received)
    }

    /// Returns whether the server sends no further byte. A read timeout counts as closed.
    pub fn is_closed(&mut self) -> bool {
        !self.receive() && self.received.is_empty()
    }

    fn receive(&mut self) -> bool {
        let mut chunk = [0; 16 * 1024];
        let count = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A reset by the peer counts as an end. So does a timeout.
                received => break received.unwrap_or(0),
            }
        };
        self.received.extend_from_slice(&chunk[..count]);
        count > 0
    }
}

/// Returns the bytes of a POST.
pub fn post(target: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{fields}\r\n");
    [head.as_bytes(), body].concat()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The header fields, with names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header field. Panics if the field occurs twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert!(values.next().is_none(), "{name} occurs twice: {:?}", self.fields);
        value
    }

    pub fn body_contains(&self, text: &str) -> bool {
        self.body.windows(text.len()).any(|window| window == text.as_bytes())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {}", self.text()))
    }

    /// Returns the `code` of a problem.
    pub fn code(&self) -> String {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().expect("a code").to_owned()
    }
}

pub const LOCALHOST: &str = "127.0.0.1";

/// Returns the metadata of a request that `peer` sends now to the public address.
pub fn request_meta(peer: &str) -> RequestMeta {
    RequestMeta {
        connection: 0,
        peer: peer.parse().expect("an address"),
        surface: Surface::Public,
        received_at: parallax::testing::clock::instant(),
    }
}

/// Returns a copy of a directory of `tests/golden`.
pub fn copy_of_golden(name: &str) -> TempDir {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let copy = temporary_directory();
    for entry in std::fs::read_dir(golden).expect("the golden directory") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("copied");
    }
    copy
}

/// Creates an empty directory that is deleted when its value is dropped. It is in memory if the machine has
/// `/dev/shm`, so that writes of other processes do not decide how long a sync takes.
pub fn temporary_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    directory.expect("a temporary directory")
}

/// Copies the program in another process. A copy in this one could not be started while a child of another test still has the
/// descriptor that wrote it.
pub fn copy_program(target: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_parallax")).arg(target).status();
    assert!(copied.expect("cp runs").success());
}

/// Returns the directory of the public cases. Prints a note and returns `None` if `PARALLAX_CASES` is not
/// set.
pub fn cases() -> Option<PathBuf> {
    let directory = std::env::var_os("PARALLAX_CASES").map(PathBuf::from);
    if directory.is_none() {
        eprintln!("skipped: PARALLAX_CASES is not set");
    }
    directory
}

/// Returns the directory of the example site in the authoring format. It is beside the public cases.
pub fn example_site() -> Option<PathBuf> {
    Some(cases()?.parent()?.join("example-site"))
}

/// Calls `ask` again and again on `clients` keep-alive connections to `address` while `act` runs. Returns the
/// result of `act` and the number of calls. A panic of `ask`, such as after a failed request, fails the test.
pub fn under_load<T>(
    address: SocketAddr,
    clients: usize,
    ask: impl Fn(&mut Client) + Sync,
    act: impl FnOnce() -> T,
) -> (T, usize) {
    /// A guard that ends the load, even if `act` panics.
    struct StopOnDrop<'a>(&'a AtomicBool);
    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    let load = || {
        let (mut client, mut calls) = (Client::to(address), 0);
        while !is_over.load(Ordering::Relaxed) {
            ask(&mut client);
            calls += 1;
        }
        calls
    };
    thread::scope(|scope| {
        let loads: Vec<_> = (0..clients).map(|_| scope.spawn(load)).collect();
        let stop = StopOnDrop(&is_over);
        let result = act();
        drop(stop);
        let calls = loads.into_iter().map(|load| load.join().expect("no request failed")).sum();
        (result, calls)
    })
}

/// Returns a number of repetitions: `long` if `PARALLAX_LONG` is 1, otherwise `quick`.
pub fn times(quick: usize, long: usize) -> usize {
    if std::env::var_os("PARALLAX_LONG").is_some_and(|v| v == "1") { long } else { quick }
}

/// Calls `condition` until it returns a value. Fails the test with `description` after `PATIENCE`.
pub fn eventually<T>(description: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "timed out: {description}");
        thread::park_timeout(Duration::from_millis(5));
    }
}
