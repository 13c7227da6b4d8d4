//! The files of a directory that belong to a site.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use parallax::testing::site::source::files::Files;
use tempfile::TempDir;

use super::{SITE, files, line, read_files};

/// Creates a directory with these files and a valid `site.json`.
fn site_directory(paths: &[&str]) -> TempDir {
    let directory = TempDir::new().expect("a temporary directory");
    write(directory.path(), "site.json", SITE.1);
    for path in paths {
        write(directory.path(), path, "{}");
    }
    directory
}

fn write(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("a file");
}

fn names(files: &Files) -> Vec<&str> {
    files.iter().map(|(path, _)| path).collect()
}

fn report_lines(directory: &TempDir) -> Vec<String> {
    let files = Files::from_directory(directory.path()).expect("a readable directory");
    read_files(&files).1.diagnostics.iter().map(line).collect()
}

#[test]
fn route_files_are_found_at_any_depth_and_sorted() {
    let directory =
        site_directory(&["routes/z.json", "routes/a/b/c.json", "content/posts.json", "groups.json"]);
    let found = Files::from_directory(directory.path()).expect("a readable directory");
    let expected = ["content/posts.json", "groups.json", "routes/a/b/c.json", "routes/z.json", "site.json"];
    assert_eq!(names(&found), expected);
}

#[test]
fn dot_files_other_extensions_and_other_directories_are_ignored() {
    let ignored = [
        "README.md",
        ".hidden.json",
        ".git/config.json",
        "routes/.index.json",
        "routes/.draft/a.json",
        "routes/a.json~",
        "routes/a.txt",
        "assets/a.json",
    ];
    let directory = site_directory(&ignored);
    let found = Files::from_directory(directory.path()).expect("a readable directory");
    assert_eq!(names(&found), ["site.json"]);
    let in_memory = files(&ignored.map(|path| (path, "{}")));
    assert!(in_memory.is_empty());
}

#[test]
fn an_error_names_the_missing_directory() {
    let directory = TempDir::new().expect("a temporary directory");
    let missing = directory.path().join("no-such-site");
    let error = Files::from_directory(&missing).expect_err("nothing to read");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("no-such-site"), "{error}");
}

#[test]
fn a_symlink_to_a_file_inside_the_directory_is_followed() {
    let directory = site_directory(&["shared/old.json"]);
    write(directory.path(), "routes/a.json", r#"{"path":"/a","redirect":{"to":"/b","status":301}}"#);
    symlink("a.json", directory.path().join("routes/b.json")).expect("a link");
    let found = Files::from_directory(directory.path()).expect("a readable directory");
    assert_eq!(found.bytes("routes/b.json"), found.bytes("routes/a.json"));
    assert_eq!(report_lines(&directory), [""; 0]);
}

#[test]
fn a_symlink_out_of_the_directory_is_an_error_and_is_not_read() {
    let outside = site_directory(&["secret.json"]);
    let directory = site_directory(&[]);
    symlink(outside.path().join("secret.json"), directory.path().join("groups.json")).expect("a link");
    let found = Files::from_directory(directory.path()).expect("a readable directory");
    assert_eq!(found.bytes("groups.json"), None);
    let expected =
        "groups.json:1:1  | a file, or a link to a file inside the site directory | a link to something else";
    assert_eq!(report_lines(&directory), [expected]);
}

#[test]
fn symlinks_to_directories_nothing_or_themselves_are_errors() {
    let directory = site_directory(&["routes/en/a.txt"]);
    symlink("en", directory.path().join("routes/de")).expect("a link");
    symlink("..", directory.path().join("routes/up")).expect("a link");
    symlink("nothing", directory.path().join("routes/gone.json")).expect("a link");
    symlink("loop.json", directory.path().join("routes/loop.json")).expect("a link");
    let report_lines = report_lines(&directory);
    let places = report_lines.iter().map(|line| line.split(' ').next().expect("a position"));
    let expected = ["routes/de:1:1", "routes/gone.json:1:1", "routes/loop.json:1:1", "routes/up:1:1"];
    assert_eq!(places.collect::<Vec<_>>(), expected);
}

#[test]
fn a_socket_in_place_of_a_file_is_an_error() {
    let directory = site_directory(&[]);
    let _socket =
        std::os::unix::net::UnixListener::bind(directory.path().join("groups.json")).expect("a socket");
    assert_eq!(report_lines(&directory), ["groups.json:1:1  | a regular file | a special file"]);
}

#[test]
fn a_file_name_that_is_not_utf8_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    let directory = site_directory(&["routes/a.txt"]);
    let name = std::ffi::OsStr::from_bytes(b"\xff.json");
    fs::write(directory.path().join("routes").join(name), "{}").expect("a file");
    assert_eq!(report_lines(&directory), ["routes/\u{fffd}.json:1:1  | a file name in UTF-8 | other bytes"]);
}

#[test]
fn an_unexpected_file_is_reported_with_the_nearest_name() {
    let directory = site_directory(&["audience.json", "package.json", "content/deep/posts.json"]);
    let known =
        "`site.json`, `audiences.json`, `groups.json`, `queries.json` or a file in `routes/` or `content/`";
    let expected = [
        format!("audience.json:1:1  | {known} | `audience.json` | audiences.json"),
        "content/deep/posts.json:1:1  | `content/<collection>.json` with a name of 1 to 64 of A-Z a-z 0-9 _ - | `content/deep/posts.json`".to_owned(),
        format!("package.json:1:1  | {known} | `package.json`"),
    ];
    assert_eq!(report_lines(&directory), expected);
}

#[test]
fn a_missing_site_file_is_reported_with_an_example() {
    let (source, report) = read_files(&files(&[]));
    assert!(source.site.is_none());
    let expected = r#"site.json:1:1  | a file that names the site, at least {"site": "acme", "trackingId": "track_acme", "name": "Acme"} | no such file"#;
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), [expected]);
}

#[test]
fn files_in_memory_and_in_a_directory_are_skipped_for_the_same_reasons() {
    let paths = [
        "route/a.json",
        "contents/deep/a.json",
        "pictures/a.json",
        "routes/a.jsn",
        "routes/.hidden/a.jsn",
        "site.jsonc",
        "readme.md",
        "tests/a.json",
    ];
    let directory = site_directory(&paths);
    let on_disk = Files::from_directory(directory.path()).expect("a readable directory");
    let texts: Vec<(&str, &str)> = paths.iter().map(|path| (*path, "{}")).collect();
    let in_memory = files(&[&[SITE], &texts[..]].concat());
    let skipped: Vec<_> = on_disk.skipped().map(|(path, _)| path).collect();
    assert_eq!(skipped, ["contents", "route", "routes/a.jsn", "site.jsonc"]);
    assert!(in_memory == on_disk, "{in_memory:?}\n{on_disk:?}");
}
