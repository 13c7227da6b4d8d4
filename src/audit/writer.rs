//! Appends records to the last audit file and syncs them. It begins the next file at a size or an age, and deletes old ones.
//!
//! After a failed append or sync it never uses that descriptor again. The next attempt copies the durable records of the last file to
//! a new file, which replaces it. So does a start: nothing else proves that the records of a killed process are durable. A last
//! file with damage stays as it is, and a new file continues after its last valid record.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{
    HEADER_BYTES, Hash, Head, Header, TEMPORARY_PREFIX, file_name, temporary_name, write_record,
};
use super::reader::{AuditDamage, FileReader, Part};
use super::verify::{directory_of, list_files};
use crate::clock::{Clock, LogClock};
use crate::data_files::audit_number_in_name;
use crate::limits::{AUDIT_FILE_BYTES_MAX, AUDIT_FILE_MS_MAX, AUDIT_RETENTION_INTERVAL_MS};
use crate::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity, append_all, copy_range};

/// The file to which records are appended.
struct ActiveFile {
    file: Box<dyn DiskFile>,
    header: Header,
    bytes: u64,
    link: Hash,
    head: Head,
}

/// The state of the last file on the disk.
struct LastFile {
    name: String,
    first_number: u64,
    /// `None` if the header is damaged.
    content: Option<LastContent>,
    damage: Vec<AuditDamage>,
}

/// The records of the last file.
struct LastContent {
    header: Header,
    end: u64,
    link: Hash,
    head: Head,
    last_ms: Option<i64>,
}

/// The writer of the audit log of a data directory.
pub struct AuditWriter {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    data_directory: PathBuf,
    dir: PathBuf,
    retain_ms: i64,
    /// The data directory at the first use. Another one at its path is of another server, or of a disk that is not mounted.
    data_identity: Option<FileIdentity>,
    /// Excludes the writer of another process, which may start before this one has ended. `None` before the first use.
    lock: Option<Box<dyn DirectoryLock>>,
    /// `None` before the first use, and after a failure.
    active: Option<ActiveFile>,
    /// The last durable record. `None` until the files were read.
    durable: Option<Head>,
    /// The clock of the retention. A wall clock that is wrong for a while deletes little.
    log_clock: Option<LogClock>,
    /// The time of the next search for old files, by the monotonic clock, in ms.
    next_retention_ms: i64,
}

impl AuditWriter {
    /// Creates the writer of a data directory. `retain_ms` is the age at which records may be deleted. The first use opens the log.
    pub fn new(disk: Arc<dyn Disk>, data_directory: &Path, clock: Arc<dyn Clock>, retain_ms: i64) -> Self {
        Self {
            disk,
            clock,
            data_directory: data_directory.to_owned(),
            dir: directory_of(data_directory),
            retain_ms,
            data_identity: None,
            lock: None,
            active: None,
            durable: None,
            log_clock: None,
            next_retention_ms: 0,
        }
    }

    /// Opens the log if it is not open, and deletes old files if it is time. Returns the last durable record.
    ///
    /// # Errors
    /// The disk fails, or another process has the log (`WouldBlock`). The next call tries again.
    pub fn tick(&mut self) -> io::Result<Head> {
        let head = self.open_active()?;
        let monotonic_ms = self.clock.monotonic().as_millis() as i64;
        if monotonic_ms >= self.next_retention_ms {
            self.next_retention_ms = monotonic_ms + AUDIT_RETENTION_INTERVAL_MS;
            self.begin_next_if_due()?;
            self.delete_expired();
        }
        Ok(head)
    }

    /// Appends records, and syncs them with all records before. Returns the last one.
    ///
    /// # Errors
    /// The disk fails. None of the records counts as written, and the next call tries to open the log.
    pub fn append(&mut self, payloads: &[Vec<u8>]) -> io::Result<Head> {
        self.open_active()?;
        self.leave_moved_file()?;
        self.begin_next_if_due()?;
        let Some(mut active) = self.active.take() else { return Err(io::Error::other("no file is open")) };
        let mut bytes = Vec::new();
        for payload in payloads {
            active.link = write_record(&mut bytes, &active.link, payload);
            active.head = Head { number: active.head.number + 1, hash: active.link };
        }
        append_all(&mut *active.file, &bytes)?;
        active.file.sync_data()?;
        active.bytes += bytes.len() as u64;
        let head = active.head;
        self.durable = Some(head);
        self.active = Some(active);
        Ok(head)
    }

    /// Opens the log again if another program has moved or deleted the file or its directory. The lines would be lost otherwise.
    fn leave_moved_file(&mut self) -> io::Result<()> {
        let Some(active) = &self.active else { return Ok(()) };
        let path = self.dir.join(file_name(active.header.first_number));
        let is_same = match self.disk.identity(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            other => other? == active.file.identity()?,
        };
        if !is_same {
            tracing::error!(path = %path.display(), "the audit file was moved or deleted; a new file continues it, and `parallax check` fails until you put the file back");
            self.active = None;
            self.lock = None;
            self.open_active()?;
        }
        Ok(())
    }

