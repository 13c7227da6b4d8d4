//! Column files on a disk that fails, is full, or changes meanwhile.

use std::cell::Cell;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use parallax::testing::clock::Clock;
use parallax::testing::insights::{
    ColumnInstaller, ColumnStore, Columns, CountedLog, Limits, MissingFiles, Query, Question, SiteFacts,
    Subject, Zone, answer_over,
};
use parallax::testing::limits::{COLUMNS_FREE_BYTES_MIN, RETAIN_MS_MIN, RETENTION_INTERVAL_MS};
use parallax::testing::log::{self, LogClient, LogWriter, Options, Queue, Records, Request};
use parallax::testing::record::Record;
use parallax::testing::storage::disk::{Disk, RealDisk};
use tempfile::TempDir;

use super::disk::{Call, WatchedDisk};
use super::{Event, KEY};
use crate::harness::temporary_directory;
use crate::log::TestClock;

const MEMORY_BYTES: u64 = 128 << 20;
const NOW_MS: i64 = 1_767_571_200_000;

/// A log whose every batch is a segment, on a watched disk.
struct WatchedLog {
    directory: TempDir,
    disk: WatchedDisk,
    clock: Arc<TestClock>,
    queue: Queue,
    client: LogClient,
    writer: LogWriter,
}

impl WatchedLog {
    /// Writes `segments` segments of two page events each.
    fn with_segments(segments: usize) -> Self {
        let (directory, disk, clock) =
            (temporary_directory(), WatchedDisk::new(), Arc::<TestClock>::default());
        let options = Options {
            segment_bytes: 1,
            retain_ms: Some(RETAIN_MS_MIN),
            dedup_ids_max: 1_000,
            ..Options::default()
        };
        let (queue, writer, _) = log::open(
            directory.path(),
            options,
            // Not the watched disk: a hook may wait for the writer.
            Arc::new(RealDisk),
            Arc::clone(&clock) as Arc<dyn Clock>,
            Box::new(|_: Records<'_>| ()),
        )
        .expect("the log opens");
        let client = queue.client(Arc::new(|| ()));
        let mut log = Self { directory, disk, clock, queue, client, writer };
        for segment in 0..segments {
            log.append(segment);
        }
        log
    }

    fn append(&mut self, number: usize) {
        let mut request = Request::new(0);
        for anon_id in ["a", "b"] {
            let event = Event { anon_id: Some(anon_id), ..Event::page(NOW_MS - 1_000) };
            event.with_record(|record| {
                let key = 1 + number as u128 * 2 + u128::from(anon_id == "b");
                let received_ms = self.clock.now_ms();
                request.push(&Record { key, received_ms, ..*record }).expect("a record within the limits");
            });
        }
        self.client.send(request).expect("the queue has room");
        self.writer.run_once();
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    fn installer(&self) -> ColumnInstaller {
        ColumnInstaller::new(self.disk(), self.path(), self.queue.clone())
    }

    fn store(&self, memory_bytes: u64) -> ColumnStore {
        ColumnStore::new(self.disk(), self.path(), KEY, memory_bytes)
    }

    /// Builds the missing files as the two threads of a server do.
    fn build_missing(&self) -> io::Result<()> {
        let installer = self.installer();
        let mut missing = MissingFiles::new(self.disk(), self.path(), KEY, installer.clone());
        missing.build(&mut |built| installer.install_built(built), &|_| (), &|| false)
    }

    fn names(&self, suffix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("the directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        let mut names: Vec<String> = names.filter(|name| name.ends_with(suffix) && name.len() > 20).collect();
        names.sort();
        names
    }

    fn last_seq(&self) -> u64 {
        self.queue.metrics().last_seq()
    }
}

fn site() -> SiteFacts {
    SiteFacts::unpublished("acme")
}

/// Returns the page views of a store, or the error of its refresh or answer.
fn views(store: &mut ColumnStore, last_seq: u64) -> Result<u64, Box<dyn Error>> {
    store.refresh(last_seq, &|| false)?;
    let question =
        Question::parse(Subject::Overview, std::iter::empty(), &Zone::utc(), NOW_MS).expect("valid");
    let limits = Limits { memory_bytes: MEMORY_BYTES, is_over: &|| false };
    let answer = answer_over(
        &store.columns(),
        CountedLog::alone(last_seq),
        &Query::Views(question),
        &site(),
        NOW_MS,
        &limits,
    )?;
    Ok(answer.document["totals"]["views"].as_u64().expect("a number"))
}

fn is_intact(path: &Path) -> bool {
    let bytes = fs::read(path).expect("readable");
    Columns::from_bytes(bytes).and_then(|columns| columns.facts()).is_ok()
}

#[test]
fn a_segment_that_retention_deletes_before_its_file_gets_its_name_leaves_no_file() {
    let WatchedLog { directory, disk, clock, queue, client, mut writer } = WatchedLog::with_segments(3);
    let path = directory.path().to_owned();
    let first = path.join("00000000000000000001.columns");
    drop(client);
    let (sender, receiver) = mpsc::channel();
    let (ran, has_run) = mpsc::channel();
    let renamed = first.clone();
    disk.set_hook(move |call, to| {
        if call == Call::Rename && to == renamed {
            sender.send(()).expect("the writer waits");
            has_run.recv().expect("retention has run");
        }
        Ok(())
    });
    let installer = ColumnInstaller::new(Arc::new(disk.clone()), &path, queue);
    let mut missing = MissingFiles::new(Arc::new(disk.clone()), &path, KEY, installer.clone());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            missing.build(&mut |built| installer.install_built(built), &|_| (), &|| false).expect("it works");
        });
        receiver.recv().expect("the file is about to get its name");
        clock.pass(RETAIN_MS_MIN as u64 + RETENTION_INTERVAL_MS);
        writer.run_once();
        ran.send(()).expect("the builder waits");
    });
    assert!(!first.with_extension("segment").exists(), "retention has deleted the segment");
    assert!(!first.exists());
}

