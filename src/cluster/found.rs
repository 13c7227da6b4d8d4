//! Founds a cluster, or begins a new era: writes the checkpoint with which all nodes begin, then appends the
//! message of the era.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{fs, io};

use tokio::runtime::Builder;

use super::era::{Era, EraCheckpoint, EraId, FOLD_VERSION};
use super::identity::random_bits;
use super::message::{Encoder, Sender, dedup_key};
use super::nodes::Nodes;
use super::operate::{PresentEra, present_era};
use super::order::{ORDERS_PER_POSITION, Positions};
use super::positions::POSITIONS_FILE;
use super::producer::ProducerId;
use super::restore::{all_ties, newest_own};
use super::saved;
use super::secret::ClusterKeys;
use super::servers;
use super::state::{ProducerEntry, SavedState};
use super::stream::ClusterStream;
use crate::checksum::digest_file;
use crate::clock::SystemClock;
use crate::log::{DedupWindow, LockedLog, LogId, LogItem, LogReader, Records, SeqRange};
use crate::nats::connect::NatsSettings;
use crate::storage::access;
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::backup::OUTBOX_DIRECTORY;
use crate::visitors::checkpoint::CheckpointMetrics;
use crate::visitors::checkpoint::directory::{CheckpointDirectory, checkpoint_name};
use crate::visitors::checkpoint::reader::CheckpointReader;
use crate::visitors::checkpoint::restore::{LoadedFold, load_fold};
use crate::visitors::checkpoint::scheduler::{CheckpointState, Options, build_checkpointer};
use crate::visitors::live::ProfileTable;
use crate::{clock, storage};

/// The settings of a new era.
pub(crate) struct NewEra {
    /// The data directory of a stopped server or node. `None`: the era begins without visitors.
    pub(crate) from: Option<PathBuf>,
    /// The file to write.
    pub(crate) output: PathBuf,
    pub(crate) secret: [u8; 32],
    pub(crate) cluster: String,
    pub(crate) nats: NatsSettings,
    pub(crate) cost_max: u64,
    pub(crate) duplicates_max: u64,
    pub(crate) replicas: usize,
    pub(crate) max_bytes: i64,
}

/// The result of founding.
#[derive(Debug)]
pub(crate) struct Founded {
    pub(crate) era: String,
    pub(crate) position: u64,
    pub(crate) visitors: usize,
}

/// The table and the state before the era.
struct Beginning {
    profiles: ProfileTable,
    visitors: usize,
    log_id: LogId,
    /// The last seq of the log.
    seq: u64,
    /// True for the directory of a server that was alone.
    was_alone: bool,
    base_position: u64,
    clock_ms: i64,
    producers: BTreeMap<ProducerId, ProducerEntry>,
    nodes: Nodes,
    window: Vec<(u128, i64)>,
}

