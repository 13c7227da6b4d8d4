//! Sockets that a service manager opens, keeps, and passes to each process of the server (sd_listen_fds(3)).
//!
//! The tests take the place of the service manager. They keep handles of the sockets, as it does.

mod load;

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use self::load::Load;
use crate::harness::{Client, Server, eventually, temporary_directory, times};
use crate::logged;

const PAGE: &str = "/v1/variants?site=fjell&route=/";
const EVENT: &[u8] = br#"{"trackingId":"track_demo","anonId":"v1","event":"Seen"}"#;
/// A loopback address that no other test uses, for tests that choose a port and bind it later.
const OWN_ADDRESS: &str = "127.0.42.1:0";

/// A script that moves up to two sockets from standard input and output to descriptors 3 and 4, and then becomes the program.
/// `LISTEN_PID` is the ID of the shell and so of the program.
const PASS_SOCKETS: &str = "exec 3<&0 4>&1 </dev/null >/dev/null; export LISTEN_PID=$$; exec \"$@\"";

/// A site, the directories of a server, and its flags, over several processes.
struct Host {
    directory: TempDir,
    flags: Vec<String>,
}

impl Host {
    fn new(flags: &[&str]) -> Self {
        let directory = temporary_directory();
        let snapshots = directory.path().join("snapshots");
        fs::create_dir(&snapshots).expect("created");
        let demo = parallax::testing::cli::demo::compile_demo().1;
        fs::write(snapshots.join("demo.snapshot"), demo).expect("written");
        Self { directory, flags: flags.iter().map(|flag| (*flag).to_owned()).collect() }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).expect("UTF-8")
    }

    /// Returns the command of a server that appends its log lines to a file.
    fn command(&self, starter: &[&str]) -> Command {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a file");
        let words = starter.iter().copied().chain([env!("CARGO_BIN_EXE_parallax"), "serve"]);
        let words: Vec<&str> = words.collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(&self.flags);
        command.arg("--snapshots").arg(self.directory.path().join("snapshots"));
        command.arg("--data").arg(self.data()).stderr(log);
        command
    }

    /// Starts a server with one or two sockets. `names` is `LISTEN_FDNAMES`, if it is set.
    fn start(&self, names: Option<&str>, mut sockets: Vec<OwnedFd>) -> Process {
        let mut command = self.command(&["/bin/sh", "-c", PASS_SOCKETS, "sh"]);
        command.env("LISTEN_FDS", sockets.len().to_string()).env_remove("LISTEN_FDNAMES");
        names.map(|names| command.env("LISTEN_FDNAMES", names));
        command.stdin(Stdio::from(sockets.remove(0)));
        command.stdout(sockets.pop().map_or_else(Stdio::null, Stdio::from));
        Process(command.spawn().expect("the server starts"))
    }
}

/// A server process. It is killed when its value is dropped.
struct Process(Child);

impl Process {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status();
        assert!(sent.expect("kill is there").success(), "a signal is sent");
    }

    fn exit_code(&mut self) -> i32 {
        let ended = eventually("the server ends", || self.0.try_wait().expect("its status is readable"));
        ended.code().expect("an exit code")
    }

    /// Stops the server as a service manager does.
    fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.exit_code(), 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Returns a handle of a socket, for a process.
fn handle(socket: &TcpListener) -> OwnedFd {
    socket.try_clone().expect("a descriptor").into()
}

/// Sockets of one address that share its port.
fn bound_with_shared_port(count: usize) -> (Vec<TcpListener>, SocketAddr) {
    let mut address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut sockets = Vec::new();
    for _ in 0..count {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_port(true).expect("a socket option is set");
        socket.bind(&address.into()).expect("bound");
        socket.listen(128).expect("listening");
        let listener = TcpListener::from(socket);
        address = listener.local_addr().expect("an address");
        sockets.push(listener);
    }
    (sockets, address)
}

