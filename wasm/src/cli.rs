//! Runs the commands for the directory of a site.
//!
//! Input and output are lists of records. A record is a tag and a fixed number of fields, each a byte string.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax::hosted::command::{
    Change, DevStep, Entry, EntryKind, Fact, HostError, Invocation, Outcome, dev as dev_step,
    run as run_command,
};

use super::{reply, text};

/// Runs a command. It changes nothing outside of its output, so the host starts it again after each output `need`.
///
/// Records of the input: `argument` TEXT; `variable` NAME VALUE; `columns` NUMBER; `fact` PATH REAL_PATH KIND LENGTH ERROR CONTENT;
/// `failure` NUMBER ERROR of a change; `closed` ERROR of standard output. KIND is `unreadable`, `directory`, `file` or `special`. ERROR is
/// empty or `CODE NUMBER TEXT`. The content of a directory has for each entry its kind `f`, `d`, `l` or `s`, its name, and a zero byte. The
/// kind is in upper case if the name is not UTF-8.
///
/// Records of the output: `need` PATH BYTES, and no other record. Or `code` NUMBER; `output` TEXT; `errors` TEXT; the changes in their
/// order: `directory` PATH, `write` PATH CONTENT, `replace` PATH CONTENT, `delete` PATH; and `serve` ADDRESS DIRECTORY.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> *const u8 {
    reply(|strings| {
        let invocation = invocation(strings)?;
        Ok(records(run_command(invocation)))
    })
}

/// Runs a step of `parallax dev`. The first byte strings of the input are the step and its operand: `begin` DIRECTORY, `compile` and an empty
/// text, `report` and an empty text, `listening` ADDRESS, or `refused` and `ADDRESS ERROR`. The rest is as for `run`.
#[unsafe(no_mangle)]
pub extern "C" fn dev() -> *const u8 {
    reply(|strings| {
        let ([name, operand], rest) = strings.split_first_chunk().ok_or("the input has no step")?;
        let operand = text(operand)?;
        let address = |text: &str| text.parse().map_err(|error| format!("address {text}: {error}"));
        let step = match text(name)? {
            "begin" => DevStep::Begin(Path::new(operand)),
            "compile" => DevStep::Compile,
            "report" => DevStep::Report,
            "listening" => DevStep::Listening(address(operand)?),
            "refused" => {
                let (at, cause) = operand.split_once(' ').ok_or("no error")?;
                DevStep::Refused(address(at)?, host_error(cause)?)
            }
            other => return Err(format!("unknown step {other}")),
        };
        Ok(records(dev_step(step, invocation(rest)?)))
    })
}

fn invocation(strings: &[&[u8]]) -> Result<Invocation, String> {
    let mut invocation = Invocation { words: vec!["parallax".to_owned()], ..Invocation::default() };
    let mut rest = strings.iter();
    let mut variables = BTreeMap::new();
    while let Some(tag) = rest.next() {
        let mut field = || rest.next().copied().ok_or_else(|| "a record has too few fields".to_owned());
        match text(tag)? {
            "argument" => invocation.words.push(text(field()?)?.to_owned()),
            "variable" => {
                let name = text(field()?)?.to_owned();
                variables.insert(name, text(field()?)?.to_owned());
            }
            "columns" => invocation.columns = text(field()?)?.parse().ok(),
            "fact" => {
                let path = PathBuf::from(text(field()?)?);
                let real = PathBuf::from(text(field()?)?);
                let fact = fact(text(field()?)?, number(field()?)?, text(field()?)?, field()?)?;
                invocation.files.facts.insert(path, (fact, real));
            }
            "closed" => invocation.output_error = Some(host_error(text(field()?)?)?),
            "failure" => {
                let change = number(field()?)?;
                invocation.files.failures.insert(change, host_error(text(field()?)?)?);
            }
            other => return Err(format!("unknown record {other}")),
        }
    }
    invocation.variables = variables;
    Ok(invocation)
}

fn number(field: &[u8]) -> Result<usize, String> {
    text(field)?.parse().map_err(|error| format!("a number: {error}"))
}

fn fact(kind: &str, length: usize, error: &str, content: &[u8]) -> Result<Fact, String> {
    let error = if error.is_empty() { None } else { Some(host_error(error)?) };
    Ok(match (kind, error) {
        ("unreadable", Some(error)) => Fact::Unreadable(error),
        ("directory", None) => Fact::Directory(Ok(entries(content)?)),
        ("directory", Some(error)) => Fact::Directory(Err(error)),
        ("file", error) => Fact::File { length, content: error.map_or_else(|| Ok(content.to_vec()), Err) },
        ("special", None) => Fact::Special,
        _ => return Err(format!("unknown kind of path {kind}")),
    })
}

fn entries(content: &[u8]) -> Result<Vec<Entry>, String> {
    let listed = text(content)?.split_terminator('\0');
    let entry = |entry: &str| {
        let letter = entry.chars().next().unwrap_or_default();
        let kind = match letter.to_ascii_lowercase() {
            'f' => EntryKind::File,
            'd' => EntryKind::Directory,
            'l' => EntryKind::Link,
            's' => EntryKind::Special,
            _ => return Err(format!("unknown kind of entry {entry}")),
        };
        Ok(Entry { name: OsString::from(&entry[1..]), is_utf8: letter.is_ascii_lowercase(), kind })
    };
    listed.map(entry).collect()
}

/// Parses an error: code, number and text.
fn host_error(error: &str) -> Result<HostError, String> {
    let mut parts = error.splitn(3, ' ');
    let mut part = || parts.next().unwrap_or_default();
    let code = part().to_owned();
    let number = part().parse().map_err(|error| format!("the number of an error: {error}"))?;
    Ok(HostError { code, number, text: part().to_owned() })
}

/// Returns the output of a run.
fn records(outcome: Outcome) -> Vec<u8> {
    let mut out = Vec::new();
    let mut record = |fields: &[&[u8]]| {
        for field in fields {
            out.extend_from_slice(&(field.len() as u32).to_le_bytes());
            out.extend_from_slice(field);
        }
    };
    match outcome {
        Outcome::Needs(needs) => {
            for (path, bytes) in &needs {
                record(&[b"need", bytes_of(path), bytes.to_string().as_bytes()]);
            }
        }
        Outcome::Ended { code, streams, changes, serve } => {
            record(&[b"code", code.to_string().as_bytes()]);
            record(&[b"output", streams.output.as_bytes()]);
            record(&[b"errors", streams.errors.as_bytes()]);
            for change in &changes {
                match change {
                    Change::CreateDirectories(path) => record(&[b"directory", bytes_of(path)]),
                    Change::Write(path, content) => record(&[b"write", bytes_of(path), content]),
                    Change::WriteAtomic(path, content) => record(&[b"replace", bytes_of(path), content]),
                    Change::Delete(path) => record(&[b"delete", bytes_of(path)]),
                }
            }
            if let Some((address, site)) = serve {
                record(&[b"serve", address.to_string().as_bytes(), bytes_of(&site)]);
            }
        }
    }
    out
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
