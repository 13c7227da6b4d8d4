//! The table of visitors in files: whatever happens to disk and process, the table after a start is the fold of the log. The same
//! code as in the server, on a simulated disk and clock, stepped by the test.

// Each bound.
mod bounds;
// What `check` and `inspect` say.
mod commands;
// Bytes that are not what was written.
mod damage;
// Whom the operator erases.
mod erasing;
// A call of each file operation fails; power cuts and killed processes, by seed.
mod faults;
// The format, byte for byte.
mod format;
// What a start makes of what it finds.
mod restoring;
// What is let go, and when.
mod retention;
// A server that is stopped, or killed.
mod server;
// When one is made, and what it holds.
mod taking;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax::clock::Clock;
use parallax::storage::disk::Disk;
use parallax::visitors::apply::Applier;
use parallax::visitors::checkpoint::Figures;
use parallax::visitors::checkpoint::directory::Folder;
use parallax::visitors::checkpoint::restore::{Reach, Restored, restore};
use parallax::visitors::checkpoint::scheduler::{self, making};
use parallax::visitors::checkpoint::writer::Scribe;
use parallax::visitors::live::Live;
use parallax::visitors::log::{
    self, Follower, Held, Kind, Options, Port, Queue, Record, Records, Report, Request, Visitor, Writer,
};
use parallax::visitors::profile::Counted;
use parallax::visitors::store::table::{Key, Rank, Table};

use crate::dice::Dice;
use crate::log::TestClock;
use crate::log::simulated::SimulatedDisk;

const FOLDER: &str = "/data";
const SECRET: [u8; 16] = *b"secret of a test";
/// The simulated clocks begin here.
const NOW_MS: i64 = 1_800_000_000_000;

/// An entry of a table: key, value, rank.
type Entry = (Key, Vec<u8>, Rank);

/// All of a table, in the order of the last put.
fn entries(mut table: Table) -> Vec<Entry> {
    let mut all = Vec::new();
    table.begin_copy();
    while !table.copy_some(100, &mut |key, value, rank, order| all.push((order, (key, value.to_vec(), rank))))
    {
    }
    all.sort_by_key(|(order, _)| *order);
    all.into_iter().map(|(_, entry)| entry).collect()
}

