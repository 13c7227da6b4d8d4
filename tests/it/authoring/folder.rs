//! Which files of a folder are a site's.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use parallax::site::source::files::Files;
use tempfile::TempDir;

use super::{SITE, files, line, read_files};

/// A folder with these files and a sound `site.json`.
fn folder(paths: &[&str]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    write(folder.path(), "site.json", SITE.1);
    for path in paths {
        write(folder.path(), path, "{}");
    }
    folder
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn names(files: &Files) -> Vec<&str> {
    files.iter().map(|(path, _)| path).collect()
}

fn told(folder: &TempDir) -> Vec<String> {
    let files = Files::from_folder(folder.path()).expect("a readable folder");
    read_files(&files).1.shown.iter().map(line).collect()
}

#[test]
fn json_files_of_routes_are_found_at_any_depth_and_sorted() {
    let folder = folder(&["routes/z.json", "routes/a/b/c.json", "content/posts.json", "groups.json"]);
    let found = Files::from_folder(folder.path()).expect("a readable folder");
    let expected = ["content/posts.json", "groups.json", "routes/a/b/c.json", "routes/z.json", "site.json"];
    assert_eq!(names(&found), expected);
}

#[test]
fn dot_files_other_endings_and_other_folders_are_not_there() {
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
    let folder = folder(&ignored);
    let found = Files::from_folder(folder.path()).expect("a readable folder");
    assert_eq!(names(&found), ["site.json"]);
    let in_memory = files(&ignored.map(|path| (path, "{}")));
    assert!(in_memory.is_empty());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = TempDir::new().expect("a temporary folder");
    let missing = folder.path().join("no-such-site");
    let error = Files::from_folder(&missing).expect_err("nothing to read");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("no-such-site"), "{error}");
}

#[test]
fn a_link_is_followed_to_a_file_inside_the_folder() {
    let folder = folder(&["shared/old.json"]);
    write(folder.path(), "routes/a.json", r#"{"path":"/a","redirect":{"to":"/b","status":301}}"#);
    symlink("a.json", folder.path().join("routes/b.json")).expect("a link");
    let found = Files::from_folder(folder.path()).expect("a readable folder");
    assert_eq!(found.bytes("routes/b.json"), found.bytes("routes/a.json"));
    assert_eq!(told(&folder), [""; 0]);
}

#[test]
fn a_link_that_leads_out_of_the_folder_is_a_mistake_and_not_read() {
    let outside = folder(&["secret.json"]);
    let folder = folder(&[]);
    symlink(outside.path().join("secret.json"), folder.path().join("groups.json")).expect("a link");
    let found = Files::from_folder(folder.path()).expect("a readable folder");
    assert_eq!(found.bytes("groups.json"), None);
    let expected = "groups.json:1:1  | a file, or a link to a file inside the site's folder | a link that leads elsewhere";
    assert_eq!(told(&folder), [expected]);
}

#[test]
fn links_to_folders_to_nothing_and_to_themselves_are_mistakes() {
    let folder = folder(&["routes/en/a.txt"]);
    symlink("en", folder.path().join("routes/de")).expect("a link");
    symlink("..", folder.path().join("routes/up")).expect("a link");
    symlink("nothing", folder.path().join("routes/gone.json")).expect("a link");
    symlink("loop.json", folder.path().join("routes/loop.json")).expect("a link");
    let told = told(&folder);
    let places = told.iter().map(|line| line.split(' ').next().expect("a place"));
    let expected = ["routes/de:1:1", "routes/gone.json:1:1", "routes/loop.json:1:1", "routes/up:1:1"];
    assert_eq!(places.collect::<Vec<_>>(), expected);
}

#[test]
fn a_socket_in_the_place_of_a_file_is_a_mistake() {
    let folder = folder(&[]);
    let _socket =
        std::os::unix::net::UnixListener::bind(folder.path().join("groups.json")).expect("a socket");
    assert_eq!(told(&folder), ["groups.json:1:1  | a regular file | a special one"]);
}

#[test]
fn a_file_name_that_is_not_utf8_is_a_mistake() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder(&["routes/a.txt"]);
    let name = std::ffi::OsStr::from_bytes(b"\xff.json");
    fs::write(folder.path().join("routes").join(name), "{}").expect("a file");
    assert_eq!(told(&folder), ["routes/\u{fffd}.json:1:1  | a file name in UTF-8 | other bytes"]);
}

#[test]
fn an_unexpected_file_is_a_mistake_with_the_nearest_name() {
    let folder = folder(&["audience.json", "package.json", "content/deep/posts.json"]);
    let known =
        "`site.json`, `audiences.json`, `groups.json`, `queries.json` or a file in `routes/` or `content/`";
    let expected = [
        format!("audience.json:1:1  | {known} | `audience.json` | audiences.json"),
        "content/deep/posts.json:1:1  | `content/<collection>.json` with a name of 1 to 64 of A-Z a-z 0-9 _ - | `content/deep/posts.json`".to_owned(),
        format!("package.json:1:1  | {known} | `package.json`"),
    ];
    assert_eq!(told(&folder), expected);
}

#[test]
fn a_folder_without_a_site_says_what_to_write() {
    let (source, report) = read_files(&files(&[]));
    assert!(source.site.is_none());
    let expected = r#"site.json:1:1  | a file that names the site, at least {"site": "acme", "trackingId": "track_acme", "name": "Acme"} | no such file"#;
    assert_eq!(report.shown.iter().map(line).collect::<Vec<_>>(), [expected]);
}
