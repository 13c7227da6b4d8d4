//! Changes of a source: `parallax publish` adds a snapshot, lists the snapshots, and removes one.
//!
//! A source keeps the newest versions of each site, two by default. The nodes have all of them, so the
//! version before is served as soon as the newest one is removed. A snapshot has the name
//! `SITE-VERSION.snapshot`.
//!
//! In a bucket and in a directory the list `current.json` is replaced after the snapshot is there. Snapshots
//! that leave the list stay beside it. In the object store of JetStream they are deleted, because the delete
//! marker is the removal.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::context::{Context, CreateObjectStoreError};
use async_nats::jetstream::object_store::{Config, ObjectMetadata, ObjectStore, PutError, PutErrorKind};
use async_nats::jetstream::stream::StorageType;
use futures_util::StreamExt;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::bucket::{self, open_bucket};
use super::jetstream::{ANSWER_TIMEOUT, answer, open_store, source_file};
use super::list::{self, FILES_MAX, LIST_NAME, ListError, SourceFile};
use crate::checksum::{self, FileHash};
use crate::config::cluster::{ConnectionFiles, SnapshotSource};
use crate::nats::connect::NatsSettings;
use crate::nats::leader;
use crate::storage;

/// Attempts to replace a list that other publications replace at the same time.
const REPLACE_ATTEMPTS: usize = 20;
/// Time limit for one snapshot to enter the object store: the largest one at 1 MB/s.
const PUT_TIMEOUT: Duration = Duration::from_secs(2_000);
/// Bytes of one message of an object. Each one waits until a majority of the servers has synced it, so larger
/// ones are faster: 128 KiB, the client's default, takes twice the time. It fits in the 1 MB that nats-server
/// accepts by default.
const CHUNK_BYTES: usize = 768 << 10;
/// Replicas of an object store that `publish` creates. A single NATS server refuses it, then there is one.
const REPLICAS: usize = 3;
/// Name of the file that concurrent publications into a directory lock.
const LOCK_NAME: &str = ".publish.lock";

/// A change of a source.
pub(crate) enum Change {
    /// Add a snapshot, and keep as many versions of its site.
    Add { snapshot: NewSnapshot, keep: usize },
    /// Remove the snapshot of this name.
    Remove(String),
    /// Change nothing.
    Nothing,
}

/// A verified snapshot that a source does not have yet.
pub(crate) struct NewSnapshot {
    /// The site ID.
    pub site: String,
    pub version: u64,
    pub bytes: Vec<u8>,
}

impl NewSnapshot {
    /// Returns its name in a source.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}.snapshot", self.site, self.version)
    }
}

/// The reason why a source was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error(
        "the source has version {newest} of the site already, so the nodes would not serve version {version}; compile with a higher version, or roll back with --remove"
    )]
    LowerVersion { version: u64, newest: u64 },
    #[error("the source has other content for {0}; compile with a higher version")]
    VersionTaken(String),
    #[error("the source has no {name}; it has {present}")]
    NotFound { name: String, present: String },
    #[error(
        "{0} is the only snapshot in the source. The nodes ignore an empty source, so removing it would not unpublish the site"
    )]
    OnlyFile(String),
    #[error(transparent)]
    List(#[from] ListError),
    #[error("{0}")]
    Failed(String),
}

