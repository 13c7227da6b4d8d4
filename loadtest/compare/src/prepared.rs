//! The prepared monoio server: the runtime of Parallax, and a fixed response that is copied for each request.
//!
//! Its distance to the bare server is the cost of the runtime. The distance from Parallax to it is the cost
//! of Parallax's own code. It has one thread and one task per connection. A connection reads, copies a
//! response per complete request into a pooled buffer, and sends all of them at once, like a connection of
//! Parallax. Of HTTP it knows as much as the bare server.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Args;
use io_uring::IoUring;
use loadtest::floor::RequestCounter;
use loadtest::process::Server;
use loadtest::servers::floor::start_fixed;
use loadtest::servers::{LaunchContext, StartError};
use loadtest::turns::RunError;
use monoio::buf::IoBufMut;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

/// Entries of the io_uring queue, as in Parallax.
const ENTRIES: u32 = 1024;
/// Size of a read buffer. Requests of the plans are shorter.
const READ_BUFFER_BYTES: usize = 4096;
/// Bytes per copy. Parallax copies a page in about as many pieces.
const PIECE_BYTES: usize = 1024;

#[derive(Args, Clone, Debug)]
pub struct PreparedArgs {
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// File with the complete response, including the status line.
    #[arg(long, value_name = "FILE")]
    pub response: PathBuf,
    /// Use epoll in place of io_uring.
    #[arg(long)]
    pub epoll: bool,
}

impl PreparedArgs {
    /// Serves until the process ends.
    pub fn serve(&self) -> Result<ExitCode, RunError> {
        run(self.listen, std::fs::read(&self.response)?.leak(), self.epoll)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Starts the prepared monoio server as a process, with this response. `driver` is the `--driver` of Parallax.
pub fn start(context: &LaunchContext, response: &[u8], driver: Option<&str>) -> Result<Server, StartError> {
    let flags: &[&str] = if driver == Some("epoll") { &["--epoll"] } else { &[] };
    start_fixed(context, "prepared", response, flags)
}

/// Listens, prints the address to standard error, and serves until the process ends.
pub fn run(listen: SocketAddr, response: &'static [u8], epoll: bool) -> io::Result<()> {
    let listener = std::net::TcpListener::bind(listen)?;
    socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
    listener.set_nonblocking(true)?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    serve(listener, response, epoll)
}

/// Serves until the process ends.
fn serve(listener: std::net::TcpListener, response: &'static [u8], epoll: bool) -> io::Result<()> {
    if epoll {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
        return runtime.block_on(accept(listener, response));
    }
    let mut ring = IoUring::builder();
    ring.setup_single_issuer().setup_coop_taskrun();
    let builder = RuntimeBuilder::<IoUringDriver>::new().with_entries(ENTRIES).uring_builder(ring);
    builder.enable_timer().build()?.block_on(accept(listener, response))
}

async fn accept(listener: std::net::TcpListener, response: &'static [u8]) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let pool = Rc::new(OutputPool::default());
    loop {
        let (stream, _) = listener.accept().await?;
        monoio::spawn(answer(stream, response, Rc::clone(&pool)));
    }
}

/// Output buffers that no connection uses.
#[derive(Default)]
struct OutputPool(RefCell<Vec<Vec<u8>>>);

/// Responds to the requests of a connection until the client closes it.
async fn answer(mut stream: TcpStream, response: &'static [u8], pool: Rc<OutputPool>) {
    let mut counter = RequestCounter::default();
    let mut input = Vec::with_capacity(READ_BUFFER_BYTES);
    loop {
        let (received, slice) = stream.read(input.slice_mut(..READ_BUFFER_BYTES)).await;
        input = slice.into_inner();
        let Ok(1..) = received else { return };
        let requests = counter.count(&input);
        input.clear();
        if requests == 0 {
            continue;
        }
        let mut output = pool.0.borrow_mut().pop().unwrap_or_default();
        for _ in 0..requests {
            output.reserve(response.len());
            response.chunks(PIECE_BYTES).for_each(|piece| output.extend_from_slice(piece));
        }
        let (sent, mut output) = stream.write_all(output).await;
        if sent.is_err() {
            return;
        }
        output.clear();
        pool.0.borrow_mut().push(output);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn each_driver_sends_the_response_once_for_each_request() {
        const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        let has_uring = IoUring::new(1).is_ok();
        for epoll in [false, true].into_iter().filter(|epoll| *epoll || has_uring) {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.set_nonblocking(true).expect("set");
            let mut stream =
                TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
            std::thread::spawn(move || serve(listener, RESPONSE, epoll));
            for (sent, responses) in
                [("GET / HTTP/1.1\r\n\r\n", 1), ("GET / HTTP/1.1\r\n\r", 0), ("\nGET\r\n\r\nGET\r\n\r\n", 3)]
            {
                stream.write_all(sent.as_bytes()).expect("sent");
                let mut received = vec![0; responses * RESPONSE.len()];
                stream.read_exact(&mut received).expect("answered");
                assert_eq!(received, RESPONSE.repeat(responses));
            }
        }
    }
}