    /// Opens the last file to append to it, or creates the first one.
    fn open_active(&mut self) -> io::Result<Head> {
        if let Some(active) = &self.active {
            return Ok(active.head);
        }
        let found_identity = self.disk.identity(&self.data_directory)?;
        if *self.data_identity.get_or_insert(found_identity) != found_identity {
            return Err(io::Error::new(ErrorKind::NotFound, "the data directory was moved or replaced"));
        }
        self.disk.create_directory(&self.dir)?;
        if self.lock.is_none() {
            self.lock = Some(self.disk.lock(&self.dir)?);
        }
        self.delete_temporary()?;
        let names = list_files(&*self.disk, &self.dir)?;
        let last = names.last().map(|name| self.read_last(name)).transpose()?;
        let is_start = self.durable.is_none();
        let begun_ms = self.clock.now_ms();
        let active = match &last {
            Some(LastFile { name, content: Some(content), damage, .. })
                if damage.is_empty() && self.durable.is_none_or(|durable| durable == content.head) =>
            {
                if is_start {
                    self.report_broken_link(&names, content);
                }
                self.copy(name, content)?
            }
            last => {
                let head = self.last_valid(last.as_ref(), &names)?;
                if let Some(last) = last {
                    last.report(&self.dir, self.durable);
                }
                let after_name = last.as_ref().map_or(0, |last| last.first_number.saturating_add(1));
                let first_number = (head.number + 1).max(after_name);
                self.create(Header { first_number, begun_ms, previous_hash: head.hash })?
            }
        };
        let head = active.head;
        let last_ms = last.and_then(|last| last.content).and_then(|content| content.last_ms);
        self.log_clock.get_or_insert_with(|| LogClock::new(last_ms, &*self.clock));
        self.durable = Some(head);
        self.active = Some(active);
        Ok(head)
    }

    /// Reads the last file, but not beyond the durable records: the others belong to requests that were told of the failure.
    fn read_last(&self, name: &str) -> io::Result<LastFile> {
        let mut last = LastFile {
            name: name.to_owned(),
            first_number: audit_number_in_name(name).unwrap_or_default(),
            content: None,
            damage: Vec::new(),
        };
        let mut file = match FileReader::open(&*self.disk, &self.dir, name)? {
            Ok(file) => file,
            Err(damage) => {
                last.damage.push(damage);
                return Ok(last);
            }
        };
        let mut last_ms = Some(file.header.begun_ms);
        while self.durable.is_none_or(|durable| file.head().number < durable.number) {
            match file.next()? {
                Part::Record(record) => last_ms = record.line.at_ms().or(last_ms),
                Part::Damage(damage) => last.damage.push(damage),
                Part::End { .. } => break,
            }
        }
        last.content = Some(LastContent {
            header: file.header,
            end: file.offset(),
            link: file.link(),
            head: file.head(),
            last_ms,
        });
        Ok(last)
    }

    /// Returns the record after which a new file continues.
    fn last_valid(&self, last: Option<&LastFile>, names: &[String]) -> io::Result<Head> {
        if let Some(durable) = self.durable {
            return Ok(durable);
        }
        if let Some(content) = last.and_then(|last| last.content.as_ref()) {
            return Ok(content.head);
        }
        Ok(self.head_of_file_before_last(names)?.unwrap_or_default())
    }

    /// Returns the last record of the file before the last one. `None` if there is none, or its header is damaged.
    fn head_of_file_before_last(&self, names: &[String]) -> io::Result<Option<Head>> {
        let Some(name) = names.len().checked_sub(2).and_then(|index| names.get(index)) else {
            return Ok(None);
        };
        let Ok(mut file) = FileReader::open(&*self.disk, &self.dir, name)? else { return Ok(None) };
        while !matches!(file.next()?, Part::End { .. }) {}
        Ok(Some(file.head()))
    }

    /// Logs an error if the last file does not continue the file before it.
    fn report_broken_link(&self, names: &[String], content: &LastContent) {
        let before = self.head_of_file_before_last(names);
        let is_broken = before.is_ok_and(|before| {
            names.len() > 1 && before.is_none_or(|head| head != content.header.head_before())
        });
        if is_broken {
            let name = file_name(content.header.first_number);
            log_damage(
                &self.dir,
                &AuditDamage {
                    file: name,
                    offset: 0,
                    cause: "the file does not continue the file before it".to_owned(),
                },
            );
        }
    }

