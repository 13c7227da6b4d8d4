//! webdis before redis-server: an in-memory store behind HTTP, which answers a write once the command is on disk.

use std::net::SocketAddr;
use std::path::Path;

use super::{Asked, Place, START_MAX, StartError, arguments, checked, free_address, version};
use crate::exchange::{Answer, ask};
use crate::process::{Process, Server};

const NAME: &str = "webdis";
const STORE: &str = "redis-server";
const INSTALL: &str = "apt-get install webdis redis-server";
/// What a value is filled up with; JSON may end in it.
const FILLER: u8 = b' ';
/// Connections to the store. One carries all commands, the fewer reads and writes for both; more are slower.
const POOL: usize = 1;

/// Where the page is read; the type is that of Parallax's.
pub const PAGE_TARGET: &str = "/GET/page?type=application/json";
/// Where an event goes: to the end of a list.
pub const EVENT_TARGET: &str = "/RPUSH/events";

/// Both, with nothing in them.
pub fn start(place: &Place) -> Result<Server, StartError> {
    let (program, store) = (place.find(NAME, INSTALL)?, place.find(STORE, INSTALL)?);
    let version = format!("of {STORE} {}", version(&store, &["--version"]));
    let store_address = free_address()?;
    let store = start_store(place, &store, store_address)?;
    let address = free_address()?;
    let text = configuration(address.port(), store_address.port());
    let file = place.write(NAME, "webdis.json", text)?;
    let mut process = place.start(NAME, &program, &[file.into()])?;
    process.listens(address, START_MAX)?;
    Ok(Server { name: NAME, version, address, processes: vec![process, store] })
}

/// An append to its file is on disk before it is answered; it never begins to rewrite that file while it is measured.
fn start_store(place: &Place, program: &Path, address: SocketAddr) -> Result<Process, StartError> {
    let folder = place.scratch.join(STORE);
    // What another run left there would be read first.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|source| StartError::File { name: STORE, source })?;
    let port = address.port().to_string();
    let mut words = arguments(&["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "yes"]);
    words.extend(arguments(&["--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]));
    words.extend(arguments(&["--daemonize", "no", "--maxclients", "60000", "--dir"]));
    words.push(folder.into());
    let mut store = place.start(STORE, program, &words)?;
    store.listens(address, START_MAX)?;
    Ok(store)
}

/// A page of Parallax's body under a key, filled up until the whole answer is as long; and what that body is then.
pub fn start_with_page(place: &Place, asked: Asked<'_>, get: &[u8]) -> Result<(Server, Vec<u8>), StartError> {
    let server = start(place)?;
    let mut body = asked.wanted().body().to_vec();
    store(&server, "/SET/page", &body)?;
    let bare = checked(&server, get, &[&body])?;
    let room = asked.wanted().bytes.len().saturating_sub(bare.bytes.len());
    body.resize(body.len() + room, FILLER);
    store(&server, "/SET/page", &body)?;
    checked(&server, get, &[&body])?;
    Ok((server, body))
}

fn store(server: &Server, target: &str, body: &[u8]) -> Result<(), StartError> {
    let answer = ask(server.address, &put(target, body)).and_then(Answer::good);
    let wrong = |error: std::io::Error| StartError::Answer { name: NAME, why: error.to_string() };
    answer.map(drop).map_err(wrong)
}

/// A request that gives a command its last argument.
pub fn put(target: &str, argument: &[u8]) -> Vec<u8> {
    let length = argument.len();
    let head = format!(
        "PUT {target} HTTP/1.1\r\nHost: edge.example\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), argument].concat()
}

/// One thread, in the foreground, nothing logged.
fn configuration(port: u16, store: u16) -> String {
    let settings = serde_json::json!({
        "redis_host": "127.0.0.1", "redis_port": store, "http_host": "127.0.0.1", "http_port": port, "threads": 1,
        "pool_size": POOL, "daemonize": false, "database": 0, "acl": [], "verbosity": 0, "logfile": "webdis-own.log",
    });
    settings.to_string()
}

/// A request that reads.
pub fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\n\r\n").into_bytes()
}
