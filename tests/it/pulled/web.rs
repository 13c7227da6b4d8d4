//! A small web server on loopback with faults. It is a directory of a web server, and a bucket with the API of S3.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use parallax::testing::checksum::{FileHash, digest};
use parallax::testing::distribute::list::{SourceFile, format};

/// The answer to requests for one path.
#[derive(Clone)]
pub(super) enum Answer {
    Content(Vec<u8>),
    Status(u16),
    RedirectTo(String),
    /// The connection stays open, without an answer.
    Nothing,
    /// So many bytes of the content, then the connection stays open.
    Begin(Vec<u8>, usize),
    /// So many bytes of the content, then the connection is closed.
    Cut(Vec<u8>, usize),
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    /// Method and path of each request, and whether it had the header `Authorization`.
    requests: Vec<(String, String, bool)>,
    /// Number of conditional PUTs that fail, because another publication seems to be first.
    conflicts: usize,
    sends_no_tag: bool,
    /// Open connections of requests without an answer.
    open: Vec<TcpStream>,
}

/// A web server. Its threads end with the test process.
#[derive(Clone)]
pub(super) struct Web {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Web {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let web = Self { address: listener.local_addr().expect("an address"), state: Arc::default() };
        let server = web.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        web
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with the lock")
    }

    /// Returns the URL of the directory `snapshots`.
    pub(super) fn url(&self) -> String {
        format!("http://{}/snapshots/", self.address)
    }

