//! A running server and a client that speaks HTTP byte by byte.

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

use parallax::http::request::{Arrival, Surface};
use tempfile::TempDir;

pub use crate::fuzz::site::snapshot;

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A process that ends with its value.
struct Process(Child);

impl Process {
    fn exit_code(&mut self) -> i32 {
        let ended = eventually("the server ends", || self.0.try_wait().expect("it can be asked"));
        ended.code().expect("a code")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server process with a snapshots folder of its own. Ends with its value.
pub struct Server {
    process: Process,
    pub edge: SocketAddr,
    pub admin: SocketAddr,
    folder: Arc<TempDir>,
    data: Arc<Data>,
    said: Said,
}

/// Where a server keeps its log.
enum Data {
    Temporary(TempDir),
    Given(PathBuf),
}

impl Data {
    fn temporary() -> Arc<Self> {
        Arc::new(Self::Temporary(temporary_folder()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Given(folder) => folder,
        }
    }
}

impl Server {
    /// Serves `snapshots`, given as names and contents, with two workers and `flags` beside.
    pub fn start(snapshots: &[(&str, &[u8])], flags: &[&str]) -> Self {
        Self::over(&[], holding(snapshots), Data::temporary(), flags)
    }

    /// The same, with its data in a folder that is there.
    pub fn recording_to(data: &Path, snapshots: &[(&str, &[u8])], flags: &[&str]) -> Self {
        Self::over(&[], holding(snapshots), Arc::new(Data::Given(data.to_owned())), flags)
    }

    /// The same, started by another program, such as one that sets limits.
    pub fn under(starter: &[&str], snapshots: &[(&str, &[u8])]) -> Self {
        Self::over(starter, holding(snapshots), Data::temporary(), &[])
    }

    /// Ends the process without notice and starts another over the same folders.
    pub fn restart(self, flags: &[&str]) -> Self {
        let (folder, data) = (Arc::clone(&self.folder), Arc::clone(&self.data));
        drop(self);
        Self::over(&[], folder, data, flags)
    }

    fn over(starter: &[&str], folder: Arc<TempDir>, data: Arc<Data>, flags: &[&str]) -> Self {
        Self::begin(starter, folder, data, flags).serving()
    }

    /// The same as [`recording_to`](Self::recording_to), which the folder may keep from serving.
    pub fn starting_over(data: &Path, snapshots: &[(&str, &[u8])]) -> Starting {
        Self::begin(&[], holding(snapshots), Arc::new(Data::Given(data.to_owned())), &[])
    }

    fn begin(starter: &[&str], folder: Arc<TempDir>, data: Arc<Data>, flags: &[&str]) -> Starting {
        let words: Vec<&str> = starter.iter().copied().chain([env!("CARGO_BIN_EXE_parallax")]).collect();
        let log = tempfile::tempfile().expect("a file");
        let child = Command::new(words[0])
            .args(&words[1..])
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "2"])
            .arg("--snapshots")
            .arg(folder.path())
            .arg("--data")
            .arg(data.path())
            .args(flags)
            .stderr(log.try_clone().expect("a descriptor"))
            .spawn()
            .expect("the server starts");
        let said = Said(log);
        let process = Process(child);
        let admin = said.address("operator's address");
        Starting { process, admin, said, folder, data }
    }

    /// Serves the demo.
    pub fn demo() -> Self {
        Self::start(&[("demo.snapshot", &parallax::cli::demo::snapshot().1)], &[])
    }

    /// The snapshots folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Publishes as `compile` does: by a temporary name and a rename.
    pub fn publish(&self, name: &str, bytes: &[u8]) {
        parallax::storage::replace(&self.path(name), bytes).expect("published");
    }

    /// What was logged so far.
    pub fn log(&self) -> String {
        self.said.text()
    }

    /// One GET on a connection of its own, to Edge.
    pub fn get(&self, target: &str) -> Response {
        self.get_with(target, &[])
    }

    /// The same with header fields.
    pub fn get_with(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        Client::to(self.edge).request("GET", target, fields)
    }

    /// One POST on a connection of its own, to Edge.
    pub fn post(&self, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Response {
        Client::to(self.edge).post(target, fields, body)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends a signal, given by its name: "TERM".
    pub fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.process.0.id().to_string()]).status();
        assert!(sent.expect("kill is there").success(), "a signal is sent");
    }

    /// Its exit code, once it has ended.
    pub fn exit_code(&mut self) -> i32 {
        self.process.exit_code()
    }

    /// Its open descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.0.id())).expect("it runs").count()
    }

    /// The highest number of an open descriptor.
    pub fn highest_descriptor(&self) -> usize {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.process.0.id())).expect("it runs");
        let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers.max().expect("a descriptor")
    }

    /// KiB of memory that it has in use (VmRSS).
    pub fn resident_kib(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("digits")
    }

    /// One GET to the operator's address.
    pub fn admin_get(&self, target: &str) -> Response {
        Client::to(self.admin).request("GET", target, &[])
    }
}

/// A folder that holds these, given as names and contents.
fn holding(snapshots: &[(&str, &[u8])]) -> Arc<TempDir> {
    let folder = temporary_folder();
    for (name, bytes) in snapshots {
        std::fs::write(folder.path().join(name), bytes).expect("a snapshot is written");
    }
    Arc::new(folder)
}