#[test]
fn a_column_file_is_written_only_if_the_log_keeps_its_free_space() {
    let log = WatchedLog::with_segments(1);
    log.build_missing().expect("the disk works");
    let path = log.path().join(&log.names(".columns")[0]);
    let file_bytes = fs::metadata(&path).expect("the file").len();
    fs::remove_file(&path).expect("deleted");
    log.disk.set_free_bytes(COLUMNS_FREE_BYTES_MIN + file_bytes - 1);
    assert_eq!(log.build_missing().map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
    let mut store = log.store(MEMORY_BYTES).with_installer(log.installer());
    assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 2);
    assert_eq!(log.names(".columns"), Vec::<String>::new());
    assert!(store.unstored_bytes() > 0);
    for free_bytes in [COLUMNS_FREE_BYTES_MIN + file_bytes, COLUMNS_FREE_BYTES_MIN + file_bytes + 1] {
        log.disk.set_free_bytes(free_bytes);
        log.build_missing().expect("there is room");
        assert_eq!(log.names(".columns").len(), 1);
        assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 2);
        fs::remove_file(&path).expect("deleted");
    }
}

#[test]
fn columns_that_cannot_be_installed_stay_within_the_memory_of_insights() {
    let log = WatchedLog::with_segments(40);
    log.disk.set_free_bytes(0);
    let mut store = log.store(MEMORY_BYTES).with_installer(log.installer());
    assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 80);
    let all_bytes = store.unstored_bytes();
    // An eighth of the memory holds columns without a file.
    for (memory_bytes, kept_bytes) in
        [(8 * all_bytes - 8, 39), (8 * all_bytes, 40), (8 * all_bytes + 8, 40), (0, 0)]
    {
        let mut store = log.store(memory_bytes).with_installer(log.installer());
        assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 80);
        assert_eq!(store.unstored_bytes(), all_bytes / 40 * kept_bytes, "{memory_bytes}");
    }
}

#[test]
fn a_segment_that_cannot_be_read_does_not_keep_later_ones_from_their_files() {
    let log = WatchedLog::with_segments(4);
    let bad = log.path().join(&log.names(".segment")[1]);
    log.disk.set_hook(move |call, path| match call {
        Call::Read if path == bad => Err(io::Error::from_raw_os_error(5)),
        _ => Ok(()),
    });
    assert_eq!(log.build_missing().map_err(|error| error.raw_os_error()), Err(Some(5)));
    let names = log.names(".columns");
    assert_eq!(names.len(), 3, "{names:?}");
    log.disk.clear_hook();
    log.build_missing().expect("the disk works");
    assert_eq!(log.names(".columns").len(), 4);
}

#[test]
fn a_column_file_that_cannot_be_opened_now_is_not_deleted() {
    let log = WatchedLog::with_segments(3);
    log.build_missing().expect("the disk works");
    let mut store = log.store(MEMORY_BYTES).with_installer(log.installer());
    assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 6);
    let is_columns = |path: &Path| path.extension().is_some_and(|extension| extension == "columns");
    for errno in [5, 24] {
        log.disk.set_hook(move |call, path| match call {
            Call::Open if is_columns(path) => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        });
        views(&mut store, log.last_seq()).expect_err("no file can be opened");
        store.forget_unreadable();
        assert_eq!(log.names(".columns").len(), 3, "errno {errno}");
    }
    log.disk.clear_hook();
    assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 6);
    // A file that is damaged is deleted, and no other one.
    let damaged = log.path().join(&log.names(".columns")[1]);
    let mut bytes = fs::read(&damaged).expect("readable");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&damaged, bytes).expect("written");
    store.forget_unreadable();
    assert_eq!(log.names(".columns").len(), 2);
    assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 6);
    assert!(is_intact(&damaged));
}

