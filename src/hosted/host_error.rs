//! The errors of the host's file operations, with the texts of the program.

use std::io::{self, ErrorKind};

/// An error of the system of the host.
#[derive(Debug, Clone)]
pub struct HostError {
    /// The name of the error, such as ENOENT. Empty for an error that is not of the system.
    pub code: String,
    /// The number of the error on the system of the host. 0 where no number is shown.
    pub number: i32,
    /// The text of the host, for a code without a text of its own.
    pub text: String,
}

/// The texts of the C library of Linux, by code.
const TEXTS: &[(&str, ErrorKind, &str)] = &[
    ("EACCES", ErrorKind::PermissionDenied, "Permission denied"),
    ("EADDRINUSE", ErrorKind::AddrInUse, "Address already in use"),
    ("EADDRNOTAVAIL", ErrorKind::AddrNotAvailable, "Cannot assign requested address"),
    ("EBUSY", ErrorKind::ResourceBusy, "Device or resource busy"),
    ("EDQUOT", ErrorKind::QuotaExceeded, "Disk quota exceeded"),
    ("EEXIST", ErrorKind::AlreadyExists, "File exists"),
    ("EFBIG", ErrorKind::FileTooLarge, "File too large"),
    ("EINVAL", ErrorKind::InvalidInput, "Invalid argument"),
    ("EIO", ErrorKind::Other, "Input/output error"),
    ("EISDIR", ErrorKind::IsADirectory, "Is a directory"),
    ("ELOOP", ErrorKind::Other, "Too many levels of symbolic links"),
    ("EMFILE", ErrorKind::Other, "Too many open files"),
    ("ENAMETOOLONG", ErrorKind::InvalidFilename, "File name too long"),
    ("ENOENT", ErrorKind::NotFound, "No such file or directory"),
    ("ENOSPC", ErrorKind::StorageFull, "No space left on device"),
    ("ENOTDIR", ErrorKind::NotADirectory, "Not a directory"),
    ("ENOTEMPTY", ErrorKind::DirectoryNotEmpty, "Directory not empty"),
    ("EPERM", ErrorKind::PermissionDenied, "Operation not permitted"),
    ("EROFS", ErrorKind::ReadOnlyFilesystem, "Read-only file system"),
    ("EXDEV", ErrorKind::CrossesDevices, "Invalid cross-device link"),
];

impl HostError {
    /// Returns the error as the standard library shows it.
    pub fn to_io_error(&self) -> io::Error {
        let listed = TEXTS.iter().find(|(code, ..)| *code == self.code);
        let (kind, text) = listed.map_or((ErrorKind::Other, &*self.text), |(_, kind, text)| (*kind, *text));
        let number = match self.number {
            0 => String::new(),
            number => format!(" (os error {number})"),
        };
        io::Error::new(kind, format!("{text}{number}"))
    }

    pub(super) fn not_found() -> Self {
        Self::of("ENOENT", 2)
    }

    pub(super) fn not_a_directory() -> Self {
        Self::of("ENOTDIR", 20)
    }

    pub(super) fn is_a_directory() -> Self {
        Self::of("EISDIR", 21)
    }

    fn of(code: &str, number: i32) -> Self {
        Self { code: code.to_owned(), number, text: String::new() }
    }
}
