//! Sorted runs on disk: the external sort of an import.
//!
//! ```text
//! RUN, the file NAME-LEVEL-NUMBER.run: entries in ascending order
//! 0       4     length          of the entry
//! 4       4     crc             CRC-32C of the entry
//! 8       n     entry           begins with the bytes by which the entries are ordered
//! ```
//!
//! Level 0 has the runs of the buffers. If they are more than a merge may read, groups of them become runs of the next level.
//! No public crate sorts on disk in steps that survive a kill.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::crc32c;
use crate::little_endian::u32_at;
use crate::storage::AtomicFile;

/// Runs that a merge reads at once, each with a descriptor and a read buffer. More are merged in several passes.
pub(super) const MERGE_RUNS_MAX: u32 = 256;
/// Read and write buffer of a run, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// Bytes before an entry.
const FRAME_BYTES: usize = 8;
/// The longest entry, in bytes: far more than a record takes. A longer one is damage.
const ENTRY_BYTES_MAX: usize = 16 << 20;
/// The most bytes by which entries are ordered.
const PREFIX_BYTES_MAX: usize = 36;

/// A kind of entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunKind {
    pub(super) name: &'static str,
    /// Bytes at the start of an entry by which entries are ordered.
    pub(super) prefix_bytes: usize,
}

/// The runs of a kind that are complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunSet {
    pub(super) level: u32,
    pub(super) count: u32,
}

impl RunKind {
    fn path(self, dir: &Path, level: u32, number: u32) -> PathBuf {
        dir.join(format!("{}-{level}-{number:06}.run", self.name))
    }

    /// Merges groups of runs until one merge can read them all. Calls `save` with each new level.
    ///
    /// # Errors
    /// The disk fails, a run is damaged, or `save` fails.
    pub(super) fn reduce(
        self,
        dir: &Path,
        runs: &mut RunSet,
        save: &mut dyn FnMut(RunSet) -> io::Result<()>,
    ) -> io::Result<()> {
        while runs.count > MERGE_RUNS_MAX {
            let group_count = runs.count.div_ceil(MERGE_RUNS_MAX);
            for group in 0..group_count {
                self.merge_group(dir, *runs, group)?;
            }
            *runs = RunSet { level: runs.level + 1, count: group_count };
            save(*runs)?;
        }
        Ok(())
    }

    /// Merges one group of runs into a run of the next level, unless an interrupted import has done it.
    fn merge_group(self, dir: &Path, runs: RunSet, group: u32) -> io::Result<()> {
        let numbers = group * MERGE_RUNS_MAX..runs.count.min((group + 1) * MERGE_RUNS_MAX);
        let paths: Vec<PathBuf> = numbers.map(|number| self.path(dir, runs.level, number)).collect();
        let target = self.path(dir, runs.level + 1, group);
        if !target.exists() {
            let mut merge = Merge::of_paths(self, &paths, &[])?;
            let mut writer = RunWriter::create(&target)?;
            while let Some(entry) = merge.peek() {
                writer.write(entry)?;
                merge.advance()?;
            }
            writer.commit()?;
        }
        paths.iter().try_for_each(|path| remove_if_present(path))
    }

    /// Deletes the runs.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn delete(self, dir: &Path, runs: RunSet) -> io::Result<()> {
        (0..runs.count).try_for_each(|number| remove_if_present(&self.path(dir, runs.level, number)))
    }

    /// Passes each entry of all runs to `visit`, run by run.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(super) fn each(self, dir: &Path, runs: RunSet, visit: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for number in 0..runs.count {
            let mut reader = RunReader::open(self.path(dir, runs.level, number), 0)?;
            while reader.read_next()? {
                visit(&reader.entry);
            }
        }
        Ok(())
    }
}

/// Entries in memory that become a run.
#[derive(Debug)]
pub(super) struct SortBuffer {
    kind: RunKind,
    bytes: Vec<u8>,
    /// Offset and length of each entry.
    entries: Vec<EntrySpan>,
}

#[derive(Debug, Clone, Copy)]
struct EntrySpan {
    offset: usize,
    length: usize,
}

impl SortBuffer {
    pub(super) fn new(kind: RunKind) -> Self {
        Self { kind, bytes: Vec::new(), entries: Vec::new() }
    }

    /// Adds an entry of these parts.
    pub(super) fn add(&mut self, parts: &[&[u8]]) {
        let offset = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.entries.push(EntrySpan { offset, length: self.bytes.len() - offset });
    }

    /// Returns the memory of the entries, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.bytes.len() + self.entries.len() * size_of::<EntrySpan>()) as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the entries as a run of level 0, and removes them.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn write_run(&mut self, dir: &Path, number: u32) -> io::Result<()> {
        let Self { kind, bytes, entries } = self;
        let entry = |span: &EntrySpan| &bytes[span.offset..span.offset + span.length];
        let prefix = |span: &EntrySpan| &bytes[span.offset..span.offset + kind.prefix_bytes];
        entries.sort_unstable_by(|a, b| prefix(a).cmp(prefix(b)));
        let mut writer = RunWriter::create(&kind.path(dir, 0, number))?;
        entries.iter().try_for_each(|span| writer.write(entry(span)))?;
        writer.commit()?;
        self.bytes.clear();
        self.entries.clear();
        Ok(())
    }
}

