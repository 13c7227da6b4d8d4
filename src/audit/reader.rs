//! Reads one audit file, record by record, and verifies each hash. After a damaged record it finds the next one.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;

use super::entry::AuditLine;
use super::format::{HASH_BYTES, HEADER_BYTES, Hash, Head, Header, LENGTH_BYTES, record_hash};
use crate::data_files::audit_number_in_name;
use crate::limits::{AUDIT_DAMAGE_OF_FILE_MAX, AUDIT_RECORD_BYTES_MAX};
use crate::little_endian::{array_at, u32_at};
use crate::storage::disk::{Disk, DiskFile, read_full};

/// A damaged place of an audit file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditDamage {
    /// The name of the file.
    pub file: String,
    /// The offset of the damaged record in bytes. 0 is the header.
    pub offset: u64,
    /// The sentence about the damage.
    pub cause: String,
}

impl Display for AuditDamage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { file, offset, cause } = self;
        write!(f, "{file}: at offset {offset}: {cause}")
    }
}

/// A verified record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The number and the hash of the record.
    pub head: Head,
    /// The JSON as it was written.
    pub payload: String,
    pub line: AuditLine,
}

/// The next part of a file.
#[derive(Debug)]
pub(super) enum Part {
    Record(Box<AuditRecord>),
    Damage(AuditDamage),
    /// The end of the file. `has_torn_tail`: an incomplete record follows.
    End {
        has_torn_tail: bool,
    },
}

/// The bytes of a record at some offset.
struct Frame {
    payload: Vec<u8>,
    hash: Hash,
}

/// A reader of one audit file.
pub(super) struct FileReader {
    name: String,
    file: Box<dyn DiskFile>,
    pub(super) header: Header,
    /// The offset of the next record.
    offset: u64,
    /// The length of the file when it was opened. A server can append meanwhile.
    end: u64,
    link: Hash,
    head: Head,
    damage_count: usize,
}