/// Begins an era. `confirm` gets the era that it replaces, and refuses by an error.
///
/// # Errors
/// The cause, and the remedy. The stream has no new era then.
pub(crate) fn begin(
    settings: &NewEra,
    confirm: &mut dyn FnMut(&PresentEra) -> Result<(), String>,
) -> Result<Founded, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start an event loop: {error}"))?;
    let keys = ClusterKeys::derive(&settings.secret);
    let (stream, created_ms) = runtime.block_on(async {
        let client = settings.nats.connect_once().await?;
        servers::check_version(&client.server_info())?;
        let stream = ClusterStream::new(client, &settings.cluster, Sender::Control);
        confirm(&present_era(&stream, directory_era(settings)?).await?)?;
        let created_ms = stream.create(&settings.cluster, settings.replicas, settings.max_bytes).await?;
        Ok::<_, String>((stream, created_ms))
    })?;
    let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
    let (beginning, _lock) = match &settings.from {
        Some(from) => {
            let lock_error = |error| format!("{}: {error}", from.display());
            let log = LockedLog::lock(from, Arc::clone(&disk)).map_err(lock_error)?;
            let range = log.seq_range().map_err(lock_error)?;
            (beginning(settings, from, &keys, &disk, &log, range)?, Some(log))
        }
        None => (Beginning::empty(&keys, settings.cost_max), None),
    };
    let name = settings.output.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| format!("{}: the path has no file name", settings.output.display()))?;
    let mut era = Era {
        id: EraId(random_bits()),
        created_ms,
        checkpoint: Some(EraCheckpoint { name, hash: String::new() }),
        cost_max: settings.cost_max,
        fold_version: FOLD_VERSION,
        duplicates_max: settings.duplicates_max,
        base_position: beginning.base_position,
        secret_check: keys.secret_check,
    };
    let visitors = beginning.visitors;
    let (was_alone, last_seq) = (beginning.was_alone, beginning.seq);
    write_checkpoint(&era, beginning, &keys, settings, &disk)?;
    if let Some(checkpoint) = &mut era.checkpoint {
        let read = digest_file(&settings.output);
        checkpoint.hash = read.map_err(|error| format!("{}: {error}", settings.output.display()))?;
    }
    if let Some(from) = settings.from.as_deref().filter(|_| was_alone) {
        let path = from.join(POSITIONS_FILE);
        storage::write_data_file(&path, &Positions::of_seqs(last_seq).to_bytes())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        // A server that is alone refuses a directory with an outbox.
        let path = from.join(OUTBOX_DIRECTORY);
        access::create_directory(&path)
            .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    }
    let (header, payload) = era.to_message(clock::now_ms());
    let bytes = Encoder::new().and_then(|mut encoder| encoder.encode(&header, &payload));
    let bytes = bytes.map_err(|error| format!("cannot encode the message of the era: {error}"))?;
    let position = runtime.block_on(async {
        let position = stream.append_first(&era, bytes).await?;
        stream.publish_era(&era, position).await?;
        Ok::<_, String>(position)
    })?;
    Ok(Founded { era: format!("{:032x}", u128::from_be_bytes(era.id.0)), position, visitors })
}

/// Returns the era of the newest checkpoint of the directory. `None` for that of a server that was alone.
fn directory_era(settings: &NewEra) -> Result<Option<Era>, String> {
    let Some(from) = &settings.from else { return Ok(None) };
    let directory = CheckpointDirectory::new(Arc::new(RealDisk), from);
    let newest = newest_own(&directory, &ClusterKeys::derive(&settings.secret))?;
    Ok(newest.map(|(_, saved)| saved.era))
}

impl Beginning {
    /// Returns the beginning of a cluster without visitors.
    fn empty(keys: &ClusterKeys, cost_max: u64) -> Self {
        let (profiles, _) = ProfileTable::new(keys.table, cost_max);
        Self {
            profiles,
            visitors: 0,
            log_id: keys.log_id,
            seq: 0,
            was_alone: false,
            base_position: 1,
            clock_ms: 0,
            producers: BTreeMap::new(),
            nodes: Nodes::default(),
            window: Vec::new(),
        }
    }
}

/// Returns the table and the state of a directory: those of the newest checkpoint of a node, or the fold of
/// the log of a server that was alone.
fn beginning(
    settings: &NewEra,
    from: &Path,
    keys: &ClusterKeys,
    disk: &Arc<dyn Disk>,
    log: &LockedLog,
    range: SeqRange,
) -> Result<Beginning, String> {
    let log_id = range.log_id.unwrap_or(keys.log_id);
    let directory = CheckpointDirectory::new(Arc::clone(disk), from);
    if let Some((reader, saved)) = newest_own(&directory, keys)? {
        return continued(settings, keys, reader, saved, log_id);
    }
    if range.last > 0 && range.first > 1 {
        return Err(format!(
            "the log in {} begins at seq {}, because retention has deleted earlier records; this release founds a cluster only from a \
             directory whose log is complete, or without --from",
            from.display(),
            range.first
        ));
    }
    let tombstone_key = log.load_or_draw_key().map_err(|error| error.to_string())?;
    let (profiles, _) = ProfileTable::new(keys.table, settings.cost_max);
    let mut folded = Folded {
        profiles: profiles.with_tombstone_key(Some(tombstone_key)).with_tie_key(keys.tombstone.clone()),
        window: DedupWindow::new(usize::try_from(settings.duplicates_max).unwrap_or(usize::MAX), 0),
        clock_ms: 0,
    };
    let reader = LogReader::open(Arc::clone(disk), from, 0).map_err(|error| error.to_string())?;
    let mut reader = reader.with_durable_seq(range.last);
    while let Some(item) = reader.read_next().map_err(|error| error.to_string())? {
        if let LogItem::Records(records) = item {
            folded.fold(records);
        }
    }
    let Folded { profiles, window, clock_ms } = folded;
    let visitors = usize::try_from(profiles.readers().metrics().entries()).unwrap_or(usize::MAX);
    Ok(Beginning {
        profiles,
        visitors,
        log_id,
        seq: range.last,
        was_alone: true,
        // The orders of these records are their seqs.
        base_position: range.last / ORDERS_PER_POSITION + 1,
        clock_ms,
        producers: BTreeMap::new(),
        nodes: Nodes::default(),
        window: window.entries().collect(),
    })
}

