//! The demo site, inside the binary, so that a program that was copied alone to a machine can show
//! what it does.

use include_dir::{Dir, DirEntry, include_dir};

use crate::site::compile::compile;
use crate::site::source::files::Files;
use crate::site::source::read::read;

static SITE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/snapshots/demo");

/// The name and the bytes of the demo's snapshot.
///
/// # Panics
/// If the demo has a mistake, which a test would have found.
pub fn snapshot() -> (String, Vec<u8>) {
    let mut found = Vec::new();
    collect(&SITE, &mut found);
    let (source, mistakes) = read(&Files::from_memory(found), &|_, _| {});
    let site = source.site.as_ref().expect("the demo has a site.json");
    let version = site.version.unwrap_or(1);
    let name = format!("{}-{version}.snapshot", &*site.site);
    let bytes = compile(&source, mistakes, version, &|_, _| {});
    (name, bytes.expect("the demo compiles").bytes)
}

fn collect(folder: &Dir<'static>, found: &mut Vec<(&'static str, &'static [u8])>) {
    for entry in folder.entries() {
        match entry {
            DirEntry::Dir(inner) => collect(inner, found),
            DirEntry::File(file) => found.extend(file.path().to_str().map(|path| (path, file.contents()))),
        }
    }
}