impl From<String> for PublishError {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

/// Returns the version in the name of a snapshot, if it belongs to the site.
fn version_of(name: &str, site: &str) -> Option<u64> {
    let digits = name.strip_prefix(site)?.strip_prefix('-')?.strip_suffix(".snapshot")?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Adds a file to the list of a source. Returns the new list, or `None` if the source has the file already.
///
/// # Errors
/// The source has a higher version, or other content of the same name.
pub fn add(
    files: &[SourceFile],
    file: &SourceFile,
    site: &str,
    version: u64,
    kept_version_count: usize,
) -> Result<Option<Vec<SourceFile>>, PublishError> {
    if let Some(present) = files.iter().find(|listed| listed.name == file.name) {
        return if present == file { Ok(None) } else { Err(PublishError::VersionTaken(file.name.clone())) };
    }
    let mut versions: Vec<_> = files.iter().filter_map(|file| version_of(&file.name, site)).collect();
    versions.sort_unstable();
    if let Some(newest) = versions.last().copied().filter(|newest| *newest > version) {
        return Err(PublishError::LowerVersion { version, newest });
    }
    let oldest_kept =
        versions.len().checked_sub(kept_version_count.saturating_sub(1)).and_then(|at| versions.get(at));
    let is_kept = |file: &&SourceFile| {
        version_of(&file.name, site)
            .is_none_or(|version| oldest_kept.is_some_and(|oldest| version >= *oldest))
    };
    let fits = versions.len() < kept_version_count;
    let kept = files.iter().filter(|file| fits || is_kept(file)).cloned();
    let list: Vec<_> = kept.chain([file.clone()]).collect();
    file.check()?;
    if list.len() > FILES_MAX { Err(ListError::TooMany(list.len()).into()) } else { Ok(Some(list)) }
}

/// Removes a file from the list of a source.
///
/// # Errors
/// The source does not have the file, or no other one.
pub fn remove(files: &[SourceFile], name: &str) -> Result<Vec<SourceFile>, PublishError> {
    let rest: Vec<_> = files.iter().filter(|file| file.name != name).cloned().collect();
    if rest.len() == files.len() {
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        let present = if names.is_empty() { "no snapshot".to_owned() } else { names.join(", ") };
        return Err(PublishError::NotFound { name: name.to_owned(), present });
    }
    if rest.is_empty() { Err(PublishError::OnlyFile(name.to_owned())) } else { Ok(rest) }
}

impl Change {
    /// Returns the new list; `None` if nothing changes.
    fn apply(&self, files: &[SourceFile], hash: FileHash) -> Result<Option<Vec<SourceFile>>, PublishError> {
        match self {
            Self::Add { snapshot, keep } => {
                let new = SourceFile { name: snapshot.name(), bytes: snapshot.bytes.len() as u64, hash };
                add(files, &new, &snapshot.site, snapshot.version, *keep)
            }
            Self::Remove(name) => remove(files, name).map(Some),
            Self::Nothing => Ok(None),
        }
    }

    fn snapshot(&self) -> Option<&NewSnapshot> {
        match self {
            Self::Add { snapshot, .. } => Some(snapshot),
            Self::Remove(_) | Self::Nothing => None,
        }
    }

    fn blake3(&self) -> FileHash {
        FileHash::Blake3(checksum::digest(&[self.snapshot().map_or(&[][..], |snapshot| &snapshot.bytes)]))
    }

    fn sha256(&self) -> FileHash {
        FileHash::Sha256(checksum::sha256(self.snapshot().map_or(&[][..], |snapshot| &snapshot.bytes)))
    }
}

/// Changes a source. Returns the files that it has afterwards.
///
/// # Errors
/// The source refuses the change, or does not answer.
pub(crate) fn change_source(
    source: &SnapshotSource,
    connection_files: &ConnectionFiles,
    change: &Change,
) -> Result<Vec<SourceFile>, PublishError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the event loop: {error}"))?;
    match source {
        SnapshotSource::Directory(path) => change_directory(path, change),
        SnapshotSource::Http { .. } => Err(PublishError::Failed(
            "a web server's directory is changed on its disk; use --to file:///DIR/ on the machine of the web server".to_owned(),
        )),
        SnapshotSource::Bucket { bucket, prefix } => {
            runtime.block_on(change_bucket(bucket, prefix, connection_files, change))
        }
        SnapshotSource::Nats { servers, bucket } => {
            let settings = NatsSettings { servers: servers.clone(), name: "publish".to_owned(), files: connection_files.clone() };
            runtime.block_on(change_object_store(&settings, bucket, change))
        }
    }
}

fn parse_list(bytes: Option<&[u8]>) -> Result<Vec<SourceFile>, PublishError> {
    bytes.map_or(Ok(Vec::new()), |bytes| Ok(list::parse(bytes)?))
}

fn change_directory(directory: &Path, change: &Change) -> Result<Vec<SourceFile>, PublishError> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let lock_path = directory.join(LOCK_NAME);
    let lock = File::create(&lock_path).map_err(|error| failed(&lock_path, error))?;
    lock.lock().map_err(|error| failed(&lock_path, error))?;
    let list_path = directory.join(LIST_NAME);
    let bytes = match fs::read(&list_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        bytes => Some(bytes.map_err(|error| failed(&list_path, error))?),
    };
    let present = parse_list(bytes.as_deref())?;
    let Some(new) = change.apply(&present, change.blake3())? else { return Ok(present) };
    if let Some(snapshot) = change.snapshot() {
        let path = directory.join(snapshot.name());
        storage::write_atomic(&path, &snapshot.bytes).map_err(|error| failed(&path, error))?;
    }
    storage::write_atomic(&list_path, list::format(&new).as_bytes())
        .map_err(|error| failed(&list_path, error))?;
    Ok(new)
}