/// Returns the table and the state of a checkpoint of a node.
fn continued(
    settings: &NewEra,
    keys: &ClusterKeys,
    reader: CheckpointReader,
    saved: SavedState,
    log_id: LogId,
) -> Result<Beginning, String> {
    let ties = all_ties(&reader).map_err(|error| error.to_string())?;
    let LoadedFold { table, state } = load_fold(reader, &mut |_, _| {}).map_err(|error| error.to_string())?;
    state.known.reset(0, ties);
    let visitors = table.len();
    let (profiles, _) = ProfileTable::from_table(table, state, keys.table, settings.cost_max);
    let SavedState { position, seq, era, clock_ms, producers, nodes, window, .. } = saved;
    Ok(Beginning {
        profiles,
        visitors,
        log_id,
        seq,
        was_alone: false,
        base_position: era.base_position + position + 1,
        clock_ms,
        producers,
        nodes,
        window,
    })
}

/// The fold of a log from its beginning.
struct Folded {
    profiles: ProfileTable,
    window: DedupWindow,
    clock_ms: i64,
}

impl Folded {
    fn fold(&mut self, records: Records<'_>) {
        self.profiles.fold(records);
        for (_, record) in records.iter() {
            let key = dedup_key(&record);
            self.clock_ms = self.clock_ms.max(record.received_ms);
            self.window.check_and_insert(key, self.clock_ms);
            self.window.commit();
        }
    }
}

/// Writes the checkpoint of the era. Its position is 0: each node takes the position of the message of the era.
fn write_checkpoint(
    era: &Era,
    beginning: Beginning,
    keys: &ClusterKeys,
    settings: &NewEra,
    disk: &Arc<dyn Disk>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", settings.output.display());
    let temporary = temporary_directory(&settings.output);
    access::create_directory(&temporary).map_err(failed)?;
    let options = Options {
        stop_ms: Arc::new(AtomicU64::new(u64::MAX / 2)),
        ..Options::new(keys.table_check, settings.cost_max, beginning.log_id)
    };
    let metrics = Arc::<CheckpointMetrics>::default();
    let directory = CheckpointDirectory::new(Arc::clone(disk), &temporary);
    let (scheduler, writer) =
        build_checkpointer(directory, options, CheckpointState::default(), Arc::clone(&metrics));
    writer.spawn().map_err(failed)?;
    let state = SavedState {
        position: 0,
        seq: beginning.seq,
        chain: [0; 16],
        previous_chain: [0; 16],
        era: era.clone(),
        clock_ms: beginning.clock_ms,
        producers: beginning.producers,
        nodes: beginning.nodes,
        window: beginning.window,
    };
    let mut profiles = beginning.profiles.with_checkpoints(scheduler);
    profiles.close_with(&SystemClock::new(), Some(1), &mut || saved::encode(&state));
    let renamed = match metrics.written() {
        1 => fs::rename(temporary.join(checkpoint_name(1)), &settings.output),
        _ => Err(io::Error::other("the checkpoint was not written")),
    };
    let removed = fs::remove_dir_all(&temporary);
    renamed.and(removed).map_err(failed)
}

fn temporary_directory(output_path: &Path) -> PathBuf {
    let mut name = output_path.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    output_path.with_file_name(name)
}
