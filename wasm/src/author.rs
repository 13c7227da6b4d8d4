//! Compiles sites.

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
        let (pairs, rest) = files.as_chunks::<2>();
        if !rest.is_empty() {
            return Err("the last file has no content".to_owned());
        }
        let files = pairs.iter().map(|[path, content]| Ok((text(path)?, *content)));
        let files: Vec<(&str, &[u8])> = files.collect::<Result<_, String>>()?;
        let compiled = hosted::compile(&files, version)?;
        Ok([framed(0, &compiled.snapshot), framed(0, compiled.warnings.as_bytes())].concat())
    })
}