#[test]
fn a_restart_under_load_refuses_no_connection_and_loses_no_request() {
    let (public, address) = bound();
    let (admin, admin_address) = bound();
    let (listen_flag, admin_flag) = (address.to_string(), admin_address.to_string());
    let host = Host::new(&["--listen", &listen_flag, "--admin", &admin_flag, "--workers", "2"]);
    let start = || host.start(Some("public:admin"), vec![handle(&public), handle(&admin)]);
    let restarts = times(3, 20);
    let load = Load::default();
    let mut slowest_restart = Duration::ZERO;
    thread::scope(|scope| {
        let _stop = load.start(scope, address, admin_address);
        let mut server = start();
        for restart in 0..restarts {
            let answered = load.answered();
            eventually("requests are answered", || (load.answered() > answered + 300).then_some(()));
            // The stop meets the load at another moment each time.
            thread::sleep(Duration::from_millis(restart as u64 * 37 % 300));
            let begun = Instant::now();
            server.stop();
            server = start();
            assert_eq!(Client::to(address).request("GET", PAGE, &[]).status, 200);
            slowest_restart = slowest_restart.max(begun.elapsed());
        }
        load.end();
        eventually("the clients have ended", || load.has_ended().then_some(()));
        server.stop();
    });
    eprintln!("{restarts} restarts, the slowest took {slowest_restart:?}; {load:?}");
    assert_eq!(load.failures(), Vec::<String>::new());
    let recorded: Vec<_> = logged::records(&host.data(), 0)
        .iter()
        .map(|record| record["messageId"].as_str().expect("an ID").to_owned())
        .collect();
    load.assert_all_recorded_once(&recorded);
    assert_eq!(host.log().matches("INFO stopped").count(), restarts + 1, "{}", host.log());
    assert!(!host.log().contains("stopped with open connections"), "{}", host.log());
}

