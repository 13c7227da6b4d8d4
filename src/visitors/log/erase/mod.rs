//! Erasing a visitor from the log: what is asked of the writer, and what is done beside it on the thread that asked.
//!
//! In come the ids of a visitor; once [`Erasure::finish`] returns, no file of the folder holds one of them or anything of the
//! records that bore them. The steps, and what a crash between them leaves, stand in [`super::format`].

mod rewrite;
pub(super) mod secret;

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use self::rewrite::Whom;
use self::secret::{Name, Secret, named};
use super::LogError;
use super::bloom::Whose;
use super::directory::{Directory, Oldest};
use super::metrics::Figures;
use super::record::Kind;
use super::recover::Closed;
use super::scan::{Item, Scan};
use super::verify::Place;
use crate::limits::ERASED_IDS_MAX;

/// Whom to erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// The site ID.
    pub site: String,
    /// All ids by which the site knows the visitor; at most [`ERASED_IDS_MAX`].
    pub ids: Vec<(Whose, String)>,
}

/// What was erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erased {
    /// Records that became void.
    pub records: u64,
    /// Segments that were written anew.
    pub segments: u64,
    /// Of the tombstone.
    pub seq: u64,
}

/// Why nobody was erased, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// No ids, or too many.
    #[error("{0} ids; expected 1 to {ERASED_IDS_MAX}")]
    Ids(usize),
    /// One at a time.
    #[error("another erasure is under way")]
    Busy,
    /// The log has been stopped.
    #[error("the log is stopped")]
    Stopped,
    /// It may have begun; the next one, or the next start, finishes it then.
    #[error("{0}; if it has begun, the next erasure or the next start finishes it")]
    Log(#[from] LogError),
}

/// The turn to erase; whoever has it keeps retention from deleting.
pub(super) struct Turn(Arc<Figures>);

impl Turn {
    /// `None` while another has it.
    pub(super) fn take(figures: &Arc<Figures>) -> Option<Arc<Self>> {
        let was_taken = figures.erasing.swap(true, Ordering::SeqCst);
        (!was_taken).then(|| Arc::new(Self(Arc::clone(figures))))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.erasing.store(false, Ordering::SeqCst);
    }
}

/// What the writer is asked.
pub(super) struct Order {
    pub(super) visitor: Arc<Visitor>,
    answer: SyncSender<Result<Begun, LogError>>,
    _turn: Arc<Turn>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order")
    }
}

impl Order {
    pub(super) fn answer(self, begun: Result<Begun, LogError>) {
        // Who does not wait any more leaves it unfinished.
        let _ = self.answer.try_send(begun);
    }
}

/// What the writer did: the tombstone is durable, and these segments are written to no more.
pub(super) struct Begun {
    directory: Directory,
    secret: Secret,
    seq: u64,
    places: Vec<Place>,
    /// An earlier erasure failed on its way.
    others: bool,
}

impl Begun {
    /// `closed` are the segments before the tombstone, which has `seq`.
    pub(super) fn new(
        directory: Directory,
        secret: Secret,
        seq: u64,
        closed: &VecDeque<Closed>,
        others: bool,
    ) -> Self {
        let limits = closed.iter().skip(1).map(|closed| closed.first_seq).chain([seq]);
        let place = |(closed, limit): (&Closed, u64)| Place {
            named_seq: closed.first_seq,
            first_seq: closed.first_seq,
            limit,
        };
        let places = closed.iter().zip(limits).map(place).collect();
        Self { directory, secret, seq, places, others }
    }
}

/// An erasure that was asked for.
pub struct Erasure {
    visitor: Arc<Visitor>,
    begun: Receiver<Result<Begun, LogError>>,
    _turn: Arc<Turn>,
}

impl Erasure {
    /// Both sides of one.
    pub(super) fn new(visitor: Visitor, turn: Arc<Turn>) -> (Self, Order) {
        let (answer, begun) = sync_channel(1);
        let visitor = Arc::new(visitor);
        let order = Order { visitor: Arc::clone(&visitor), answer, _turn: Arc::clone(&turn) };
        (Self { visitor, begun, _turn: turn }, order)
    }