#[test]
fn after_any_failed_call_of_the_builder_the_next_run_completes_the_files() {
    let calls = Arc::new(AtomicUsize::new(0));
    let log = WatchedLog::with_segments(2);
    let counted = Arc::clone(&calls);
    log.disk.set_hook(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    log.build_missing().expect("the disk works");
    let all = calls.load(Ordering::Relaxed);
    assert!(all > 20, "{all} calls");
    for (failed, errno) in (0..all).flat_map(|call| [(call, 5), (call, 28)]) {
        for name in log.names(".columns") {
            fs::remove_file(log.path().join(name)).expect("deleted");
        }
        let mut left = failed;
        log.disk.set_hook(move |_, _| {
            left = left.wrapping_sub(1);
            if left == usize::MAX { Err(io::Error::from_raw_os_error(errno)) } else { Ok(()) }
        });
        // A failed unlink of a file that does not exist changes nothing.
        let _ = log.build_missing();
        for name in log.names(".columns") {
            assert!(is_intact(&log.path().join(&name)), "call {failed}: {name}");
        }
        let mut store = log.store(MEMORY_BYTES);
        assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 4, "call {failed}");
        log.disk.clear_hook();
        log.build_missing().expect("the disk works again");
        assert_eq!(log.names(".columns").len(), 2, "call {failed}");
        let temporary: Vec<PathBuf> =
            [".columns", ".columns-asked"].iter().map(|name| log.path().join(name)).collect();
        assert!(temporary.iter().all(|path| !path.exists()), "call {failed}");
    }
}

#[test]
fn the_generation_is_read_without_waiting_for_a_file_that_gets_its_name() {
    let log = WatchedLog::with_segments(1);
    let generation = log.queue.metrics().generation();
    assert_eq!(generation.if_unchanged(0, || generation.now()), Some(0));
    assert_eq!(generation.if_unchanged(1, || ()), None);
}

#[test]
fn a_question_looks_at_its_deadline_after_each_1024_rows() {
    const ROWS: usize = 20_000;
    let mut builder = parallax::testing::insights::ColumnBuilder::new(1, KEY);
    let event = Event::page(NOW_MS - 1_000);
    for number in 0..ROWS {
        // The rows of one visitor are counted without a look.
        let anon_id = format!("v{number}");
        event.with_record(|record| builder.add(&Record { anon_id: Some(&anon_id), ..*record }));
    }
    let columns = Columns::from_bytes(builder.to_bytes(ROWS as u64)).expect("an intact file");
    let query = || {
        let parse = |subject| Question::parse(subject, [("of", "page")].into_iter(), &Zone::utc(), NOW_MS);
        [Subject::Overview, Subject::Top].map(|subject| Query::Views(parse(subject).expect("valid")))
    };
    for query in query() {
        let looks = Cell::new(0);
        let is_over = || {
            looks.set(looks.get() + 1);
            false
        };
        let ask = |is_over: &dyn Fn() -> bool| {
            let limits = Limits { memory_bytes: MEMORY_BYTES, is_over };
            answer_over(&[&columns], CountedLog::alone(1), &query, &site(), NOW_MS, &limits)
        };
        ask(&is_over).expect("an answer");
        // The rows are read once, and counted once.
        assert!(looks.get() >= 2 * (ROWS / 1024), "{} looks", looks.get());
        let left = Cell::new(3);
        let end_soon = || {
            left.set(left.get() - 1);
            left.get() < 0
        };
        ask(&end_soon).expect_err("the time is over");
        assert_eq!(left.get(), -1, "the first look that returns true ends the question");
    }
}

#[test]
fn a_refresh_that_takes_too_long_ends_and_continues_later() {
    let log = WatchedLog::with_segments(4);
    let mut store = log.store(MEMORY_BYTES);
    let looks = Cell::new(0);
    let error = store.refresh(log.last_seq(), &|| looks.replace(looks.get() + 1) >= 2).expect_err("too long");
    assert_eq!(error.to_string(), "3 segments have no columns yet; retry later");
    assert_eq!(views(&mut store, log.last_seq()).expect("an answer"), 8);
}
