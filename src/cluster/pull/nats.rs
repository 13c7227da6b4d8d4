//! A bucket in the object store of JetStream.
//!
//! A watch reports the newest state of each object, then each change: a put object, or a delete marker. Each object has the SHA-256 of
//! its content. After any error the watch begins again, and reports all objects again. An object store that is missing or empty then
//! reports nothing, so nothing is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

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
use super::{Removed, Source, SourceState};
use crate::checksum::FileHash;
use crate::cluster::connect::NatsSettings;

/// Time limit for an answer of JetStream, and between two parts of an object.
pub(in crate::cluster) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause in the reports of a watch after which the reported objects are compared with the directory. The first report of a bucket is
/// many objects at once.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
/// Bytes that are read at once. An object arrives in parts of 128 KiB.
const READ_BYTES: usize = 128 << 10;
/// Objects whose state is kept: files, and delete markers of old ones. Beyond it the bucket is refused, and must be created again.
const OBJECTS_MAX: usize = 20 * FILES_MAX;

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
    open: Option<(ObjectStore, Watch)>,
    objects: BTreeMap<String, Object>,
    is_changed: bool,
}

impl NatsSource {
    /// Creates the source. It connects when it is first read.
    pub(super) fn new(settings: NatsSettings, bucket: String) -> Self {
        Self { settings, bucket, client: None, open: None, objects: BTreeMap::new(), is_changed: false }
    }

    async fn open(&mut self) -> Result<(), String> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.client.insert(self.settings.connect().await?).clone(),
        };
        let store = open_store(&client, &self.bucket).await?;
        let watch = answer(store.watch_with_history()).await.map_err(|error| self.describe(&error))?;
        self.objects.clear();
        self.open = Some((store, watch));
        Ok(())
    }

    fn describe(&self, error: &str) -> String {
        format!("object store {}: {error}", self.bucket)
    }

    fn note(&mut self, info: ObjectInfo) -> Result<(), String> {
        let name = info.name.clone();
        let object = if info.deleted { Object::Deleted } else { Object::File(source_file(info)?) };
        self.objects.insert(name, object);
        self.is_changed = true;
        Ok(())
    }

    /// Notes the next report, for which it waits for at most `wait`. Returns whether there was one.
    async fn note_next(&mut self, wait: Duration) -> Result<bool, String> {
        let Some((_, watch)) = &mut self.open else { return Ok(false) };
        match timeout(wait, watch.next()).await {
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
        let Some((store, _)) = &self.open else { return Err(failed("the object store is not open")) };
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
pub(in crate::cluster) async fn open_store(client: &Client, bucket: &str) -> Result<ObjectStore, String> {
    let context = jetstream::new(client.clone());
    let opened = answer(context.get_object_store(bucket)).await;
    opened.map_err(|error| format!("cannot open the object store {bucket}: {error}"))
}

/// Waits for an answer of JetStream for a limited time.
pub(in crate::cluster) async fn answer<T, E: std::fmt::Display>(
    asked: impl IntoFuture<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(ANSWER_TIMEOUT, asked.into_future()).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())),
    }
}

/// Converts the description of an object.
///
/// # Errors
/// The object cannot be a snapshot.
pub(in crate::cluster) fn source_file(info: ObjectInfo) -> Result<SourceFile, String> {
    let digest = info.digest.as_deref().and_then(|digest| digest.strip_prefix("SHA-256="));
    let digest = digest.and_then(|digest| BASE64_URL_SAFE.decode(digest).ok());
    let Some(hash) = digest.and_then(|digest| digest.try_into().ok()).map(FileHash::Sha256) else {
        return Err(format!("{:?} has no SHA-256 digest", info.name));
    };
    let file = SourceFile { name: info.name, bytes: info.size as u64, hash };
    file.check().map_err(|error| error.to_string())?;
    Ok(file)
}