impl FileReader {
    /// Opens a file. Returns the damage if its header cannot be used.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, name: &str) -> io::Result<Result<Self, AuditDamage>> {
        let file = disk.open(&dir.join(name))?;
        let end = file.length()?;
        let mut bytes = [0; HEADER_BYTES];
        let length = read_full(&*file, &mut bytes, 0)?;
        let header = Header::from_bytes(&bytes[..length]).and_then(|header| {
            let is_named = audit_number_in_name(name) == Some(header.first_number);
            if is_named {
                Ok(header)
            } else {
                Err(format!("the file begins with record {}, and its name says another", header.first_number))
            }
        });
        Ok(match header {
            Err(cause) => Err(AuditDamage { file: name.to_owned(), offset: 0, cause }),
            Ok(header) => Ok(Self {
                name: name.to_owned(),
                file,
                header,
                offset: HEADER_BYTES as u64,
                end,
                link: header.link(),
                head: header.head_before(),
                damage_count: 0,
            }),
        })
    }

    /// Returns the offset after the last record.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the link before the next record.
    pub(super) fn link(&self) -> Hash {
        self.link
    }

    /// Returns the number and the hash of the last record.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn next(&mut self) -> io::Result<Part> {
        let left = self.end.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Part::End { has_torn_tail: false });
        }
        if self.damage_count >= AUDIT_DAMAGE_OF_FILE_MAX {
            let damage = self.damage("the file has more damage, and its other records are not read");
            self.offset = self.end;
            return Ok(damage);
        }
        let mut length = [0; LENGTH_BYTES];
        if read_full(&*self.file, &mut length, self.offset)? < LENGTH_BYTES {
            return Ok(Part::End { has_torn_tail: true });
        }
        let length = u32_at(&length, 0) as usize;
        if length == 0 && self.has_only_zeros()? {
            return Ok(Part::End { has_torn_tail: true });
        }
        if let Some(frame) = self.read_frame(length)? {
            if record_hash(&self.link, &frame.payload) == frame.hash {
                return Ok(self.accept(frame));
            }
            let damage = self.damage("the record or one before it was changed, removed or inserted");
            match self.find_record()? {
                Some(frame) => self.skip(&frame),
                None => self.skip(&frame),
            }
            return Ok(damage);
        }
        if let Some(frame) = self.find_record()? {
            let damage = self.damage("the length of the record was changed");
            self.skip(&frame);
            return Ok(damage);
        }
        if (1..=AUDIT_RECORD_BYTES_MAX).contains(&length) {
            return Ok(Part::End { has_torn_tail: true });
        }
        let damage = self.damage("the record has no valid length, and the other records are not read");
        self.end = self.offset;
        Ok(damage)
    }

    /// Returns the verified record, unless it is no line.
    fn accept(&mut self, frame: Frame) -> Part {
        let begin = self.offset;
        self.skip(&frame);
        let line = AuditLine::parse(&frame.payload);
        let payload = String::from_utf8(frame.payload).ok();
        match line.zip(payload) {
            Some((line, payload)) => Part::Record(Box::new(AuditRecord { head: self.head, payload, line })),
            None => self.damage_at(begin, "the record is no line of an audit log"),
        }
    }

    /// Continues after a record. Its hash is the next link, also if it is wrong.
    fn skip(&mut self, frame: &Frame) {
        self.offset += (LENGTH_BYTES + frame.payload.len() + HASH_BYTES) as u64;
        self.link = frame.hash;
        self.head = Head { number: self.head.number.saturating_add(1), hash: frame.hash };
    }

    fn damage(&mut self, cause: &str) -> Part {
        self.damage_at(self.offset, cause)
    }

    fn damage_at(&mut self, offset: u64, cause: &str) -> Part {
        self.damage_count += 1;
        Part::Damage(AuditDamage { file: self.name.clone(), offset, cause: cause.to_owned() })
    }

    /// Reads the record with a length. Returns `None` if the length is invalid or the file is too short.
    fn read_frame(&self, length: usize) -> io::Result<Option<Frame>> {
        if !(1..=AUDIT_RECORD_BYTES_MAX).contains(&length) {
            return Ok(None);
        }
        let bytes = self.read(length + HASH_BYTES)?;
        let is_whole = bytes.len() == length + HASH_BYTES;
        Ok(is_whole.then(|| Frame { payload: bytes[..length].to_vec(), hash: array_at(&bytes, length) }))
    }

    /// Finds the record here by its hash, if only its length is wrong.
    fn find_record(&self) -> io::Result<Option<Frame>> {
        let bytes = self.read(AUDIT_RECORD_BYTES_MAX + HASH_BYTES)?;
        let lengths = 1..=bytes.len().saturating_sub(HASH_BYTES).min(AUDIT_RECORD_BYTES_MAX);
        // A payload is a JSON object, so few lengths need a hash.
        let is_object = |length: &usize| bytes[0] == b'{' && bytes[length - 1] == b'}';
        let found = lengths
            .filter(is_object)
            .map(|length| Frame { payload: bytes[..length].to_vec(), hash: array_at(&bytes, length) })
            .find(|frame| record_hash(&self.link, &frame.payload) == frame.hash);
        Ok(found)
    }

    /// Reads at most `bytes_max` bytes after the length of the record.
    fn read(&self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let begin = self.offset + LENGTH_BYTES as u64;
        let room = usize::try_from(self.end.saturating_sub(begin)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; bytes_max.min(room)];
        let length = read_full(&*self.file, &mut bytes, begin)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Returns whether the rest of the file is zeros.
    fn has_only_zeros(&self) -> io::Result<bool> {
        let mut at = self.offset;
        let mut bytes = [0; 4096];
        while at < self.end {
            let length = read_full(&*self.file, &mut bytes, at)?;
            if length == 0 {
                break;
            }
            if bytes[..length].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += length as u64;
        }
        Ok(true)
    }
}
