//! The peers: other servers that Parallax is compared with. Each is found, configured, started on one CPU, and
//! checked with one request.
//!
//! The configuration files and logs stay in the run's directory, so that a reader can see whether each server
//! was treated fairly. Servers of fixed responses send Parallax's body, with as many header fields as make
//! the whole response as long as Parallax's.

pub mod h2o;
pub mod haproxy;
pub mod nginx;
pub mod unleash;
pub mod webdis;
pub mod workerd;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use loadtest::exchange::{Response, ask};
use loadtest::process::{Process, ProcessError, Server};
use loadtest::servers::{LaunchContext, StartError};

use crate::programs::{MissingProgramError, find_program};

/// Timeout of a peer's start. It normally takes seconds at most.
const START_MAX: Duration = Duration::from_secs(30);
/// Connections that a peer must accept: more than any comparison opens, and within the usual limit of a user.
const CONNECTIONS: usize = 4096;
/// Fields of Parallax's response that are not copied: a peer sends its own, or they belong to one response
/// only.
const EXCLUDED_FIELDS: [&str; 6] =
    ["content-type", "content-length", "date", "connection", "etag", "x-request-id"];
/// Padding field, and its least size: name, colon, space, one character, end of line.
const FILLER: &str = "X-Fill";
const FILLER_BYTES_MIN: usize = FILLER.len() + 2 + 1 + 2;

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error(transparent)]
    Missing(#[from] MissingProgramError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("no free port: {0}")]
    Port(io::Error),
}

/// The launch context of a peer, and the paths of programs that are not in PATH.
#[derive(Clone, Debug)]
pub struct PeerContext {
    pub launch: LaunchContext,
    /// Names and paths.
    pub programs: Vec<(String, PathBuf)>,
}

impl PeerContext {
    /// Returns the path of a program.
    fn find(&self, program: &str, install: &'static str) -> Result<PathBuf, MissingProgramError> {
        find_program(&self.programs, program, install)
    }
}

/// Waits until the process accepts connections.
fn wait_until_listening(process: &mut Process, address: SocketAddr) -> Result<(), ProcessError> {
    process.wait_until(START_MAX, |_| TcpStream::connect(address).ok().map(drop))
}

/// Returns an unused address of this machine, for servers that cannot choose a port themselves.
fn free_address() -> Result<SocketAddr, PeerError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(PeerError::Port)?;
    listener.local_addr().map_err(PeerError::Port)
}

/// A request, and Parallax's responses to it, which a peer must reproduce.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceResponses<'a> {
    pub request: &'a [u8],
    /// Parallax's responses. The peer's response must be as long as the first, and its body must be one of
    /// theirs.
    pub responses: &'a [Response],
}

impl ReferenceResponses<'_> {
    fn first_response(&self) -> &Response {
        &self.responses[0]
    }

    /// Returns the path of the request target, without the query.
    fn path(&self) -> String {
        let target = self.request.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        String::from_utf8_lossy(path).into_owned()
    }

    /// Returns the media type of Parallax's response.
    fn content_type(&self) -> &str {
        self.first_response().field("content-type").unwrap_or("application/json")
    }
}

type HeaderFields = Vec<(String, String)>;

/// Starts a server twice: first without additional fields, to measure its own head, then with the fields that
/// make its response as long as Parallax's.
fn start_with_same_length(
    reference: ReferenceResponses<'_>,
    start: impl Fn(&HeaderFields) -> Result<Server, PeerError>,
) -> Result<Server, PeerError> {
    let bodies: Vec<&[u8]> = reference.responses.iter().map(Response::body).collect();
    let unpadded = ask_checked(&start(&HeaderFields::new())?, reference.request, &bodies)?;
    let server = start(&padding_fields(reference.first_response(), &unpadded))?;
    ask_checked(&server, reference.request, &bodies)?;
    Ok(server)
}

