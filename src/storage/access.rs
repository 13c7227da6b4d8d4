//! Access to a data directory: its owner reads and writes the files, a group may read them, and others never have access.
//!
//! Every file and directory of the data directory is created here, or gets its access here. The umask has no effect on it.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::unistd::Group;
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown};

use crate::data_files::AUDIT_DIRECTORY;

/// The mode of a file without a group.
pub(super) const OWNER_FILE: u32 = 0o600;
const OWNER_DIRECTORY: u32 = 0o700;
/// The bits that a group gets in addition.
const GROUP_FILE: u32 = 0o040;
const GROUP_DIRECTORY: u32 = 0o050;
/// The bits of a group.
const GROUP: u32 = 0o070;
/// The bits of users who are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// The ID of the group that may read the data directory. It is an attribute of the process, as the umask is. A process
/// without it gives access to the owner alone.
static DATA_GROUP: OnceLock<u32> = OnceLock::new();

/// Sets the group that may read the data directory, by name or number (`--data-group`).
///
/// # Errors
/// The system knows no group of this name.
pub(crate) fn set_data_group(name_or_id: &str) -> Result<(), String> {
    let by_name = || Group::from_name(name_or_id).ok().flatten().map(|group| group.gid.as_raw());
    let id = name_or_id.parse().ok().or_else(by_name);
    let id =
        id.ok_or_else(|| format!("--data-group: this machine has no group {name_or_id:?}; create it first"))?;
    DATA_GROUP.get_or_init(|| id);
    Ok(())
}

/// Creates a file to read and to write. Returns `AlreadyExists` if the name exists.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(OWNER_FILE).open(path)?;
    allow_group(&file);
    Ok(file)
}

/// Creates an empty file that a process can lock, unless it exists.
pub(crate) fn create_lockable(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(OWNER_FILE).open(path).map(drop)
}

/// Creates a directory.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(OWNER_DIRECTORY).create(path)?;
    allow_group(&File::open(path)?);
    Ok(())
}

/// Gives a new file or directory its access. A file system without modes or groups refuses that. Then the file stays as it
/// was created, without access for others, and [`restrict_directory`] reports it at the next start.
pub(super) fn allow_group(file: &File) {
    let _ = set_access(file);
}

/// Returns the mode of a file or a directory, and the bits that a group gets in addition.
fn modes(is_directory: bool) -> (u32, u32) {
    if is_directory { (OWNER_DIRECTORY, GROUP_DIRECTORY) } else { (OWNER_FILE, GROUP_FILE) }
}

/// Gives a file or directory its access. If it cannot get the group, its owner alone has access.
fn set_access(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let (owner, group) = modes(metadata.is_dir());
    // Without access for a group until it is the right one.
    fchmod(file, Mode::from_raw_mode(owner))?;
    let Some(id) = DATA_GROUP.get() else { return Ok(()) };
    // A sandbox may forbid the call, as that of `packaging/parallax.service`. The files have the server's own group anyway.
    if metadata.gid() != *id {
        fchown(file, None, Some(Gid::from_raw(*id)))?;
    }
    Ok(fchmod(file, Mode::from_raw_mode(owner | group))?)
}

/// Gives a copy the mode, the owner and the group of its original. Root makes copies for the user of the server.
///
/// # Errors
/// The owner of the copy is another user, and the system refuses the change.
pub(crate) fn copy_access(original: &Path, copy: &Path) -> io::Result<()> {
    let metadata = fs::metadata(original)?;
    // The directory can belong to another user, who must not replace the copy by a link.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(copy)?;
    let copied = file.metadata()?;
    if (metadata.uid(), metadata.gid()) != (copied.uid(), copied.gid()) {
        fchown(&file, Some(Uid::from_raw(metadata.uid())), Some(Gid::from_raw(metadata.gid())))?;
    }
    file.set_permissions(metadata.permissions())
}

/// The access to a data directory before and after [`restrict_directory`].
#[derive(Debug, Default)]
pub(crate) struct AccessReport {
    /// The number of files and directories to which others had access.
    pub(crate) open_to_others: usize,
    /// The number of files and directories to which a group had access, and has none any more.
    pub(crate) closed_to_group: usize,
    /// The first file or directory that could not get its access, and the reason.
    pub(crate) failure: Option<(PathBuf, io::Error)>,
}

/// The access to a file or directory before [`restrict`].
struct AccessBefore {
    is_open_to_others: bool,
    /// True if a group had access, and has none any more.
    is_closed_to_group: bool,
}

/// Gives an existing data directory and its files their access, and so the directory of the audit log. Other kinds of files, and other
/// directories in it, are not of the server.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn restrict_directory(directory: &Path) -> io::Result<AccessReport> {
    let mut report = AccessReport::default();
    // The directory is the first: after it, others reach no file.
    report.restrict(directory);
    report.restrict_files(directory)?;
    let audit = directory.join(AUDIT_DIRECTORY);
    if fs::symlink_metadata(&audit).is_ok_and(|metadata| metadata.is_dir()) {
        report.restrict(&audit);
        report.restrict_files(&audit)?;
    }
    Ok(report)
}

impl AccessReport {
    fn restrict_files(&mut self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                self.restrict(&entry.path());
            }
        }
        Ok(())
    }

    fn restrict(&mut self, path: &Path) {
        match restrict(path) {
            Ok(before) => {
                self.open_to_others += usize::from(before.is_open_to_others);
                self.closed_to_group += usize::from(before.is_closed_to_group);
            }
            // A server that is ending has deleted a temporary file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => _ = self.failure.get_or_insert_with(|| (path.to_owned(), error)),
        }
    }
}

/// Gives a file or directory its access, unless it has it.
fn restrict(path: &Path) -> io::Result<AccessBefore> {
    let before = fs::metadata(path)?;
    if !has_access(&before) {
        let set = File::open(path).and_then(|file| set_access(&file));
        // Some file systems accept another mode and keep their own.
        let is_open = fs::metadata(path)?.mode() & OTHERS != 0;
        set?;
        if is_open {
            return Err(io::Error::other("the file system gives access to other users"));
        }
    }
    Ok(AccessBefore {
        is_open_to_others: before.mode() & OTHERS != 0,
        is_closed_to_group: before.mode() & GROUP != 0 && DATA_GROUP.get().is_none(),
    })
}

/// Returns whether a file or directory has the access that [`set_access`] gives it.
fn has_access(metadata: &Metadata) -> bool {
    let mode = metadata.mode() & 0o7777;
    let (owner, group) = modes(metadata.is_dir());
    DATA_GROUP.get().map_or(mode == owner, |id| mode == owner | group && metadata.gid() == *id)
}
