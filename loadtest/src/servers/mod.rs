//! The servers that are measured: each found, given its configuration, started on one processor, and asked once to see that it
//! answers what it should.
//!
//! In go the folder of the run and what Parallax answers; out comes a server under the name by which it is reported. What each is
//! told stays in the folder, so that a reader of the figures can see whether it was treated fairly. Those that send a fixed answer
//! send Parallax's body, and fields until the whole is as long as Parallax's answer.

pub mod floor;
pub mod h2o;
pub mod haproxy;
pub mod nginx;
pub mod parallax;
pub mod unleash;
pub mod webdis;
pub mod workerd;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::exchange::{Answer, ask};
use crate::process::{Process, ProcessError, Server, free_address};

/// A peer starts within seconds, or something is wrong with it.
const START_MAX: Duration = Duration::from_secs(30);
/// Where Debian keeps servers, which a user's PATH leaves out.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// Connections that a peer is to take: more than any comparison has, and within what a user may usually open.
const CONNECTIONS: usize = 4096;
/// Fields of Parallax's answer that a peer has of its own accord, or that are of one answer only.
const OWN_FIELDS: [&str; 6] =
    ["content-type", "content-length", "date", "connection", "etag", "x-request-id"];
/// What fills an answer up, and the least that it takes: a name, a colon, a space, a character, an end of line.
const FILLER: &str = "X-Fill";
const FILLER_BYTES_MIN: usize = FILLER.len() + 2 + 1 + 2;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{program} is not installed: {install}")]
    Missing { program: String, install: &'static str },
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{name}: {source}")]
    File { name: &'static str, source: io::Error },
    #[error("{name} does not answer as it should: {why}")]
    Answer { name: &'static str, why: String },
}

/// Where servers are started.
#[derive(Clone, Debug)]
pub struct Place {
    /// Takes their configuration and logs.
    pub folder: PathBuf,
    /// Takes what they write themselves; goes away with the run.
    pub scratch: PathBuf,
    pub processor: usize,
    /// Programs that are elsewhere than PATH says, by name.
    pub programs: Vec<(String, PathBuf)>,
}

impl Place {
    /// The program of that name.
    pub fn find(&self, program: &str, install: &'static str) -> Result<PathBuf, StartError> {
        if let Some((_, path)) = self.programs.iter().find(|(name, _)| name == program) {
            return Ok(path.clone());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
        let mut files = folders.map(|folder| folder.join(program));
        let found = files.find(|file| file.is_file());
        found.ok_or(StartError::Missing { program: program.to_owned(), install })
    }

    /// Writes a file into the folder.
    fn write(&self, server: &'static str, file: &str, text: impl AsRef<[u8]>) -> Result<PathBuf, StartError> {
        let path = self.folder.join(file);
        let written = std::fs::write(&path, text).map(|()| path);
        written.map_err(|source| StartError::File { name: server, source })
    }

    fn start(&self, name: &str, program: &Path, arguments: &[OsString]) -> Result<Process, ProcessError> {
        Process::start(name, program, arguments, &self.folder, self.processor)
    }
}

/// What a peer is to answer, and to what.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub request: &'a [u8],
    /// Parallax's: the first one's length is that of the peer's, whose bodies are to be among these.
    pub answers: &'a [Answer],
}

impl Asked<'_> {
    fn wanted(&self) -> &Answer {
        &self.answers[0]
    }

    /// What is asked for, without its query.
    fn path(&self) -> String {
        let target = self.request.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        String::from_utf8_lossy(path).into_owned()
    }

    /// Of Parallax's answer.
    fn content_type(&self) -> &str {
        self.wanted().field("content-type").unwrap_or("application/json")
    }
}

type Fields = Vec<(String, String)>;

/// Starts a server twice: bare, to see how much it says of its own accord, then with the fields that make its answer as long as
/// Parallax's.
fn of_same_length(
    asked: Asked<'_>,
    start: impl Fn(&Fields) -> Result<Server, StartError>,
) -> Result<Server, StartError> {
    let bodies: Vec<&[u8]> = asked.answers.iter().map(Answer::body).collect();
    let bare = checked(&start(&Fields::new())?, asked.request, &bodies)?;
    let server = start(&fields(asked.wanted(), &bare))?;
    checked(&server, asked.request, &bodies)?;
    Ok(server)
}

/// What a server answers, if it is a 200 with one of these bodies.
fn checked(server: &Server, request: &[u8], bodies: &[&[u8]]) -> Result<Answer, StartError> {
    let wrong = |why: String| StartError::Answer { name: server.name, why };
    let answer =
        ask(server.address, request).and_then(Answer::good).map_err(|error| wrong(error.to_string()))?;
    if bodies.contains(&answer.body()) {
        return Ok(answer);
    }
    let (is, expected) = (answer.body().len(), bodies[0].len());
    Err(wrong(format!("its body of {is} bytes is not the one of {expected} bytes that it was given")))
}

/// The fields of `wanted` that `bare` has not, as long as there is room, and one that fills the room that is left.
fn fields(wanted: &Answer, bare: &Answer) -> Fields {
    let mut room = wanted.bytes.len().saturating_sub(bare.bytes.len());
    let mut fields = Fields::new();
    for (name, value) in &wanted.fields {
        let bytes = name.len() + value.len() + ": \r\n".len();
        let is_own = OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own));
        if !is_own && bare.field(name).is_none() && bytes <= room {
            fields.push((name.clone(), value.clone()));
            room -= bytes;
        }
    }
    if room >= FILLER_BYTES_MIN {
        fields.push((FILLER.to_owned(), "x".repeat(room + 1 - FILLER_BYTES_MIN)));
    }
    fields
}

