//! A server process, from the line that says its address until the end of its value.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStderr, Command, Stdio};

/// A server process; it is killed with its value.
pub struct Child {
    pub process: std::process::Child,
    pub address: SocketAddr,
    /// What it logged up to its address.
    said: String,
    /// What it logs beside that is a few lines, which a pipe holds.
    _log: BufReader<ChildStderr>,
}

impl Child {
    /// `command` logs its address on a line with `marker`.
    pub fn start(command: &mut Command, marker: &str) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().expect("its program is there");
        let mut log = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut said = String::new();
        let lines = log.by_ref().lines().map_while(Result::ok);
        let line = lines.inspect(|line| said += &format!("{line}\n")).find(|line| line.contains(marker));
        let address = line.and_then(|line| address(&line)).expect("an address");
        Self { process, address, said, _log: log }
    }

    /// What Parallax counts under `name`, a metric without labels.
    pub fn metric(&self, name: &str) -> u64 {
        let operator = self.said.split("operator's address").nth(1).and_then(address).expect("an address");
        let answer = ask(operator, format!("GET /metrics HTTP/1.1\r\nHost: {operator}\r\n").as_bytes(), b"");
        let text = String::from_utf8(answer).expect("UTF-8");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The answer to a request, given as head without its empty line and body, on a connection of its own.
pub fn ask(address: SocketAddr, head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(&[head, b"Connection: close\r\n\r\n", body].concat()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("received");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.escape_ascii());
    answer
}

/// Behind the first `http://` of `text`.
fn address(text: &str) -> Option<SocketAddr> {
    text.split("http://").nth(1)?.split([' ', '"', '\n']).next()?.parse().ok()
}
