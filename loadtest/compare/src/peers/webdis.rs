//! webdis in front of redis-server: an in-memory store with an HTTP interface that responds after a write is
//! on disk.

use std::net::SocketAddr;
use std::path::Path;

use loadtest::exchange::{Response, ask};
use loadtest::process::{Process, Server};
use loadtest::servers::{StartError, arguments, version};

use super::{PeerContext, PeerError, ReferenceResponses, ask_checked, free_address, wait_until_listening};

const NAME: &str = "webdis";
const STORE: &str = "redis-server";
const INSTALL: &str = "apt-get install webdis redis-server";
/// Padding of a value. JSON may end with spaces.
const FILLER: u8 = b' ';
/// Connections from webdis to the store. With one, both need the fewest reads and writes. More are slower.
const POOL_CONNECTIONS: usize = 1;

/// Target that reads the page, with the media type of Parallax's response.
pub const PAGE_TARGET: &str = "/GET/page?type=application/json";
/// Target that appends an event to a list.
pub const EVENT_TARGET: &str = "/RPUSH/events";

/// Starts both servers, with an empty store.
pub fn start(context: &PeerContext) -> Result<Server, PeerError> {
    let (program, store) = (context.find(NAME, INSTALL)?, context.find(STORE, INSTALL)?);
    let version = format!("of {STORE} {}", version(&store, &["--version"]));
    let store_address = free_address()?;
    let store = start_store(context, &store, store_address)?;
    let address = free_address()?;
    let text = configuration(address.port(), store_address.port());
    let file = context.launch.write(NAME, "webdis.json", text)?;
    let mut process = context.launch.start(NAME, &program, &[file.into()])?;
    wait_until_listening(&mut process, address)?;
    Ok(Server { name: NAME, version, address, processes: vec![process, store] })
}

/// Starts the store. It syncs each append before it responds, and never rewrites its file during the
/// measurement.
fn start_store(context: &PeerContext, program: &Path, address: SocketAddr) -> Result<Process, PeerError> {
    let directory = context.launch.scratch_dir.join(STORE);
    // Otherwise the store would first read the file of an earlier run.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).map_err(|source| StartError::File { name: STORE, source })?;
    let port = address.port().to_string();
    let mut words = arguments(&["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "yes"]);
    words.extend(arguments(&["--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]));
    words.extend(arguments(&["--daemonize", "no", "--maxclients", "60000", "--dir"]));
    words.push(directory.into());
    let mut store = context.launch.start(STORE, program, &words)?;
    wait_until_listening(&mut store, address)?;
    Ok(store)
}

/// Stores Parallax's body, padded until the whole response is as long as Parallax's. Returns the padded body.
pub fn start_with_page(
    context: &PeerContext,
    reference: ReferenceResponses<'_>,
    get: &[u8],
) -> Result<(Server, Vec<u8>), PeerError> {
    let server = start(context)?;
    let mut body = reference.first_response().body().to_vec();
    store(&server, "/SET/page", &body)?;
    let unpadded = ask_checked(&server, get, &[&body])?;
    let room = reference.first_response().bytes.len().saturating_sub(unpadded.bytes.len());
    body.resize(body.len() + room, FILLER);
    store(&server, "/SET/page", &body)?;
    ask_checked(&server, get, &[&body])?;
    Ok((server, body))
}

fn store(server: &Server, target: &str, body: &[u8]) -> Result<(), PeerError> {
    let response = ask(server.address, &put(target, body)).and_then(Response::require_ok);
    response.map_err(|error| StartError::Failed { name: NAME, reason: error.to_string() })?;
    Ok(())
}

/// Returns a request whose body is the last argument of a command.
pub fn put(target: &str, argument: &[u8]) -> Vec<u8> {
    let length = argument.len();
    let head = format!(
        "PUT {target} HTTP/1.1\r\nHost: edge.example\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), argument].concat()
}

/// Returns a configuration with one thread, in the foreground, without a log.
fn configuration(port: u16, store: u16) -> String {
    let settings = serde_json::json!({
        "redis_host": "127.0.0.1", "redis_port": store, "http_host": "127.0.0.1", "http_port": port, "threads": 1,
        "pool_size": POOL_CONNECTIONS, "daemonize": false, "database": 0, "acl": [], "verbosity": 0, "logfile": "webdis-own.log",
    });
    settings.to_string()
}

/// Returns a request that reads.
pub fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\n\r\n").into_bytes()
}
