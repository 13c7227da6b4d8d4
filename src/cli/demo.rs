//! The demo site, embedded in the binary, so that a copied binary can show its features without other files.

use include_dir::{Dir, DirEntry, include_dir};

use crate::site::compile::compile;
use crate::site::source::files::Files;
use crate::site::source::read::read;

static DEMO_SITE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/snapshots/demo");

/// Compiles the demo site. Returns the name and the bytes of its snapshot.
///
/// # Panics
/// Panics if the demo site does not compile. A test ensures that it does.
pub fn compile_demo() -> (String, Vec<u8>) {
    let mut found = Vec::new();
    collect_files(&DEMO_SITE, &mut found);
    let (source, diagnostics) = read(&Files::from_memory(found), &|_, _| {});
    let site = source.site.as_ref().expect("the demo has a site.json");
    let version = site.version.unwrap_or(1);
    let name = format!("{}-{version}.snapshot", &*site.site);
    let bytes = compile(&source, diagnostics, version, &|_, _| {});
    (name, bytes.expect("the demo compiles").bytes)
}

fn collect_files(directory: &Dir<'static>, found: &mut Vec<(&'static str, &'static [u8])>) {
    for entry in directory.entries() {
        match entry {
            DirEntry::Dir(inner) => collect_files(inner, found),
            DirEntry::File(file) => found.extend(file.path().to_str().map(|path| (path, file.contents()))),
        }
    }
}