#[test]
fn connections_wait_for_the_first_start_and_after_a_killed_process() {
    let (public, address) = bound();
    let listen = address.to_string();
    let host = Host::new(&["--listen", &listen, "--admin", "127.0.0.1:0"]);
    for end in ["KILL", "TERM"] {
        let mut waiting: Vec<Client> = (0..20).map(|_| Client::to(address)).collect();
        for client in &mut waiting {
            client.send(format!("GET {PAGE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        }
        let mut server = host.start(Some("public"), vec![handle(&public)]);
        for client in &mut waiting {
            assert_eq!(client.response(false).status, 200);
        }
        server.signal(end);
        let _ = eventually("the process ends", || server.0.try_wait().expect("its status is readable"));
    }
    assert!(host.log().contains("using passed sockets name=\"public\""), "{}", host.log());
}

/// Two sockets on three workers, and on one: each worker has a socket, and each socket a worker.
#[test]
fn every_socket_of_a_shared_port_is_served() {
    for workers in ["1", "2", "3"] {
        let (sockets, address) = bound_with_shared_port(2);
        let listen = address.to_string();
        let host = Host::new(&["--listen", &listen, "--admin", "127.0.0.1:0", "--workers", workers]);
        let server = host.start(Some("public:public"), sockets.iter().map(handle).collect());
        // The kernel chooses a socket by the port of the client: each one gets about half of them.
        let mut clients: Vec<Client> = (0..40).map(|_| Client::to(address)).collect();
        for client in &mut clients {
            assert_eq!(client.request("GET", PAGE, &[]).status, 200, "{workers} workers");
        }
        server.stop();
    }
}

#[test]
fn events_have_a_socket_of_their_own_if_they_have_an_address() {
    let ((public, address), (events, events_address)) = (bound(), bound());
    let (listen, events_listen) = (address.to_string(), events_address.to_string());
    let flags = ["--listen", &listen, "--events-listen", &events_listen, "--admin", "127.0.0.1:0"];
    let host = Host::new(&flags);
    let server = host.start(Some("events:public"), vec![handle(&events), handle(&public)]);
    assert_eq!(Client::to(events_address).post("/v1/track", &[], EVENT).status, 200);
    assert_eq!(Client::to(address).post("/v1/track", &[], EVENT).code(), "unknown_endpoint");
    assert_eq!(Client::to(address).request("GET", PAGE, &[]).status, 200);
    assert_eq!(Client::to(events_address).request("GET", PAGE, &[]).code(), "unknown_endpoint");
    server.stop();
}

/// Starts a server that must refuse the sockets, and returns its message.
fn refusal(flags: &[&str], names: Option<&str>, sockets: Vec<OwnedFd>) -> String {
    let host = Host::new(&[&["--admin", "127.0.0.1:0"], flags].concat());
    assert_eq!(host.start(names, sockets).exit_code(), 2, "{}", host.log());
    assert!(!host.data().exists(), "the start ends before it uses the data directory");
    host.log()
}

#[test]
fn a_socket_that_does_not_fit_the_settings_ends_the_start() {
    let (socket, address) = bound();
    let listen = address.to_string();
    let flags = ["--listen", listen.as_str()];
    let refused = |names, socket: OwnedFd| refusal(&flags, names, vec![socket]);

    for names in [None, Some("parallax.socket"), Some(""), Some("Public")] {
        let message = refused(names, handle(&socket));
        let name = names.unwrap_or("unknown");
        assert!(
            message.contains(&format!("the passed socket {name:?} on {address} has an unknown name")),
            "{message}"
        );
        assert!(message.contains("FileDescriptorName="), "{message}");
    }
    let message = refused(Some("public:admin"), handle(&socket));
    assert!(message.contains("LISTEN_FDNAMES has 2 names for the 1 passed sockets"), "{message}");
    let message = refused(Some("events"), handle(&socket));
    assert!(message.contains(&format!("needs --events-listen {address}")), "{message}");
}

#[test]
fn a_socket_on_another_address_ends_the_start() {
    let (socket, address) = bound();
    let refused = |listen| refusal(&["--listen", listen], Some("public"), vec![handle(&socket)]);
    for listen in ["127.0.0.1:1", "127.0.0.2:0", "[::1]:0"] {
        let message = refused(listen);
        let expected = format!("the passed socket \"public\" listens on {address}, but --listen is {listen}");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn a_descriptor_that_is_no_listening_tcp_socket_ends_the_start() {
    let directory = temporary_directory();
    let (listener, address) = bound();
    let listen = address.to_string();
    let closed = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let others: [(&str, OwnedFd); 5] = [
        ("UDP", UdpSocket::bind("127.0.0.1:0").expect("bound").into()),
        ("Unix", UnixListener::bind(directory.path().join("s")).expect("bound").into()),
        ("connected", TcpStream::connect(address).expect("connected").into()),
        ("not bound", closed.into()),
        ("a file", File::open("/dev/null").expect("opened").into()),
    ];
    for (kind, other) in others {
        let message = refusal(&["--listen", &listen], Some("public:public"), vec![handle(&listener), other]);
        assert!(
            message.contains("the passed socket \"public\" (descriptor 4) is not a listening TCP socket"),
            "{kind}: {message}"
        );
        assert!(message.contains("ListenStream="), "{kind}: {message}");
    }
}

#[test]
fn sockets_of_another_process_are_ignored() {
    let environment = ["env", "LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=nobody"];
    let demo = parallax::testing::cli::demo::compile_demo().1;
    let server = Server::start_through(&environment, &[("demo.snapshot", &demo)], &[]);
    assert_eq!(server.get(PAGE).status, 200);
}

/// Returns a free address, which a process binds later.
fn free_address() -> String {
    let listener = TcpListener::bind(OWN_ADDRESS).expect("bound");
    listener.local_addr().expect("an address").to_string()
}

fn is_installed(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    !matches!(status, Err(error) if error.kind() == io::ErrorKind::NotFound)
}

#[test]
fn systemd_passes_all_three_sockets() {
    if !is_installed("systemd-socket-activate") {
        eprintln!("skipped: systemd-socket-activate is not installed");
        return;
    }
    let [public, events, admin] = [(); 3].map(|()| free_address());
    let flags = ["--listen", &public, "--events-listen", &events, "--admin", &admin];
    let host = Host::new(&flags);
    let listen = ["-l", &public, "-l", &events, "-l", &admin, "--fdname=public:events:admin"];
    let starter = [&["systemd-socket-activate"], &listen[..]].concat();
    let process = Process(host.command(&starter).spawn().expect("it starts"));
    let address = |text: &String| text.parse::<SocketAddr>().expect("an address");
    // The first connection starts the server.
    eventually("the sockets listen", || TcpStream::connect(address(&public)).ok());
    assert_eq!(Client::to(address(&public)).request("GET", PAGE, &[]).status, 200, "{}", host.log());
    assert_eq!(Client::to(address(&events)).post("/v1/track", &[], EVENT).status, 200);
    let health = Command::new(env!("CARGO_BIN_EXE_parallax")).args(["health", "--admin", &admin]).output();
    assert!(health.expect("it runs").status.success());
    assert_eq!(host.log().matches("using passed sockets").count(), 3, "{}", host.log());
    process.stop();
}
