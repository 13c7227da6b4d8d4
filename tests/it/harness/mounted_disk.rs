//! A disk in memory that a test mounts.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::temporary_directory;

/// A mounted disk in memory, unmounted on drop.
pub struct MountedDisk(TempDir);

impl MountedDisk {
    /// Mounts a disk of this size, such as `8m`. Returns `None` and prints a notice if this user may not mount a disk.
    pub fn new(size: &str) -> Option<Self> {
        let directory = temporary_directory();
        let is_mounted = mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "none"], directory.path());
        if !is_mounted {
            eprintln!("SKIPPED: cannot test a disk of its own, because mounting a tmpfs needs root");
        }
        is_mounted.then_some(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn remount(&self, mode: &str) {
        assert!(mount(&["-o", &format!("remount,{mode}")], self.path()), "remounted");
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        // A server that is ending may use it for a moment longer.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

fn mount(args: &[&str], directory: &Path) -> bool {
    Command::new("mount").args(args).arg(directory).status().is_ok_and(|status| status.success())
}
