//! An `export -o` that a signal ends leaves no file with records.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Row, as_arg, parallax, run, write_sealed_log};
use crate::harness::{eventually, temporary_directory};

/// Attempts to send the signal while the export runs. One is enough, unless the machine is very busy.
const ATTEMPTS_MAX: usize = 50;

/// Writes a log of 48 MB, whose export takes a moment.
fn write_large_log(directory: &Path) {
    let mut row = Row::of("ana@example.com");
    row.payload = serde_json::json!({ "event": "Viewed", "pad": "p".repeat(1_000_000) }).to_string();
    write_sealed_log(directory, &vec![row; 48]);
}

/// Compiles a library with which no file system has files without a name.
fn library_without_unnamed_files(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("open.c"), directory.join("open.so"));
    let text = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <stdarg.h>
        int open64(const char *path, int flags, ...) {
            int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
            va_list rest;
            va_start(rest, flags);
            mode_t mode = va_arg(rest, mode_t);
            va_end(rest);
            if ((flags & O_TMPFILE) == O_TMPFILE) { errno = EOPNOTSUPP; return -1; }
            return next(path, flags, mode);
        }"#;
    fs::write(&source, text).expect("written");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
    assert!(compiled.expect("a C compiler, which links this program too").success());
    library
}

/// Returns whether the process has an open file in `directory`, with or without a name.
fn has_open_file(process: &Child, directory: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", process.id())).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|path| path.starts_with(directory))
}

/// Exports `log` to a file in `directory`, and sends a signal while the file is written. Returns the signal that ended the
/// export. `None` if it was faster.
fn export_and_kill(mut command: Command, log: &Path, directory: &Path, signal: &str) -> Option<i32> {
    let file = directory.join("events.ndjson");
    let command = command.args(["export", as_arg(log), "-o", as_arg(&file)]);
    let mut export = command.stdout(Stdio::null()).spawn().expect("it starts");
    eventually("the file is open, or the export has ended", || {
        let has_ended = export.try_wait().expect("its status is readable").is_some();
        (has_ended || has_open_file(&export, directory)).then_some(())
    });
    // It fails if the export has ended.
    let _ =
        Command::new("kill").args(["-s", signal, &export.id().to_string()]).stderr(Stdio::null()).status();
    let ended = export.wait().expect("it ends").signal();
    let names: Vec<_> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    match ended {
        Some(_) => assert!(names.is_empty(), "{signal}: {names:?}"),
        None => assert_eq!(names, ["events.ndjson"]),
    }
    let _ = fs::remove_file(file);
    ended
}

#[test]
fn an_export_that_a_signal_ends_leaves_no_file() {
    let log = temporary_directory();
    write_large_log(log.path());
    for (name, number) in [("INT", 2), ("TERM", 15), ("KILL", 9)] {
        let directory = temporary_directory();
        let attempts =
            (0..ATTEMPTS_MAX).map(|_| export_and_kill(parallax(&[]), log.path(), directory.path(), name));
        assert_eq!(attempts.flatten().next(), Some(number), "{name}");
    }
}

#[test]
fn an_export_that_a_signal_ends_leaves_no_file_where_each_file_needs_a_name() {
    let (log, libraries) = (temporary_directory(), temporary_directory());
    write_large_log(log.path());
    let library = library_without_unnamed_files(libraries.path());
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let directory = temporary_directory();
        let attempts = (0..ATTEMPTS_MAX).map(|_| {
            let mut command = parallax(&[]);
            command.env("LD_PRELOAD", &library);
            export_and_kill(command, log.path(), directory.path(), name)
        });
        assert_eq!(attempts.flatten().next(), Some(number), "{name}");
    }
}

#[test]
fn an_export_replaces_a_file_with_and_without_files_that_have_no_name() {
    let (log, target) = (temporary_directory(), temporary_directory());
    write_sealed_log(log.path(), &[Row::of("a"), Row::of("b")]);
    let whole = run(&["export", as_arg(log.path())]).out;
    let library = library_without_unnamed_files(log.path());
    let file = target.path().join("events.ndjson");
    for preload in ["", as_arg(&library)] {
        for before in [None, Some("old")] {
            let _ = fs::remove_file(&file);
            before.into_iter().for_each(|text| fs::write(&file, text).expect("written"));
            let mut command = parallax(&["export", as_arg(log.path()), "-o", as_arg(&file)]);
            let status = command.env("LD_PRELOAD", preload).stdout(Stdio::null()).status();
            assert!(status.expect("it runs").success());
            assert_eq!(fs::read_to_string(&file).expect("it exists"), whole);
            assert_eq!(fs::read_dir(target.path()).expect("a directory").count(), 1);
        }
    }
}
