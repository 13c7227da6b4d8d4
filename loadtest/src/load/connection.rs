//! One connection of the load: its outstanding requests, and the responses in its bytes.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::framing::{ReadStep, ResponseReader};
use super::judge::ResponseJudge;

/// Timeout of connecting. A server on loopback that takes longer has a full backlog.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Connection {
    socket: Socket,
    reader: ResponseReader,
    /// Bytes of the current response, if it is to be checked.
    response_bytes: Vec<u8>,
    is_checked: bool,
    /// True if the server announced that it closes the connection.
    pub is_last: bool,
    /// Template of the next response.
    pub template: usize,
    /// Number of outstanding responses.
    pub awaited: usize,
    /// Start of the latency: the due time (open loop) or the time of sending (closed loop).
    pub latency_start_ns: u64,
    /// Time since which no response is outstanding, or 0.
    pub idle_since_ns: u64,
    /// Sent bytes of the current send.
    pub sent_bytes: usize,
    /// True if the ring receives for this connection.
    pub is_receiving: bool,
    /// True if it is being closed, to be opened again.
    pub is_closing: bool,
}

impl Connection {
    /// Connects. The first request is this template.
    pub fn open(address: SocketAddr, template: usize) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        socket.connect_timeout(&address.into(), CONNECT_TIMEOUT)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            reader: ResponseReader::default(),
            response_bytes: Vec::new(),
            is_checked: false,
            is_last: false,
            template,
            awaited: 0,
            latency_start_ns: 0,
            idle_since_ns: 0,
            sent_bytes: 0,
            is_receiving: false,
            is_closing: false,
        })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Shuts the socket down, so that the ring's operations on it end. An error means that the server closed
    /// it first.
    pub fn close(&mut self) {
        self.is_closing = true;
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Reads responses that were received at `now`. Bytes after a last response are an error. After a framing
    /// error the rest cannot be read.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        now: u64,
        templates: usize,
        judge: &mut ResponseJudge<'_>,
    ) -> Result<(), String> {
        judge.on_bytes(bytes.len(), now);
        while !bytes.is_empty() {
            if self.awaited == 0 || self.is_last {
                return Err("unexpected bytes after the last response".to_owned());
            }
            if self.reader.is_between() {
                self.is_checked = judge.should_check(self.template);
                self.response_bytes.clear();
            }
            let ReadStep { used, completed: ended } = self.reader.read(bytes)?;
            if self.is_checked {
                self.response_bytes.extend_from_slice(&bytes[..used]);
            }
            bytes = &bytes[used..];
            if let Some(response) = ended {
                let checked_bytes = self.is_checked.then_some(&self.response_bytes[..]);
                judge.on_response(self.template, response, checked_bytes, self.latency_start_ns, now);
                self.template = (self.template + 1) % templates;
                self.awaited -= 1;
                self.is_last = response.closes;
            }
        }
        Ok(())
    }
}