/// What the visitor of a number does: one of `visitors`, who are tied to users now and then.
fn with_record<T>(number: u64, visitors: usize, take: impl FnOnce(&Record<'_>) -> T) -> T {
    let mut dice = Dice(number);
    let anon_id = format!("visitor-{}", dice.below(visitors));
    let user_id = format!("user-{}", dice.below(visitors / 2 + 1));
    let (path, event) = (format!("/page/{}", dice.below(7)), format!("event {}", dice.below(5)));
    let kind = [Kind::Page, Kind::Page, Kind::Track, Kind::Track, Kind::Identify][dice.below(5)];
    let payload = match kind {
        Kind::Identify => {
            format!(r#"{{"traits":{{"plan":"{}","size":{}}}}}"#, "x".repeat(dice.below(60)), number % 90)
        }
        _ => "{}".to_owned(),
    };
    take(&Record {
        kind,
        bot: false,
        gpc: false,
        received_ms: NOW_MS,
        timestamp_ms: NOW_MS + number as i64 * 1_000,
        key: u128::from(number),
        site: Some("acme"),
        message_id: None,
        anon_id: (kind != Kind::Track || dice.below(6) > 0).then_some(&*anon_id),
        user_id: (kind == Kind::Identify || dice.below(6) == 0).then_some(&*user_id),
        event: (kind == Kind::Track).then_some(&*event),
        name: None,
        path: (kind == Kind::Page).then_some(&*path),
        variants: None,
        ip: None,
        payload: &payload,
    })
}

/// What happened at a seq.
#[derive(Debug, Clone)]
enum Happened {
    /// The record of this number came.
    Came(u64),
    /// A visitor was erased.
    Erased(Visitor),
}

/// What the log holds, as far as anybody was told, by seq.
type History = Arc<Mutex<BTreeMap<u64, Happened>>>;

/// The follower of a server, watched.
struct Watched {
    live: Arc<Mutex<Option<Live>>>,
    history: History,
}

impl Watched {
    fn with<T>(&self, of: impl FnOnce(&mut Live) -> T) -> T {
        of(self.live.lock().expect("no test panics in here").as_mut().expect("it is taken at the end"))
    }
}

impl Follower for Watched {
    fn fold(&mut self, records: Records<'_>) {
        let mut history = self.history.lock().expect("no test panics in here");
        let is_told = |(_, record): &(u64, Record<'_>)| record.kind != Kind::Tombstone;
        let came =
            records.iter().filter(is_told).map(|(seq, record)| (seq, Happened::Came(record.key as u64)));
        for (seq, came) in came {
            history.split_off(&seq);
            history.insert(seq, came);
        }
        self.with(|live| live.fold(records));
    }

    fn erase(&mut self, visitor: &Visitor, seq: u64) {
        self.history.lock().expect("no test panics in here").insert(seq, Happened::Erased(visitor.clone()));
        let ids = visitor.ids.iter().map(|(whose, id)| (*whose, id.as_str()));
        self.with(|live| live.erase(&visitor.site, ids, seq));
    }

    fn between(&mut self, clock: &dyn Clock, durable: Option<u64>) -> Option<Duration> {
        self.with(|live| live.between(clock, durable))
    }

    fn closed(&mut self, clock: &dyn Clock, durable: Option<u64>) {
        self.with(|live| live.close(clock, durable));
    }

    fn covered(&self) -> u64 {
        self.with(|live| live.covered())
    }

    fn held_back(&mut self) {
        self.with(Live::held_back);
    }
}

/// A folder, and what is known of its log.
struct World {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    options: Options,
    history: History,
    /// The bound of the table, and bytes of log between two checkpoints.
    cost_max: u64,
    log_bytes: u64,
    visitors: usize,
    /// The next record's.
    number: u64,
}

/// A log at work, its visitors with it.
struct Running {
    queue: Queue,
    port: Port,
    writer: Writer,
    scribe: Option<Scribe>,
    live: Arc<Mutex<Option<Live>>>,
    report: Report,
    figures: Arc<Figures>,
    findings: Vec<String>,
    /// Of the checkpoint that was loaded.
    seq: u64,
    /// What a last checkpoint may take, in milliseconds.
    stop_ms: Arc<AtomicU64>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            disk: SimulatedDisk::new(seed),
            clock: Arc::default(),
            options: Options { duplicates_max: 1_000, ..Options::default() },
            history: History::default(),
            cost_max: u64::MAX,
            log_bytes: 1,
            visitors: 30,
            number: 1,
        }
    }

    fn folder(&self) -> Folder {
        Folder::new(Arc::new(self.disk.clone()), Path::new(FOLDER))
    }

    /// As a server starts.
    fn try_open(&self) -> Result<Running, String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let held = Held::hold(Path::new(FOLDER), disk).map_err(|error| error.to_string())?;
        let reach = held.reach().map_err(|error| error.to_string())?;
        let log = Reach { first: reach.first, last: reach.last };
        let restored =
            restore(&self.folder(), log, self.cost_max, &mut |_, _| {}).map_err(|error| error.to_string())?;
        let Restored { table, secret, seq, standing, findings } = restored;
        let secret = secret.unwrap_or(SECRET);
        let figures = Arc::<Figures>::default();
        let options = scheduler::Options {
            log_bytes: self.log_bytes,
            ..scheduler::Options::new(secret, self.cost_max)
        };
        let stop_ms = Arc::clone(&options.stop_ms);
        let (making, scribe) = making(self.folder(), options, standing, Arc::clone(&figures));
        let (live, _) = Live::standing(table, secret, self.cost_max);
        let live = Arc::new(Mutex::new(Some(live.keeping(making))));
        let watched = Watched { live: Arc::clone(&live), history: Arc::clone(&self.history) };
        let options = Options { folded_seq: seq, ..self.options.clone() };
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        // A start that fails half-way has been told half of it, perhaps from the beginning.
        let before = self.history.lock().expect("no test panics in here").clone();
        let opened = held.open(options, clock, Box::new(watched));
        let mut history = self.history.lock().expect("no test panics in here");
        let (queue, writer, report) = opened.map_err(|error| {
            *history = before;
            error.to_string()
        })?;
        history.split_off(&report.next_seq);
        drop(history);
        let port = queue.port(Arc::new(|| {}));
        let scribe = Some(scribe);
        Ok(Running { queue, port, writer, scribe, live, report, figures, findings, seq, stop_ms })
    }

    fn open(&self) -> Running {
        self.try_open().expect("the disk is well")
    }

    /// Sends so many records at once; whether they were accepted.
    fn record(&mut self, running: &mut Running, records: usize) -> bool {
        let mut request = Request::new(0);
        for _ in 0..records {
            with_record(self.number, self.visitors, |record| request.push(record))
                .expect("it is within bounds");
            self.number += 1;
        }
        if running.port.send(request).is_err() {
            return false;
        }
        running.writer.step();
        let completion = running.port.take().expect("a step answers what was sent");
        completion.outcome != log::Outcome::DiskUnavailable
    }

    /// The fold of the log up to a seq, from its beginning.
    fn fold(&self, until: u64) -> Vec<Entry> {
        let history = self.history.lock().expect("no test panics in here");
        let (mut table, mut applier) = (Table::new(), Applier::new(SECRET));
        for (at, (seq, happened)) in history.range(..=until).enumerate() {
            assert_eq!(*seq, at as u64 + 1, "no seq is left out");
            match happened {
                Happened::Came(number) => with_record(*number, self.visitors, |record| {
                    applier.apply(&mut table, record, self.cost_max, &mut Counted::default());
                }),
                Happened::Erased(Visitor { site, ids }) => {
                    ids.iter().for_each(|(whose, id)| applier.forget(&mut table, site, *whose, id));
                }
            }
        }
        entries(table)
    }

    fn seqs(&self) -> Vec<u64> {
        self.folder().seqs().expect("the disk is well")
    }

    /// The seq of the newest record that anybody was told of.
    fn last(&self) -> u64 {
        self.history.lock().expect("no test panics in here").keys().next_back().copied().unwrap_or(0)
    }
}

impl Running {
    /// Lets writer and checkpointer work until neither has anything to do.
    fn settle(&mut self) {
        for _ in 0..400 {
            self.writer.step();
            if let Some(scribe) = &mut self.scribe {
                scribe.step();
            }
        }
    }

    /// What is known of visitors; the process is killed.
    fn killed(self) -> Vec<Entry> {
        let live = self.live.lock().expect("no test panics in here").take().expect("it is there");
        entries(live.into_table())
    }

    /// Stops it cleanly.
    fn stop(mut self) -> log::Stopped {
        self.scribe.take().expect("it is there").spawn().expect("a thread");
        self.queue.stop();
        self.writer.close()
    }
}

/// Fails with what differs, and not with all there is.
#[track_caller]
fn same(found: &[Entry], expected: &[Entry], what: &str) {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{what}: {} entries, expected {}; the first that differs: {differs:?}",
        found.len(),
        expected.len()
    );
}
