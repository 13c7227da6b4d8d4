//! Compiles authored files to a snapshot in memory.

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::Value;

/// Compiles files, each given as path and JSON.
pub fn compiled(files: &[(String, Value)], version: u64) -> Vec<u8> {
    let texts: Vec<_> = files.iter().map(|(path, json)| (path.as_str(), json.to_string())).collect();
    let files = Files::from_memory(texts.iter().map(|(path, text)| (*path, text.as_bytes())));
    let (source, mistakes) = read(&files, &|_, _| {});
    let compiled = compile(&source, mistakes, version, &|_, _| {});
    compiled.unwrap_or_else(|mistakes| panic!("{}", mistakes.report(&files))).bytes
}