async fn change_bucket(
    bucket_name: &str,
    prefix: &str,
    connection_files: &ConnectionFiles,
    change: &Change,
) -> Result<Vec<SourceFile>, PublishError> {
    let store = open_bucket(bucket_name, connection_files)?;
    let hash = change.blake3();
    let mut is_uploaded = false;
    for _ in 0..REPLACE_ATTEMPTS {
        let read = bucket::load_list(&store, prefix).await?;
        let present = parse_list(read.bytes.as_deref())?;
        let Some(new) = change.apply(&present, hash)? else { return Ok(present) };
        if let Some(snapshot) = change.snapshot().filter(|_| !is_uploaded) {
            bucket::put_object(&store, prefix, &snapshot.name(), snapshot.bytes.clone()).await?;
            is_uploaded = true;
        }
        if bucket::replace_list(&store, prefix, read, list::format(&new)).await? {
            return Ok(new);
        }
    }
    Err(PublishError::Failed(format!(
        "{LIST_NAME} was replaced {REPLACE_ATTEMPTS} times meanwhile; try again"
    )))
}

async fn change_object_store(
    settings: &NatsSettings,
    bucket_name: &str,
    change: &Change,
) -> Result<Vec<SourceFile>, PublishError> {
    let client = settings.connect_once().await?;
    let store = match open_store(&client, bucket_name).await {
        Err(_) if change.snapshot().is_some() => {
            create_store(&jetstream::new(client.clone()), bucket_name).await?
        }
        store => store?,
    };
    let present = list_objects(&store).await?;
    let Some(new) = change.apply(&present, change.sha256())? else { return Ok(present) };
    if let Some(snapshot) = change.snapshot() {
        let chunk_bytes = CHUNK_BYTES.min(client.server_info().max_payload);
        let put = timeout(PUT_TIMEOUT, put_snapshot(&store, snapshot, chunk_bytes)).await;
        put.map_err(|_| format!("{}: not stored within {} s", snapshot.name(), PUT_TIMEOUT.as_secs()))??;
    }
    let kept: BTreeSet<_> = new.iter().map(|file| file.name.as_str()).collect();
    for file in present.iter().filter(|file| !kept.contains(file.name.as_str())) {
        answer(store.delete(&file.name)).await.map_err(|error| format!("{}: {error}", file.name))?;
    }
    Ok(new)
}

/// Stores a snapshot.
async fn put_snapshot(store: &ObjectStore, snapshot: &NewSnapshot, chunk_bytes: usize) -> Result<(), String> {
    let name = snapshot.name();
    // The client's error does not say whether a server has stored a part. Storing all parts again is safe.
    let is_refused = |error: &PutError| error.kind() == PutErrorKind::PublishChunks;
    let put = leader::until_stored(leader::pause, is_refused, async || {
        let metadata =
            ObjectMetadata { name: name.clone(), chunk_size: Some(chunk_bytes), ..ObjectMetadata::default() };
        store.put(metadata, &mut snapshot.bytes.as_slice()).await
    });
    put.await.map(drop).map_err(|error| format!("{name}: {error}"))
}

async fn create_store(context: &Context, bucket_name: &str) -> Result<ObjectStore, String> {
    let config = |num_replicas| Config {
        bucket: bucket_name.to_owned(),
        description: Some("snapshots of Parallax".to_owned()),
        storage: StorageType::File,
        num_replicas,
        ..Config::default()
    };
    let is_early = |error: &CreateObjectStoreError| {
        error.source().and_then(|source| source.downcast_ref()).is_some_and(leader::is_early)
    };
    let replicated = leader::until_stored(leader::pause, is_early, async || {
        context.create_object_store(config(REPLICAS)).await
    });
    if let Ok(store) = answer(replicated).await {
        return Ok(store);
    }
    let created = answer(context.create_object_store(config(1))).await;
    created.map_err(|error| format!("cannot open or create the object store {bucket_name}: {error}"))
}

/// Returns the snapshots in an object store. Other objects are left out.
async fn list_objects(store: &ObjectStore) -> Result<Vec<SourceFile>, String> {
    let mut objects = answer(store.list()).await?;
    let mut files = Vec::new();
    while let Some(info) = timeout(ANSWER_TIMEOUT, objects.next()).await.ok().flatten() {
        let info = info.map_err(|error| error.to_string())?;
        files.extend(source_file(info).ok());
    }
    Ok(files)
}
