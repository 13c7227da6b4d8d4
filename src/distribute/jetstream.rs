//! A bucket in the object store of JetStream.
//!
//! A watch reports the newest state of each object, then each change: a put object, or a delete marker. Each
//! object has the SHA-256 of its content. The watch begins again, and reports all objects again, after any
//! error and any new connection, and if the bucket was created again: the client would continue it at a
//! position that the new bucket may not have reached. An object store that is missing or empty reports
//! nothing, so nothing is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::jetstream;
use async_nats::jetstream::object_store::{ObjectInfo, ObjectStore, Watch};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE;
use futures_util::StreamExt;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::list::{FILES_MAX, ListError, SourceFile};
use super::mirror::Download;
use super::source::{Removed, Source, SourceState};
use crate::checksum::FileHash;
use crate::clock;
use crate::nats::connect::{NatsSettings, is_lost};
use crate::nats::thread::RenewalRequests;

/// Time limit for an answer of JetStream, and between two parts of an object.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause in the reports of a watch after which the reported objects are compared with the directory. The
/// first report of a bucket is many objects at once.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
/// Bytes that are read at once. An object arrives in parts of 128 KiB.
const READ_BYTES: usize = 128 << 10;
/// Objects whose state is kept: files, and delete markers of old ones. Beyond it the bucket is refused, and
/// must be created again.
const OBJECTS_MAX: usize = 20 * FILES_MAX;

/// Interval of the question whether the bucket was created again while the connection stayed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// An opened bucket.
struct Bucket {
    store: ObjectStore,
    watch: Watch,
    /// Number of connections that the client had made when the watch began.
    connection: u64,
    /// Time at which the bucket was created.
    created: String,
    next_check: Instant,
}

/// The last known state of an object.
enum Object {
    File(SourceFile),
    Deleted,
}

/// A bucket as the source of snapshots.
pub(super) struct NatsSource {
    settings: NatsSettings,
    bucket: String,
    client: Option<Client>,
    open: Option<Bucket>,
    objects: BTreeMap<String, Object>,
    is_changed: bool,
    renewals: RenewalRequests,
}

impl NatsSource {
    /// Creates the source. It connects when it is first read.
    pub(super) fn new(settings: NatsSettings, bucket_name: String, renewals: RenewalRequests) -> Self {
        settings.warn_about_plain_text();
        let objects = BTreeMap::new();
        Self { settings, bucket: bucket_name, client: None, open: None, objects, is_changed: false, renewals }
    }

    async fn open(&mut self) -> Result<(), String> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.client.insert(self.settings.connect().await?).clone(),
        };
        let connection = connections(&client);
        let store = open_store(&client, &self.bucket).await?;
        let created = created(&client, &self.bucket).await?;
        let watch = answer(store.watch_with_history()).await.map_err(|error| self.describe(&error))?;
        self.objects.clear();
        let next_check = clock::instant() + CHECK_INTERVAL;
        self.open = Some(Bucket { store, watch, connection, created, next_check });
        Ok(())
    }

    /// Connects with credentials and certificates as the files have them now. The present client stays if no
    /// server accepts them, or if a file is unusable.
    async fn renew(&mut self) -> Result<(), String> {
        let connected = self.settings.connect().await;
        let client = connected.map_err(|error| format!("{error}; the present connection stays"))?;
        self.client = Some(client);
        self.open = None;
        Ok(())
    }

    /// Gives the watch up if it may miss changes.
    async fn check_watch(&mut self) -> Result<(), String> {
        let (Some(client), Some(open)) = (&self.client, &mut self.open) else { return Ok(()) };
        if open.connection != connections(client) {
            self.open = None;
            return Ok(());
        }
        if clock::instant() < open.next_check {
            return Ok(());
        }
        open.next_check = clock::instant() + CHECK_INTERVAL;
        if created(client, &self.bucket).await? != open.created {
            self.open = None;
            return Err(self.describe("it was created again"));
        }
        Ok(())
    }

    fn describe(&self, error: &str) -> String {
        format!("object store {}: {error}", self.bucket)
    }

    fn note(&mut self, object_info: ObjectInfo) -> Result<(), String> {
        let name = object_info.name.clone();
        let object = match object_info.deleted {
            true => Object::Deleted,
            false => Object::File(source_file(object_info)?),
        };
        self.objects.insert(name, object);
        self.is_changed = true;
        Ok(())
    }

    /// Notes the next report, for which it waits for at most `wait`. Returns whether there was one.
    async fn note_next(&mut self, wait: Duration) -> Result<bool, String> {
        let Some(open) = &mut self.open else { return Ok(false) };
        match timeout(wait, open.watch.next()).await {
            Err(_) => Ok(false),
            Ok(Some(Ok(info))) => {
                // An object that is no snapshot is reported, and does not stop the others.
                if let Err(error) = self.note(info) {
                    tracing::warn!(bucket = self.bucket, error, "ignored an object");
                }
                Ok(true)
            }
            Ok(Some(Err(error))) => {
                self.open = None;
                Err(self.describe(&error.to_string()))
            }
            Ok(None) => {
                self.open = None;
                Err(self.describe("the watch ended"))
            }
        }
    }

    fn state(&self) -> Result<SourceState, String> {
        let files = self.objects.values().filter_map(|object| match object {
            Object::File(file) => Some(file.clone()),
            Object::Deleted => None,
        });
        let files: Vec<_> = files.collect();
        let deleted = self.objects.iter().filter(|(_, object)| matches!(object, Object::Deleted));
        let deleted: BTreeSet<_> = deleted.map(|(name, _)| name.clone()).collect();
        if files.len() > FILES_MAX {
            return Err(ListError::TooMany(files.len()).to_string());
        }
        if self.objects.len() > OBJECTS_MAX {
            return Err(self.describe("it has too many delete markers; copy its snapshots to a new bucket"));
        }
        Ok(SourceState { files, removed: Removed::Marked(deleted) })
    }
}