/// A server process of which only the operator's address answers so far.
pub struct Starting {
    process: Process,
    pub admin: SocketAddr,
    said: Said,
    folder: Arc<TempDir>,
    data: Arc<Data>,
}

impl Starting {
    /// Its exit code, once it has ended.
    pub fn exit_code(&mut self) -> i32 {
        self.process.exit_code()
    }

    /// Waits until it serves.
    pub fn serving(self) -> Server {
        let Self { process, admin, said, folder, data } = self;
        let edge = said.address("serving");
        Server { process, edge, admin, folder, data, said }
    }
}

/// What a server logs: a file, so that what it logged before it answered is there when the answer is.
struct Said(File);

impl Said {
    fn text(&self) -> String {
        let mut bytes = vec![0; self.0.metadata().expect("it is open").len() as usize];
        self.0.read_exact_at(&mut bytes, 0).expect("nobody cuts it");
        String::from_utf8(bytes).expect("UTF-8")
    }

    /// The address on a line that holds `what`, once there is one.
    fn address(&self, what: &str) -> SocketAddr {
        let address = |line: &str| line.split("http://").nth(1)?.split([' ', '"']).next()?.parse().ok();
        eventually("the server says its addresses", || {
            self.text().lines().filter(|line| line.contains(what)).find_map(address)
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

    /// Waits so long for an answer from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).expect("a timeout is set");
    }

    /// The next response, if one begins to come in time.
    pub fn try_response(&mut self) -> Option<Response> {
        self.receive().then(|| self.response(false))
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Reads the next response; of HEAD only its head.
    pub fn response(&mut self, head_only: bool) -> Response {
        let head_end = loop {
            if let Some(at) = self.received.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(
                self.receive(),
                "the connection closed, or nothing came for long, before a head was whole"
            );
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
            assert!(
                self.receive(),
                "the connection closed, or nothing came for long, before a body was whole"
            );
        }
        response.body = self.received[head_end..head_end + length].to_vec();
        self.received.drain(..head_end + length);
        response
    }

    /// Everything that comes until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive() {}
        std::mem::take(&mut self.received)
    }

    /// Whether the server closes the connection without another byte.
    pub fn is_closed(&mut self) -> bool {
        !self.receive() && self.received.is_empty()
    }

    fn receive(&mut self) -> bool {
        let mut chunk = [0; 16 * 1024];
        let count = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A reset by the peer is an end as well.
                received => break received.unwrap_or(0),
            }
        };
        self.received.extend_from_slice(&chunk[..count]);
        count > 0
    }
}

/// A POST as bytes.
pub fn post(target: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{fields}\r\n");
    [head.as_bytes(), body].concat()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of the only field of this name; panics where there are two.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert!(values.next().is_none(), "{name} stands twice: {:?}", self.fields);
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

    /// The `code` of a problem.
    pub fn code(&self) -> String {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().expect("a code").to_owned()
    }
}

pub const LOCALHOST: &str = "127.0.0.1";

/// A request that has just come from `peer`.
pub fn arrival(peer: &str) -> Arrival {
    Arrival {
        peer: peer.parse().expect("an address"),
        surface: Surface::Public,
        at: parallax::clock::instant(),
    }
}

/// An empty folder that goes with its value; in memory where the machine has that, so that nobody else's
/// writing decides how long a sync takes here.
pub fn temporary_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a temporary folder")
}

/// The folder of public cases; None, and said so, where `PARALLAX_CASES` is not set.
pub fn cases() -> Option<PathBuf> {
    let folder = std::env::var_os("PARALLAX_CASES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: PARALLAX_CASES does not say where the public cases are");
    }
    folder
}

/// The example site in the authoring format, beside the public cases.
pub fn example_site() -> Option<PathBuf> {
    Some(cases()?.parent()?.join("example-site"))
}

/// Asks `address` on `clients` keep-alive connections, by `ask` again and again, while `act` runs. What
/// `act` gives, and how often was asked; a panic of `ask`, which a failed request is, fails the test.
pub fn under_load<T>(
    address: SocketAddr,
    clients: usize,
    ask: impl Fn(&mut Client) + Sync,
    act: impl FnOnce() -> T,
) -> (T, usize) {
    /// Ends the load even where `act` panics.
    struct Ending<'a>(&'a AtomicBool);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    let load = || {
        let (mut client, mut asked) = (Client::to(address), 0);
        while !is_over.load(Ordering::Relaxed) {
            ask(&mut client);
            asked += 1;
        }
        asked
    };
    thread::scope(|scope| {
        let loads: Vec<_> = (0..clients).map(|_| scope.spawn(load)).collect();
        let ending = Ending(&is_over);
        let acted = act();
        drop(ending);
        let asked = loads.into_iter().map(|load| load.join().expect("no request failed")).sum();
        (acted, asked)
    })
}

/// How often to do something: `quick` times, or `long` times where `PARALLAX_LONG` is 1.
pub fn times(quick: usize, long: usize) -> usize {
    if std::env::var_os("PARALLAX_LONG").is_some_and(|v| v == "1") { long } else { quick }
}

/// Asks again until `question` is answered; `PATIENCE` later the test fails with `what`.
pub fn eventually<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}
