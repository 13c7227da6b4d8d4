//! A server as a child process, for the lifetime of a value.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStderr, Command, Stdio};

/// A server process. Dropping it kills the process.
pub struct Child {
    pub process: std::process::Child,
    pub address: SocketAddr,
    /// Log lines up to the one with the address.
    output: String,
    /// The open pipe. The later log is a few lines, which fit into the pipe's buffer.
    _log: BufReader<ChildStderr>,
}

impl Child {
    /// Starts `command`, which logs its address on a line with `marker`.
    pub fn start(command: &mut Command, marker: &str) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().expect("the program exists");
        let mut log = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut output = String::new();
        let lines = log.by_ref().lines().map_while(Result::ok);
        let line = lines.inspect(|line| output += &format!("{line}\n")).find(|line| line.contains(marker));
        let address = line.and_then(|line| address(&line)).expect("an address");
        Self { process, address, output, _log: log }
    }

    /// Returns the value of the metric `name` of Parallax, which has no labels.
    pub fn metric(&self, name: &str) -> u64 {
        let admin = self.output.split("admin address").nth(1).and_then(address).expect("an address");
        let answer = ask(admin, format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n").as_bytes(), b"");
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

/// Sends a request on a new connection and returns the response. `head` has no empty line at its end.
pub fn ask(address: SocketAddr, head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(&[head, b"Connection: close\r\n\r\n", body].concat()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("received");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.escape_ascii());
    answer
}

/// Returns the address after the first `http://` of `text`.
fn address(text: &str) -> Option<SocketAddr> {
    text.split("http://").nth(1)?.split([' ', '"', '\n']).next()?.parse().ok()
}
