//! A bucket with the API of S3, through `object_store`.
//!
//! Endpoint, region and credentials come from the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`,
//! `AWS_ACCESS_KEY_ID` and so on), or from the machine. `object_store` signs the requests, and ureq sends
//! them: so there is one HTTP client and one TLS library.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientOptions, Error, GetOptions, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    RetryConfig, UpdateVersion,
};
use ureq::Agent;
use ureq::http::Response;

use super::http::{http_agent, list_state, transfer_timeout};
use super::list::{LIST_BYTES_MAX, LIST_NAME};
use super::mirror::Download;
use super::source::{Source, SourceState};
use crate::config::cluster::ConnectionFiles;

/// Bytes of one request of a file. They are in memory until they are written.
const RANGE_BYTES: u64 = 8 << 20;
/// Largest response, in bytes: a range and its head fit. A server that sends more is broken.
const RESPONSE_BYTES_MAX: u64 = RANGE_BYTES + (1 << 20);

/// Opens a bucket.
///
/// # Errors
/// The settings in the environment, or `--cluster-ca`, are unusable.
pub(super) fn open_bucket(name: &str, connection_files: &ConnectionFiles) -> Result<Arc<AmazonS3>, String> {
    let connector = UreqClient { agent: http_agent(connection_files, false, 0)? };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(name);
    // The puller reads again soon, and `publish` reports the error.
    builder = builder.with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
    builder = builder.with_allow_http(true).with_conditional_put(S3ConditionalPut::ETagMatch);
    let store = builder.with_http_connector(connector).build();
    store.map(Arc::new).map_err(|error| {
        format!("s3://{name}: {error}; set AWS_REGION, and AWS_ENDPOINT_URL if it is not AWS")
    })
}

/// A bucket as the source of snapshots.
pub(super) struct BucketSource {
    store: Arc<AmazonS3>,
    prefix: String,
    tag: Option<String>,
    last: Option<SourceState>,
}

impl BucketSource {
    /// Creates the source. The names of all objects begin with `prefix`.
    pub(super) fn new(store: Arc<AmazonS3>, prefix: &str) -> Self {
        Self { store, prefix: prefix.to_owned(), tag: None, last: None }
    }
}

impl Source for BucketSource {
    async fn next(&mut self, wait: Duration) -> Result<Option<SourceState>, String> {
        if self.last.is_some() {
            tokio::time::sleep(wait).await;
        }
        let Some((bytes, version)) = read_list(&self.store, &self.prefix, self.tag.clone()).await? else {
            return Ok(None);
        };
        let state = list_state(&bytes)?;
        self.tag = version.e_tag;
        let is_known = self.last.as_ref() == Some(&state);
        self.last = Some(state.clone());
        Ok((!is_known).then_some(state))
    }

    async fn fetch(&mut self, mut download: Download) -> Result<Download, String> {
        let name = download.source().name.clone();
        let bytes = download.source().bytes;
        let path = object_path(&self.prefix, &name);
        let mut at = 0;
        while at < bytes {
            let range = at..(at + RANGE_BYTES).min(bytes);
            let part =
                self.store.get_range(&path, range).await.map_err(|error| format!("{name}: {error}"))?;
            if part.is_empty() {
                return Err(format!("{name}: received {at} bytes, expected {bytes}"));
            }
            download.write_all(&part).map_err(|error| format!("{name}: {error}"))?;
            at += part.len() as u64;
        }
        Ok(download)
    }
}

/// Returns the path of an object.
fn object_path(prefix: &str, name: &str) -> ObjectPath {
    ObjectPath::from(format!("{prefix}/{name}"))
}

/// Reads the list of a bucket, if it differs from the one with the tag.
///
/// # Errors
/// The bucket does not answer, or has no list.
async fn read_list(
    store: &AmazonS3,
    prefix: &str,
    known_tag: Option<String>,
) -> Result<Option<(Vec<u8>, UpdateVersion)>, String> {
    let options = GetOptions { if_none_match: known_tag, ..GetOptions::default() };
    match store.get_opts(&object_path(prefix, LIST_NAME), options).await {
        Ok(found) => read_found(found).await.map(Some),
        Err(Error::NotModified { .. }) => Ok(None),
        Err(error) => Err(format!("{LIST_NAME}: {error}")),
    }
}

