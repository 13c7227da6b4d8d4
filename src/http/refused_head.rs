//! The head of a request that is refused before it is parsed completely, as far as it can be read.
//!
//! The head may be unfinished or malformed. It decides only the CORS fields of the refusal, so that browser code
//! can read it.

/// The parts of a refused request that its response depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedHead<'a> {
    pub method: &'a [u8],
    /// The path of the target. Empty if it was not received.
    pub path: &'a str,
    /// The query of the target, without the question mark.
    pub query: &'a str,
    /// The first Origin field whose line was received completely.
    pub origin: Option<&'a [u8]>,
}

impl<'a> RefusedHead<'a> {
    /// Reads the head at the start of `bytes`.
    pub fn read(bytes: &'a [u8]) -> Self {
        let mut lines = bytes.split_inclusive(|b| *b == b'\n');
        let first = lines.next().unwrap_or_default().trim_ascii_end();
        let mut words = first.split(|b| *b == b' ');
        let method = words.next().unwrap_or_default();
        let target = words.next().and_then(|target| std::str::from_utf8(target).ok()).unwrap_or_default();
        let (path, query) = split_target(target);
        let fields =
            lines.map_while(|line| Some(line.strip_suffix(b"\r\n")?).filter(|line| !line.is_empty()));
        Self { method, path, query, origin: fields.filter_map(origin_of).next() }
    }
}

/// Returns the path and the query of an origin-form or an absolute-form.
fn split_target(target: &str) -> (&str, &str) {
    let absolute = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
    let origin_form = absolute.map_or(target, |rest| rest.find('/').map_or("", |at| &rest[at..]));
    origin_form.split_once('?').unwrap_or((origin_form, ""))
}

/// Returns the value of a line that is an Origin field.
fn origin_of(line: &[u8]) -> Option<&[u8]> {
    let (name, value) = line.split_at_checked(b"origin:".len())?;
    name.eq_ignore_ascii_case(b"origin:").then(|| value.trim_ascii())
}