impl Source for NatsSource {
    async fn next(&mut self, wait: Duration) -> Result<Option<SourceState>, String> {
        if self.client.as_ref().is_some_and(is_lost) {
            self.client = None;
            self.open = None;
        }
        // A new client reads the files anyway.
        if self.renewals.take() && self.client.is_some() {
            self.renew().await?;
        }
        self.check_watch().await?;
        if self.open.is_none() {
            self.open().await?;
        }
        let mut pause = wait;
        while self.note_next(pause).await? {
            pause = SETTLE_PAUSE;
        }
        if !std::mem::take(&mut self.is_changed) {
            return Ok(None);
        }
        self.state().map(Some)
    }

    async fn fetch(&mut self, mut download: Download) -> Result<Download, String> {
        let name = download.source().name.clone();
        let failed = |error: &str| format!("{name}: {error}");
        let Some(Bucket { store, .. }) = &self.open else {
            return Err(failed("the object store is not open"));
        };
        let mut object = answer(store.get(&name)).await.map_err(|error| failed(&error))?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match answer(object.read(&mut buffer)).await.map_err(|error| failed(&error))? {
                0 => return Ok(download),
                count => download.write_all(&buffer[..count]).map_err(|error| failed(&error.to_string()))?,
            }
        }
    }
}

/// Opens a bucket of the object store.
///
/// # Errors
/// No server answers, or there is no such bucket.
pub(super) async fn open_store(client: &Client, bucket_name: &str) -> Result<ObjectStore, String> {
    let context = jetstream::new(client.clone());
    let opened = answer(context.get_object_store(bucket_name)).await;
    opened.map_err(|error| format!("cannot open the object store {bucket_name}: {error}"))
}

/// Returns the number of connections that a client has made.
fn connections(client: &Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}

/// Returns the time at which a bucket was created.
async fn created(client: &Client, bucket_name: &str) -> Result<String, String> {
    let context = jetstream::new(client.clone());
    let stream = answer(context.get_stream(format!("OBJ_{bucket_name}"))).await;
    let stream = stream.map_err(|error| format!("cannot open the object store {bucket_name}: {error}"))?;
    Ok(stream.cached_info().created.to_string())
}

/// Waits for an answer of JetStream for a limited time.
pub(super) async fn answer<T, E: std::fmt::Display>(
    request: impl IntoFuture<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(ANSWER_TIMEOUT, request.into_future()).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())),
    }
}

/// Converts the description of an object.
///
/// # Errors
/// The object cannot be a snapshot.
pub(super) fn source_file(object_info: ObjectInfo) -> Result<SourceFile, String> {
    let digest = object_info.digest.as_deref().and_then(|digest| digest.strip_prefix("SHA-256="));
    let digest = digest.and_then(|digest| BASE64_URL_SAFE.decode(digest).ok());
    let Some(hash) = digest.and_then(|digest| digest.try_into().ok()).map(FileHash::Sha256) else {
        return Err(format!("{:?} has no SHA-256 digest", object_info.name));
    };
    let file = SourceFile { name: object_info.name, bytes: object_info.size as u64, hash };
    file.check().map_err(|error| error.to_string())?;
    Ok(file)
}
