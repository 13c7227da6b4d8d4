//! A directory with `current.json` and the snapshots beside it: one of a web server, or one of this machine.
//!
//! Each request of the web server is bounded in time: to connect, to begin the response, between two reads,
//! and as a whole. Redirects are followed, but not from https to http.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::list::{self, LIST_BYTES_MAX, LIST_NAME};
use super::mirror::Download;
use super::source::{Removed, Source, SourceState, blocking};
use crate::config::cluster::ConnectionFiles;
use crate::storage::{self, FileStamp};

/// Time limit for the connection, TLS included, for the head of a response, and between two reads of a body.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// Slowest transfer that is waited for, in bytes per second. A file at this rate would delay others for too long.
const TRANSFER_RATE_MIN: u64 = 64 << 10;
/// Redirects that are followed. More are a circle.
const REDIRECTS_MAX: u32 = 5;

/// Returns the time limit for a whole transfer of `body_bytes` bytes.
pub(super) fn transfer_timeout(body_bytes: u64) -> Duration {
    STEP_TIMEOUT * 2 + Duration::from_secs(body_bytes / TRANSFER_RATE_MIN)
}

/// Creates an HTTP client.
///
/// # Errors
/// `--cluster-ca` cannot be read or has no certificate.
pub(super) fn http_agent(
    connection_files: &ConnectionFiles,
    is_https_only: bool,
    redirects_max: u32,
) -> Result<Agent, String> {
    let tls = match &connection_files.cluster_ca {
        Some(path) => TlsConfig::builder().root_certs(read_certificates(path)?).build(),
        None => TlsConfig::default(),
    };
    let config = Agent::config_builder()
        .timeout_connect(Some(STEP_TIMEOUT))
        .timeout_recv_response(Some(STEP_TIMEOUT))
        .timeout_per_read(Some(STEP_TIMEOUT))
        .http_status_as_error(false)
        .https_only(is_https_only)
        .max_redirects(redirects_max)
        .proxy(None)
        .tls_config(tls)
        .user_agent(concat!("parallax/", env!("CARGO_PKG_VERSION")));
    Ok(config.build().into())
}

fn read_certificates(path: &Path) -> Result<RootCerts, String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("cannot read --cluster-ca {}: {error}", path.display());
    let text = fs::read(path).map_err(|error| failed(&error))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| failed(&error))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(failed(&"it has no certificate"));
    }
    Ok(RootCerts::Specific(Arc::new(certificates)))
}

/// A list with its tag, or `None` if it is the known one.
type ChangedList<T> = Option<(Vec<u8>, Option<T>)>;

/// The place of a directory. It reads and blocks.
pub(super) trait Directory: Clone + Send + 'static {
    /// Identifies the content of a list, so that an unchanged one is not read again.
    type Tag: Clone + Send + 'static;

    /// Returns the list, if it differs from the one with the tag.
    fn read_list(&self, known_tag: Option<&Self::Tag>) -> Result<ChangedList<Self::Tag>, String>;

    /// Opens a file.
    fn open(&self, name: &str, file_bytes: u64) -> Result<Box<dyn Read>, String>;
}

/// A directory of a web server.
#[derive(Clone)]
pub(super) struct WebDirectory {
    agent: Agent,
    url: String,
}

impl Directory for WebDirectory {
    /// The value of `ETag`.
    type Tag = String;