/// Sends the request and returns the response. Fails unless it is a 200 with one of these bodies.
fn ask_checked(server: &Server, request: &[u8], bodies: &[&[u8]]) -> Result<Response, PeerError> {
    let wrong = |reason: String| PeerError::from(StartError::Failed { name: server.name, reason });
    let response = ask(server.address, request)
        .and_then(Response::require_ok)
        .map_err(|error| wrong(error.to_string()))?;
    if bodies.contains(&response.body()) {
        return Ok(response);
    }
    let (is, expected) = (response.body().len(), bodies[0].len());
    Err(wrong(format!("the response body of {is} bytes differs from the given body of {expected} bytes")))
}

/// Returns the fields of `wanted` that `unpadded` lacks, as far as they fit, and a padding field for the
/// remaining bytes.
fn padding_fields(wanted: &Response, unpadded: &Response) -> HeaderFields {
    let mut room = wanted.bytes.len().saturating_sub(unpadded.bytes.len());
    let mut fields = HeaderFields::new();
    for (name, value) in &wanted.fields {
        let bytes = name.len() + value.len() + ": \r\n".len();
        let is_own = EXCLUDED_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own));
        if !is_own && unpadded.field(name).is_none() && bytes <= room {
            fields.push((name.clone(), value.clone()));
            room -= bytes;
        }
    }
    if room >= FILLER_BYTES_MIN {
        fields.push((FILLER.to_owned(), "x".repeat(room + 1 - FILLER_BYTES_MIN)));
    }
    fields
}

#[cfg(test)]
mod tests {
    use loadtest::exchange::take_response;

    use super::*;

    fn response(fields: &str) -> Response {
        let head = format!("HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 0\r\n{fields}\r\n");
        take_response(&mut head.into_bytes()).expect("a head").expect("it is whole")
    }

    #[test]
    fn a_response_is_padded_to_the_wanted_length() {
        let wanted = response("Cache-Control: no-store, private\r\nX-Version: 1\r\nVary: a\r\n");
        let cases = [
            ("", vec!["Cache-Control", "X-Version", "Vary"]),
            ("Server: s\r\n", vec!["Cache-Control", "Vary"]),
            ("vary: a\r\n", vec!["Cache-Control", "X-Version"]),
            ("vary: a and more of it\r\n", vec!["X-Version", "X-Fill"]),
        ];
        for (own, names) in cases {
            let unpadded = response(own);
            let fields = padding_fields(&wanted, &unpadded);
            assert_eq!(fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names, "{own}");
            let more: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
            let missing = wanted.bytes.len() - (unpadded.bytes.len() + more);
            assert!(missing < FILLER_BYTES_MIN, "{own}: {missing}");
        }
    }

    #[test]
    fn every_installed_peer_sends_the_given_body_in_a_response_of_the_same_length() {
        type Start = fn(&PeerContext, ReferenceResponses<'_>) -> Result<Server, PeerError>;
        let peers: [(&str, Start); 5] = [
            ("nginx", nginx::start),
            ("h2o", h2o::start),
            ("haproxy", haproxy::start),
            ("workerd", workerd::start),
            ("webdis", |context, reference| {
                webdis::start_with_page(context, reference, reference.request).map(|(server, _)| server)
            }),
        ];
        let body = "{}".repeat(4096);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: public, max-age=0\r\nX-Version: 1\r\n";
        let text = format!(
            "{head}Surrogate-Key: {}\r\nContent-Length: {}\r\n\r\n{body}",
            "a".repeat(500),
            body.len()
        );
        let responses =
            [take_response(&mut text.clone().into_bytes()).expect("a head").expect("it is whole")];
        for (name, start) in peers {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let path = directory.path().to_owned();
            let launch = LaunchContext { config_dir: path.clone(), scratch_dir: path, processor: 0 };
            let context = PeerContext { launch, programs: Vec::new() };
            let target = if name == "webdis" {
                webdis::PAGE_TARGET
            } else {
                "/v1/resolve?route=/a&country=SE&anonId=a"
            };
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n\r\n");
            let reference = ReferenceResponses { request: request.as_bytes(), responses: &responses };
            match start(&context, reference) {
                Ok(server) => {
                    let response = ask(server.address, reference.request).expect("an answer");
                    let missing = responses[0].bytes.len().abs_diff(response.bytes.len());
                    assert!(missing < FILLER_BYTES_MIN, "{name}: {missing}");
                }
                Err(PeerError::Missing(missing)) => eprintln!("skipped: {missing}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