    /// Returns the variables of a client of the bucket `snapshots`.
    pub(super) fn bucket_environment(&self) -> Vec<(String, String)> {
        let variables = [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_REGION", "eu-north-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "a secret key".to_owned()),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    pub(super) fn set(&self, name: &str, answer: Answer) {
        self.lock().answers.insert(format!("/snapshots/{name}"), answer);
    }

    pub(super) fn set_content(&self, name: &str, bytes: &[u8]) {
        self.set(name, Answer::Content(bytes.to_vec()));
    }

    /// Sets the list to these files, whose contents are not set.
    pub(super) fn set_list(&self, files: &[(&str, &[u8])]) {
        self.set_content("current.json", list(files).as_bytes());
    }

    /// Sets the list and the contents.
    pub(super) fn set_files(&self, files: &[(&str, &[u8])]) {
        files.iter().for_each(|(name, bytes)| self.set_content(name, bytes));
        self.set_list(files);
    }

    pub(super) fn send_no_tags(&self) {
        self.lock().sends_no_tag = true;
    }

    pub(super) fn set_conflicts(&self, count: usize) {
        self.lock().conflicts = count;
    }

    pub(super) fn content(&self, name: &str) -> Option<Vec<u8>> {
        match self.lock().answers.get(&format!("/snapshots/{name}")) {
            Some(Answer::Content(bytes)) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Returns the number of requests for a name, and forgets them.
    pub(super) fn take_requests(&self, name: &str) -> usize {
        let path = format!("/snapshots/{name}");
        let (own, others) = std::mem::take(&mut self.lock().requests)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, p, _)| *p == path);
        self.lock().requests = others;
        own.len()
    }

    /// Returns whether each request so far was signed.
    pub(super) fn all_are_signed(&self) -> bool {
        let state = self.lock();
        !state.requests.is_empty() && state.requests.iter().all(|(_, _, signed)| *signed)
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = Request::read(&mut reader) {
            let answer = self.answer(&request);
            let sends_no_tag = self.lock().sends_no_tag;
            match respond(reader.get_mut(), &request, answer, sends_no_tag) {
                Some(true) => {}
                Some(false) => return,
                None => {
                    let stream = reader.into_inner();
                    return self.lock().open.push(stream);
                }
            }
        }
    }

    /// Carries out a PUT, or returns the answer to a GET.
    fn answer(&self, request: &Request) -> Answer {
        let mut state = self.lock();
        let is_signed = request.field("authorization").is_some();
        state.requests.push((request.method.clone(), request.path.clone(), is_signed));
        if request.method == "GET" {
            return state.answers.get(&request.path).cloned().unwrap_or(Answer::Status(404));
        }
        let present = match state.answers.get(&request.path) {
            Some(Answer::Content(bytes)) => Some(tag(bytes)),
            _ => None,
        };
        let is_conditional = request.field("if-match").is_some() || request.field("if-none-match").is_some();
        if is_conditional && state.conflicts > 0 {
            state.conflicts -= 1;
            return Answer::Status(412);
        }
        if request.field("if-match").is_some_and(|tag| Some(tag) != present.as_deref())
            || request.field("if-none-match").is_some_and(|_| present.is_some())
        {
            return Answer::Status(412);
        }
        state.answers.insert(request.path.clone(), Answer::Content(request.body.clone()));
        Answer::Status(200)
    }
}

/// Returns the text of a list.
pub(super) fn list(files: &[(&str, &[u8])]) -> String {
    let file = |(name, bytes): &(&str, &[u8])| SourceFile {
        name: (*name).to_owned(),
        bytes: bytes.len() as u64,
        hash: FileHash::Blake3(digest(&[bytes])),
    };
    format(&files.iter().map(file).collect::<Vec<_>>())
}

fn tag(bytes: &[u8]) -> String {
    format!("\"{:02x?}\"", &digest(&[bytes])[..8]).replace([' ', ',', '[', ']'], "")
}

struct Request {
    method: String,
    path: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            (reader.read_line(&mut line).ok()? > 0).then_some(())?;
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let mut words = lines.first()?.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let fields = lines[1..].iter().filter_map(|line| line.split_once(": "));
        let fields: Vec<_> =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let mut request = Self { method, path, fields, body: Vec::new() };
        let length = request.field("content-length").map_or(0, |length| length.parse().expect("digits"));
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the requested part of the content, and the value of `Content-Range`.
    fn part<'b>(&self, bytes: &'b [u8]) -> (&'b [u8], Option<String>) {
        let range = self.field("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let Some((first, last)) = range else { return (bytes, None) };
        let first: usize = first.parse().expect("digits");
        let end = (last.parse::<usize>().expect("digits") + 1).min(bytes.len());
        let text = format!("bytes {first}-{}/{}", end - 1, bytes.len());
        (&bytes[first.min(end)..end], Some(text))
    }
}

/// Sends an answer. Returns whether the connection goes on; `None` if it stays open without more.
fn respond(stream: &mut TcpStream, request: &Request, answer: Answer, sends_no_tag: bool) -> Option<bool> {
    let (bytes, sent) = match answer {
        Answer::Nothing => return None,
        Answer::Status(status) => {
            let head = format!("HTTP/1.1 {status} Status\r\nETag: \"put\"\r\nContent-Length: 0\r\n\r\n");
            return Some(stream.write_all(head.as_bytes()).is_ok());
        }
        Answer::RedirectTo(url) => {
            let head = format!("HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
            return Some(stream.write_all(head.as_bytes()).is_ok());
        }
        Answer::Content(bytes) => (bytes, None),
        Answer::Begin(bytes, count) => (bytes, Some((count, None))),
        Answer::Cut(bytes, count) => (bytes, Some((count, Some(false)))),
    };
    let tag = tag(&bytes);
    if !sends_no_tag && request.field("if-none-match") == Some(&tag) {
        let head = format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n");
        return Some(stream.write_all(head.as_bytes()).is_ok());
    }
    let (part, range) = request.part(&bytes);
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let range = range.map_or_else(String::new, |range| format!("Content-Range: {range}\r\n"));
    let tag = if sends_no_tag { String::new() } else { format!("ETag: {tag}\r\n") };
    let modified = "Last-Modified: Tue, 24 Nov 2026 10:00:00 GMT";
    let head =
        format!("HTTP/1.1 {status}\r\n{tag}{range}{modified}\r\nContent-Length: {}\r\n\r\n", part.len());
    let (count, then) = sent.unwrap_or((part.len(), Some(true)));
    let is_sent =
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&part[..count.min(part.len())]));
    then.map(|goes_on| goes_on && is_sent.is_ok())
}