    fn read_list(&self, known_tag: Option<&String>) -> Result<ChangedList<String>, String> {
        let url = format!("{}{LIST_NAME}", self.url);
        // A cache on the way must ask the server.
        let mut request = self.agent.get(&url).header("Cache-Control", "no-cache");
        if let Some(tag) = known_tag {
            request = request.header("If-None-Match", tag);
        }
        let request = request.config().timeout_global(Some(transfer_timeout(LIST_BYTES_MAX as u64))).build();
        let mut response = request.call().map_err(|error| format!("{url}: {error}"))?;
        match response.status().as_u16() {
            200 => {}
            304 => return Ok(None),
            status => return Err(format!("{url}: the web server answered {status}")),
        }
        let tag = response.headers().get("ETag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        let body = response.body_mut().as_reader();
        body.take(LIST_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{url}: {error}"))?;
        Ok(Some((bytes, tag)))
    }

    fn open(&self, name: &str, file_bytes: u64) -> Result<Box<dyn Read>, String> {
        let url = format!("{}{name}", self.url);
        let request =
            self.agent.get(&url).config().timeout_global(Some(transfer_timeout(file_bytes))).build();
        let response = request.call().map_err(|error| format!("{url}: {error}"))?;
        match response.status().as_u16() {
            200 => Ok(Box::new(response.into_body().into_reader())),
            status => Err(format!("{url}: the web server answered {status}")),
        }
    }
}

/// A directory of this machine, such as a network file system.
#[derive(Clone)]
pub(super) struct LocalDirectory(PathBuf);

impl Directory for LocalDirectory {
    type Tag = FileStamp;

    fn read_list(&self, known_stamp: Option<&FileStamp>) -> Result<ChangedList<FileStamp>, String> {
        let path = self.0.join(LIST_NAME);
        let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
        let (file, stamp) = storage::open_regular(&path).map_err(failed)?;
        if known_stamp == Some(&stamp) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(LIST_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some((bytes, Some(stamp))))
    }

    fn open(&self, name: &str, _file_bytes: u64) -> Result<Box<dyn Read>, String> {
        let path = self.0.join(name);
        let (file, _): (File, _) = storage::open_regular(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Box::new(file))
    }
}

/// A source with a list that is read at intervals.
pub(super) struct DirectorySource<D: Directory> {
    directory: D,
    tag: Option<D::Tag>,
    last: Option<SourceState>,
}

impl DirectorySource<WebDirectory> {
    /// Creates the source of a web server's directory.
    ///
    /// # Errors
    /// `--cluster-ca` is unusable.
    pub(super) fn http(url: String, connection_files: &ConnectionFiles) -> Result<Self, String> {
        let agent = http_agent(connection_files, url.starts_with("https://"), REDIRECTS_MAX)?;
        Ok(Self { directory: WebDirectory { agent, url }, tag: None, last: None })
    }
}

impl DirectorySource<LocalDirectory> {
    /// Creates the source of a directory of this machine.
    pub(super) fn local(path: PathBuf) -> Self {
        Self { directory: LocalDirectory(path), tag: None, last: None }
    }
}

impl<D: Directory> Source for DirectorySource<D> {
    async fn next(&mut self, wait: Duration) -> Result<Option<SourceState>, String> {
        if self.last.is_some() {
            tokio::time::sleep(wait).await;
        }
        let directory = self.directory.clone();
        let tag = self.tag.clone();
        let answer = blocking(move || directory.read_list(tag.as_ref())).await;
        let Some((bytes, tag)) = answer? else { return Ok(None) };
        let state = list_state(&bytes)?;
        self.tag = tag;
        let is_known = self.last.as_ref() == Some(&state);
        self.last = Some(state.clone());
        Ok((!is_known).then_some(state))
    }

    async fn fetch(&mut self, mut download: Download) -> Result<Download, String> {
        let directory = self.directory.clone();
        blocking(move || {
            let name = download.source().name.clone();
            let bytes = download.source().bytes;
            let mut body = directory.open(&name, bytes)?;
            io::copy(&mut body, &mut download).map_err(|error| format!("{name}: {error}"))?;
            Ok(download)
        })
        .await
    }
}

/// Parses a list.
///
/// # Errors
/// It is not valid or has no files.
pub(super) fn list_state(bytes: &[u8]) -> Result<SourceState, String> {
    let files = list::parse(bytes).map_err(|error| error.to_string())?;
    Ok(SourceState { files, removed: Removed::Unlisted })
}