/// A writer of a run, which appears under its name when it is complete.
struct RunWriter(BufWriter<AtomicFile>);

impl RunWriter {
    fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(BufWriter::with_capacity(BUFFER_BYTES, AtomicFile::create_private(path)?)))
    }

    fn write(&mut self, entry: &[u8]) -> io::Result<()> {
        self.0.write_all(&(entry.len() as u32).to_le_bytes())?;
        self.0.write_all(&crc32c(&[entry]).to_le_bytes())?;
        self.0.write_all(entry)
    }

    fn commit(self) -> io::Result<()> {
        self.0.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    }
}

/// A reader of one run.
struct RunReader {
    file: BufReader<File>,
    path: PathBuf,
    entry: Vec<u8>,
    /// The offset of `entry`, and of the entry after it.
    offset: u64,
    next_offset: u64,
}

impl RunReader {
    fn open(path: PathBuf, offset: u64) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(&path)?);
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { file, path, entry: Vec::new(), offset, next_offset: offset })
    }

    /// Reads the next entry. Returns false at the end.
    fn read_next(&mut self) -> io::Result<bool> {
        self.offset = self.next_offset;
        if self.file.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let mut frame = [0; FRAME_BYTES];
        self.file.read_exact(&mut frame).map_err(|_| self.damaged())?;
        let length = u32_at(&frame, 0) as usize;
        if length > ENTRY_BYTES_MAX {
            return Err(self.damaged());
        }
        self.entry.resize(length, 0);
        self.file.read_exact(&mut self.entry).map_err(|_| self.damaged())?;
        if crc32c(&[&self.entry]) != u32_at(&frame, 4) {
            return Err(self.damaged());
        }
        self.next_offset += (FRAME_BYTES + length) as u64;
        Ok(true)
    }

    fn damaged(&self) -> io::Error {
        let text = format!("{} is damaged; delete its directory, then import again", self.path.display());
        io::Error::new(ErrorKind::InvalidData, text)
    }
}

/// The first bytes of an entry, and its run. Entries with equal bytes are in the order of their runs.
type HeapEntry = Reverse<([u8; PREFIX_BYTES_MAX], usize)>;

/// A reader of the entries of several runs, in ascending order.
pub(super) struct Merge {
    kind: RunKind,
    readers: Vec<RunReader>,
    heap: BinaryHeap<HeapEntry>,
}

impl Merge {
    /// Opens a merge that continues at `offsets`, as [`offsets`](Self::offsets) returned them. Without offsets it begins at the
    /// start.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(super) fn open(kind: RunKind, dir: &Path, runs: RunSet, offsets: &[u64]) -> io::Result<Self> {
        let paths: Vec<PathBuf> = (0..runs.count).map(|number| kind.path(dir, runs.level, number)).collect();
        Self::of_paths(kind, &paths, offsets)
    }

    fn of_paths(kind: RunKind, paths: &[PathBuf], offsets: &[u64]) -> io::Result<Self> {
        let mut merge = Self { kind, readers: Vec::new(), heap: BinaryHeap::new() };
        for (index, path) in paths.iter().enumerate() {
            let offset = offsets.get(index).copied().unwrap_or(0);
            merge.readers.push(RunReader::open(path.clone(), offset)?);
            merge.read_into_heap(index)?;
        }
        Ok(merge)
    }

    /// Returns the least entry. `None` at the end.
    pub(super) fn peek(&self) -> Option<&[u8]> {
        let Reverse((_, index)) = self.heap.peek()?;
        Some(&self.readers[*index].entry)
    }

    /// Goes to the next entry.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(super) fn advance(&mut self) -> io::Result<()> {
        match self.heap.pop() {
            Some(Reverse((_, index))) => self.read_into_heap(index),
            None => Ok(()),
        }
    }

    /// Returns the offset in each run at which the entry of [`peek`](Self::peek) and all later ones begin.
    pub(super) fn offsets(&self) -> Vec<u64> {
        self.readers.iter().map(|reader| reader.offset).collect()
    }

    fn read_into_heap(&mut self, index: usize) -> io::Result<()> {
        let reader = &mut self.readers[index];
        if !reader.read_next()? {
            return Ok(());
        }
        let bytes = reader.entry.get(..self.kind.prefix_bytes).ok_or_else(|| reader.damaged())?;
        let mut prefix = [0; PREFIX_BYTES_MAX];
        prefix[..bytes.len()].copy_from_slice(bytes);
        self.heap.push(Reverse((prefix, index)));
        Ok(())
    }
}

/// Deletes a file that may be missing.
pub(super) fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
