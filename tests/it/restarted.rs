//! A server that starts on the addresses of one that has just ended (R19). With io_uring the kernel releases
//! the listeners of a dead process some milliseconds late.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Client, Server, times};

const PAGE: &str = "/v1/variants?site=fjell&route=/";
/// A loopback address that no other test uses. On 127.0.0.1 a connection of another test could take the port
/// between the end and the start.
const OWN_ADDRESS: &str = "127.0.19.1:0";
/// Idle keep-alive connections of the server that ends.
const IDLE: usize = 10;
const LOAD_THREADS: usize = 4;

/// The end of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Killed,
    Stopped,
}

fn flags<'a>(driver: &'a str, [edge, admin]: &[&'a str; 2]) -> [&'a str; 6] {
    ["--driver", driver, "--listen", edge, "--admin", admin]
}

/// Sends GETs until the server is gone. It does not connect again: a connection to a port without a listener
/// can connect to itself, and would then use the port.
fn send_load(mut stream: TcpStream) {
    let request = format!("GET {PAGE} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(8);
    let mut buffer = vec![0; 64 * 1024];
    while stream.write_all(request.as_bytes()).is_ok()
        && stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0)
    {}
}

/// Ends the server under load, and starts another one on its addresses at once.
fn restart(mut server: Server, driver: &str, end: End) -> Server {
    let addresses = [server.edge.to_string(), server.admin.to_string()];
    let mut idle: Vec<Client> = (0..IDLE).map(|_| Client::to(server.edge)).collect();
    for client in &mut idle {
        assert_eq!(client.request("GET", PAGE, &[]).status, 200);
    }
    thread::scope(|scope| {
        for _ in 0..LOAD_THREADS {
            let stream = TcpStream::connect(server.edge).expect("connected");
            scope.spawn(move || send_load(stream));
        }
        assert_eq!(server.get(PAGE).status, 200);
        if end == End::Stopped {
            server.signal("TERM");
            assert_eq!(server.exit_code(), 0);
        }
        server.restart(&flags(driver, &addresses.each_ref().map(String::as_str)))
    })
}

#[test]
fn a_start_right_after_the_end_of_a_server_under_load_succeeds() {
    for driver in ["auto", "epoll"] {
        let demo = parallax::testing::cli::demo::compile_demo().1;
        let mut server = Server::start(&[("demo.snapshot", &demo)], &flags(driver, &[OWN_ADDRESS; 2]));
        let mut slowest = Duration::ZERO;
        for round in 0..times(3, 50) {
            let end = if round % 2 == 0 { End::Killed } else { End::Stopped };
            let begun = Instant::now();
            server = restart(server, driver, end);
            slowest = slowest.max(begun.elapsed());
            assert_eq!(server.get(PAGE).status, 200, "{driver}, {end:?}");
            assert_eq!(server.admin_get("/readyz").status, 200);
        }
        eprintln!("driver {driver}: {} restarts, the slowest took {slowest:?}", times(3, 50));
    }
}

#[test]
fn a_start_waits_for_a_port_that_becomes_free() {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    for flag in ["--listen", "--events-listen", "--admin"] {
        let other = TcpListener::bind(OWN_ADDRESS).expect("a free port");
        let address = other.local_addr().expect("bound").to_string();
        let server = thread::scope(|scope| {
            scope.spawn(|| {
                thread::park_timeout(Duration::from_millis(300));
                drop(other);
            });
            Server::start(&[("demo.snapshot", &demo)], &[flag, &address])
        });
        assert_eq!(server.get(PAGE).status, 200, "{flag}");
    }
}