async fn read_found(object: GetResult) -> Result<(Vec<u8>, UpdateVersion), String> {
    let version = UpdateVersion { e_tag: object.meta.e_tag.clone(), version: object.meta.version.clone() };
    if object.meta.size > LIST_BYTES_MAX as u64 {
        return Err(super::list::ListError::TooLong.to_string());
    }
    let bytes = object.bytes().await.map_err(|error| format!("{LIST_NAME}: {error}"))?;
    Ok((bytes.to_vec(), version))
}

/// The list of a bucket for `publish`, and the version that it replaces.
pub(super) struct BucketList {
    /// The content; `None` if the bucket has no list.
    pub(super) bytes: Option<Vec<u8>>,
    version: Option<UpdateVersion>,
}

/// Reads the list of a bucket for [`replace_list`].
///
/// # Errors
/// The bucket does not answer.
pub(super) async fn load_list(store: &AmazonS3, prefix: &str) -> Result<BucketList, String> {
    match store.get_opts(&object_path(prefix, LIST_NAME), GetOptions::default()).await {
        Ok(found) => {
            let (bytes, version) = read_found(found).await?;
            Ok(BucketList { bytes: Some(bytes), version: Some(version) })
        }
        Err(Error::NotFound { .. }) => Ok(BucketList { bytes: None, version: None }),
        Err(error) => Err(format!("{LIST_NAME}: {error}")),
    }
}

/// Replaces the list that was read. Returns false if another publication has replaced it.
///
/// # Errors
/// The bucket refuses it.
pub(super) async fn replace_list(
    store: &AmazonS3,
    prefix: &str,
    list: BucketList,
    text: String,
) -> Result<bool, String> {
    let mode = list.version.map_or(PutMode::Create, PutMode::Update);
    let options = PutOptions { mode, ..PutOptions::default() };
    match store.put_opts(&object_path(prefix, LIST_NAME), text.into(), options).await {
        Ok(_) => Ok(true),
        Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(false),
        Err(error) => Err(format!("{LIST_NAME}: {error}")),
    }
}

/// Writes a snapshot into a bucket. An object with this name is replaced: an attempt that failed may have left one.
///
/// # Errors
/// The bucket refuses it.
pub(super) async fn put_object(
    store: &AmazonS3,
    prefix: &str,
    name: &str,
    bytes: Vec<u8>,
) -> Result<(), String> {
    let put = store.put(&object_path(prefix, name), bytes.into()).await;
    put.map(drop).map_err(|error| format!("{name}: {error}"))
}

/// Sends the requests of `object_store`, each on a thread that may block.
#[derive(Debug, Clone)]
struct UreqClient {
    agent: Agent,
}

impl HttpConnector for UreqClient {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for UreqClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let agent = self.agent.clone();
        let sent = tokio::task::spawn_blocking(move || {
            send(&agent, ureq::http::Request::from_parts(head, body.to_vec()))
        });
        sent.await.unwrap_or_else(|error| Err(HttpError::new(HttpErrorKind::Unknown, error)))
    }
}

fn send(agent: &Agent, request: ureq::http::Request<Vec<u8>>) -> Result<HttpResponse, HttpError> {
    let failed = |error: ureq::Error| {
        let kind = match &error {
            ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
            ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => HttpErrorKind::Connect,
            _ => HttpErrorKind::Request,
        };
        HttpError::new(kind, error)
    };
    let timeout = transfer_timeout(RESPONSE_BYTES_MAX.max(request.body().len() as u64));
    let request = agent.configure_request(request).timeout_global(Some(timeout)).build();
    let (head, body) = agent.run(request).map_err(failed)?.into_parts();
    let mut bytes = Vec::new();
    let body = body.into_with_config().limit(RESPONSE_BYTES_MAX).reader();
    let read = body.take(RESPONSE_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
    Ok(Response::from_parts(head, bytes.into()))
}