/// What a program says of its version: the first number with a dot or a dash in what it prints when given these arguments.
fn version(program: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return "unknown".to_owned() };
    let said = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&said);
    let mut words =
        text.split_whitespace().map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()));
    words.find(|word| word.contains(['.', '-'])).unwrap_or("unknown").to_owned()
}

/// Behind the first `http://` after `mark`.
fn address(said: &str, mark: &str) -> Option<SocketAddr> {
    let (_, behind) = said.split_once(mark)?.1.split_once("http://")?;
    behind.split(|character: char| character.is_whitespace()).next()?.parse().ok()
}

fn arguments(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::whole;

    fn answer(fields: &str) -> Answer {
        let head = format!("HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 0\r\n{fields}\r\n");
        whole(&mut head.into_bytes()).expect("a head").expect("it is whole")
    }

    #[test]
    fn an_answer_is_filled_up_to_the_length_wanted() {
        let wanted = answer("Cache-Control: no-store, private\r\nX-Version: 1\r\nVary: a\r\n");
        let cases = [
            ("", vec!["Cache-Control", "X-Version", "Vary"]),
            ("Server: s\r\n", vec!["Cache-Control", "Vary"]),
            ("vary: a\r\n", vec!["Cache-Control", "X-Version"]),
            ("vary: a and more of it\r\n", vec!["X-Version", "X-Fill"]),
        ];
        for (own, names) in cases {
            let bare = answer(own);
            let fields = fields(&wanted, &bare);
            assert_eq!(fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names, "{own}");
            let more: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
            let missing = wanted.bytes.len() - (bare.bytes.len() + more);
            assert!(missing < FILLER_BYTES_MIN, "{own}: {missing}");
        }
    }

    #[test]
    fn a_program_that_is_nowhere_is_named_with_what_installs_it() {
        let place = Place {
            folder: PathBuf::new(),
            scratch: PathBuf::new(),
            processor: 0,
            programs: vec![("a".into(), "/b".into())],
        };
        assert_eq!(place.find("a", "").expect("it is given"), PathBuf::from("/b"));
        let said = place.find("no-such-program", "apt-get install it").expect_err("none").to_string();
        assert_eq!(said, "no-such-program is not installed: apt-get install it");
    }

    #[test]
    fn every_peer_that_is_installed_sends_what_it_is_given_in_an_answer_as_long() {
        type Start = fn(&Place, Asked<'_>) -> Result<Server, StartError>;
        let peers: [(&str, Start); 5] = [
            ("nginx", nginx::start),
            ("h2o", h2o::start),
            ("haproxy", haproxy::start),
            ("workerd", workerd::start),
            ("webdis", |place, asked| {
                webdis::start_with_page(place, asked, asked.request).map(|(server, _)| server)
            }),
        ];
        let body = "{}".repeat(4096);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: public, max-age=0\r\nX-Version: 1\r\n";
        let text = format!(
            "{head}Surrogate-Key: {}\r\nContent-Length: {}\r\n\r\n{body}",
            "a".repeat(500),
            body.len()
        );
        let answers = [whole(&mut text.clone().into_bytes()).expect("a head").expect("it is whole")];
        for (name, start) in peers {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().to_owned();
            let place = Place { folder: path.clone(), scratch: path, processor: 0, programs: Vec::new() };
            let target = if name == "webdis" {
                webdis::PAGE_TARGET
            } else {
                "/v1/resolve?route=/a&country=SE&anonId=a"
            };
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n\r\n");
            let asked = Asked { request: request.as_bytes(), answers: &answers };
            match start(&place, asked) {
                Ok(server) => {
                    let answer = ask(server.address, asked.request).expect("an answer");
                    let missing = answers[0].bytes.len().abs_diff(answer.bytes.len());
                    assert!(missing < FILLER_BYTES_MIN, "{name}: {missing}");
                }
                Err(StartError::Missing { program, .. }) => eprintln!("skipped: there is no {program}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