    /// Copies the valid records of the last file to a file that replaces it.
    fn copy(&self, name: &str, content: &LastContent) -> io::Result<ActiveFile> {
        let source = self.disk.open(&self.dir.join(name))?;
        let LastContent { header, end, link, head, .. } = *content;
        let file = self.install(header.first_number, &mut |file| {
            copy_range(&*source, 0..end, file)?;
            match file.length()? == end {
                true => Ok(()),
                false => Err(io::Error::new(ErrorKind::UnexpectedEof, "the audit file has become shorter")),
            }
        })?;
        Ok(ActiveFile { file, header, bytes: end, link, head })
    }

    /// Creates a file without records.
    fn create(&self, header: Header) -> io::Result<ActiveFile> {
        let bytes = header.to_bytes();
        let file = self.install(header.first_number, &mut |file| append_all(file, &bytes))?;
        Ok(ActiveFile {
            file,
            header,
            bytes: HEADER_BYTES as u64,
            link: header.link(),
            head: header.head_before(),
        })
    }

    /// Writes a file and gives it its name when it is durable.
    fn install(
        &self,
        first_number: u64,
        write: &mut dyn FnMut(&mut dyn DiskFile) -> io::Result<()>,
    ) -> io::Result<Box<dyn DiskFile>> {
        let temporary = self.dir.join(temporary_name(first_number));
        let mut file = self.disk.create(&temporary)?;
        write(&mut *file)?;
        file.sync_data()?;
        self.disk.rename(&temporary, &self.dir.join(file_name(first_number)))?;
        self.disk.sync_directory(&self.dir)?;
        Ok(file)
    }

    /// Deletes the files that a failure or a killed process has left.
    fn delete_temporary(&self) -> io::Result<()> {
        for name in self.disk.list(&self.dir)?.iter().filter(|name| name.starts_with(TEMPORARY_PREFIX)) {
            self.disk.unlink(&self.dir.join(name))?;
        }
        Ok(())
    }

    /// Begins the next file if the present one is full or old, and has a record.
    fn begin_next_if_due(&mut self) -> io::Result<()> {
        let now_ms = self.clock.now_ms();
        let is_due = |active: &ActiveFile| {
            let age_ms = now_ms.saturating_sub(active.header.begun_ms);
            let is_full = active.bytes >= AUDIT_FILE_BYTES_MAX || age_ms >= AUDIT_FILE_MS_MAX;
            is_full && active.head.number >= active.header.first_number
        };
        let Some(active) = self.active.take_if(|active| is_due(active)) else { return Ok(()) };
        // A clock that was set back does not change the order of the times.
        let begun_ms = now_ms.max(active.header.begun_ms);
        let Head { number, hash } = active.head;
        self.active =
            Some(self.create(Header { first_number: number + 1, begun_ms, previous_hash: hash })?);
        Ok(())
    }

    /// Deletes the files whose last record is older than the retention. A failure is logged, and the next search tries again.
    fn delete_expired(&mut self) {
        let Some(log_clock) = &mut self.log_clock else { return };
        log_clock.advance(&*self.clock);
        let cutoff_ms = log_clock.now_ms().saturating_sub(self.retain_ms);
        if let Err(error) = self.delete_before(cutoff_ms) {
            tracing::warn!(directory = %self.dir.display(), %error, "cannot delete old audit files");
        }
    }

    /// Deletes the files before the last one that began at `cutoff_ms` or earlier: all of their records are older.
    fn delete_before(&self, cutoff_ms: i64) -> io::Result<()> {
        let names = list_files(&*self.disk, &self.dir)?;
        let mut expired_count = 0;
        for (index, name) in names.iter().enumerate() {
            // Nothing tells the age of a file with a damaged header, but a later file does.
            let Ok(file) = FileReader::open(&*self.disk, &self.dir, name)? else { continue };
            if file.header.begun_ms > cutoff_ms {
                break;
            }
            expired_count = index;
        }
        for name in &names[..expired_count] {
            self.disk.unlink(&self.dir.join(name))?;
        }
        if expired_count > 0 {
            self.disk.sync_directory(&self.dir)?;
            tracing::info!(files = expired_count, "deleted audit files whose retention has ended");
        }
        Ok(())
    }
}

impl LastFile {
    /// Logs the damage of the file, and that it has lost durable records.
    fn report(&self, dir: &Path, durable: Option<Head>) {
        self.damage.iter().for_each(|damage| log_damage(dir, damage));
        let content = self.content.as_ref().filter(|_| self.damage.is_empty());
        if let Some(content) = content.filter(|content| durable.is_some_and(|head| head != content.head)) {
            let cause = "the file has lost records that were synced".to_owned();
            log_damage(dir, &AuditDamage { file: self.name.clone(), offset: content.end, cause });
        }
    }
}

fn log_damage(dir: &Path, damage: &AuditDamage) {
    let place = dir.join(damage.to_string());
    tracing::error!(
        place = %place.display(),
        "the audit log is damaged; a new file continues it, and `parallax check` fails until you move the damaged file away"
    );
}