    /// Waits for the writer, then takes the visitor out of every file: seconds for gigabytes, on a thread that may wait.
    ///
    /// # Errors
    /// The log is stopped; the disk fails. Others may hold the visitor's records then.
    pub fn finish(self) -> Result<Erased, EraseError> {
        let begun = self.begun.recv().map_err(|_| EraseError::Stopped)??;
        let Begun { directory, secret, seq, places, others } = begun;
        let whom = if others {
            let mut tombstones = tombstones(&directory, &places)?;
            let names =
                self.visitor.ids.iter().map(|(whose, id)| secret.name(&self.visitor.site, *whose, id));
            tombstones.extend(names.map(|name| (name, seq)));
            Whom::Named { secret: &secret, tombstones }
        } else {
            Whom::visitor(&self.visitor)
        };
        let failed = |error| LogError::io(&directory.path(""), error);
        remove_let_go(&directory, seq, &places).map_err(failed)?;
        let erased = Erased { seq, ..take_out(&directory, &places, &whom)? };
        directory.end_erasing().map_err(failed)?;
        Ok(erased)
    }
}

/// Finishes what a crash or a failure left unfinished, in segments that are written to no more: `places` but the last.
/// Whoever calls this ends the erasure once that is durable which the folder holds besides.
pub(super) fn resume(directory: &Directory, places: &[Place]) -> Result<Resumed, LogError> {
    let Some((_, written)) = places.split_last() else { return Ok(Resumed::Nothing) };
    let tombstones = tombstones(directory, places)?;
    let Some(&seq) = tombstones.values().max() else { return Ok(Resumed::Nothing) };
    let secret = match Secret::of(directory) {
        Ok(Some(secret)) => secret,
        Ok(None) => return Ok(Resumed::NobodyKnows),
        Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(Resumed::NobodyKnows),
        Err(error) => return Err(LogError::io(&directory.path(""), error)),
    };
    let erased = take_out(directory, written, &Whom::Named { secret: &secret, tombstones })?;
    Ok(Resumed::Finished(Erased { seq, ..erased }))
}

/// What a start made of an erasure that was under way.
pub(super) enum Resumed {
    /// There was no tombstone yet.
    Nothing,
    Finished(Erased),
    /// There is no key that tells whom the tombstones name.
    NobodyKnows,
}

fn take_out(directory: &Directory, places: &[Place], whom: &Whom<'_>) -> Result<Erased, LogError> {
    let mut erased = Erased::default();
    for place in places {
        let failed = |error| LogError::io(&directory.path(&place.name()), error);
        if let Some(records) = rewrite::segment(directory, place, whom).map_err(failed)? {
            erased.records += records;
            erased.segments += 1;
        }
    }
    for name in directory.kept_aside().map_err(|error| LogError::io(&directory.path(""), error))? {
        let failed = |error| LogError::io(&directory.path(&name), error);
        rewrite::kept_aside(directory, &name, whom).map_err(failed)?;
    }
    Ok(erased)
}

/// Deletes the segments before the tombstone that retention let go and could not delete.
fn remove_let_go(directory: &Directory, seq: u64, places: &[Place]) -> io::Result<()> {
    let Oldest::Seq(oldest) = directory.oldest()? else { return Ok(()) };
    let is_kept = |first_seq: u64| places.iter().any(|place| place.first_seq == first_seq);
    let left = directory.segments()?.into_iter().filter(|&first| first < seq.min(oldest) && !is_kept(first));
    left.into_iter().try_for_each(|first_seq| directory.remove(first_seq))
}

/// The greatest seq of a tombstone for each name.
fn tombstones(directory: &Directory, places: &[Place]) -> Result<HashMap<Name, u64>, LogError> {
    let mut tombstones = HashMap::new();
    for place in places {
        let failed = |error| LogError::io(&directory.path(&place.name()), error);
        let file = directory.open(&place.name()).map_err(failed)?;
        let end = file.length().map_err(failed)?;
        let mut scan = Scan::new(file, end);
        while let Some(item) = scan.next().map_err(failed)? {
            let Item::Batch { batch, .. } = item else { continue };
            for (seq, record) in batch.records.until(place.limit).iter() {
                if record.kind == Kind::Tombstone {
                    tombstones.extend(named(&record).map(|name| (name, seq)));
                }
            }
        }
    }
    Ok(tombstones)
}
