//! Compiles sites, and explains what invented visitors of them get.

use parallax::hosted;

use super::{framed, reply, text};

/// Compiles a site. The input is the version as text, empty for that of the site or the time, and then the path and the content of
/// each file. The output has two outputs within it: the snapshot, and the warnings.
#[unsafe(no_mangle)]
pub extern "C" fn compile() -> *const u8 {
    reply(|strings| {
        let (version, files) = strings.split_first().ok_or("the input has no version")?;
        let version = match text(version)? {
            "" => None,
            version => Some(version.parse().map_err(|error| format!("version {version}: {error}"))?),
        };
        let files = files_of(files)?;
        let compiled = hosted::compile(&files, version)?;
        Ok([framed(0, &compiled.snapshot), framed(0, compiled.warnings.as_bytes())].concat())
    })
}

/// Answers a question about an invented visitor of a site. The input is the question, and then the path and the content of each file.
/// The output is the response for the page, with the reasons.
#[unsafe(no_mangle)]
pub extern "C" fn explain() -> *const u8 {
    reply(|strings| {
        let (question, files) = strings.split_first().ok_or("the input has no question")?;
        hosted::explain(&files_of(files)?, question).map(String::into_bytes)
    })
}

/// Returns the files of an input that has the path and the content of each.
fn files_of<'i>(strings: &'i [&'i [u8]]) -> Result<Vec<(&'i str, &'i [u8])>, String> {
    let (pairs, rest) = strings.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("the last file has no content".to_owned());
    }
    pairs.iter().map(|[path, content]| Ok((text(path)?, *content))).collect()
}
