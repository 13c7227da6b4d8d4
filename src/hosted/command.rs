//! The commands for the directory of a site, with the files of the host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::cli::{self, DevSession};
use crate::console;
pub use crate::console::Streams;
use crate::local_files;
pub use crate::local_files::{Change, Entry, EntryKind, Fact, HostError, HostFiles};

/// A command with all that it can read.
#[derive(Debug, Default)]
pub struct Invocation {
    /// The arguments. The first one is the name of the program.
    pub words: Vec<String>,
    pub variables: BTreeMap<String, String>,
    /// The width of the terminal, in characters.
    pub columns: Option<usize>,
    pub files: HostFiles,
    /// The error of standard output, if the host cannot write to it.
    pub output_error: Option<HostError>,
}

/// The result of a run.
#[derive(Debug)]
pub enum Outcome {
    /// The host reads these paths, and up to so many bytes of each file, and starts the run again.
    Needs(BTreeMap<PathBuf, usize>),
    Ended {
        code: u8,
        streams: Streams,
        changes: Vec<Change>,
        /// The address and the site directory that the host serves after this run.
        serve: Option<(SocketAddr, PathBuf)>,
    },
}

/// A step of `parallax dev`.
#[derive(Debug)]
pub enum DevStep<'s> {
    /// Begins with a site directory.
    Begin(&'s Path),
    /// Compiles the site if it has changed.
    Compile,
    /// Reports the compilation. Its snapshot is the only change.
    Report,
    /// Prints the URLs: the server listens on this address.
    Listening(SocketAddr),
    /// Prints the error of an address.
    Refused(SocketAddr, HostError),
}

thread_local! {
    static SESSION: RefCell<Option<DevSession>> = const { RefCell::new(None) };
}

/// Runs a command.
pub fn run(invocation: Invocation) -> Outcome {
    let Invocation { words, columns, .. } = begin(invocation);
    let ended = cli::run(&words, columns);
    end(ended.code, ended.dev.map(|dev| (dev.listen, dev.site)))
}

/// Runs a step of `parallax dev`.
pub fn dev(step: DevStep<'_>, invocation: Invocation) -> Outcome {
    begin(invocation);
    let mut code = 0;
    SESSION.with_borrow_mut(|present| {
        let directory = if let DevStep::Begin(directory) = step { directory } else { Path::new("") };
        let session = present.get_or_insert_with(|| DevSession::new(directory));
        match step {
            DevStep::Begin(_) => {}
            DevStep::Compile => session.compile(|| local_files::finish_reading().is_ok()),
            DevStep::Report => session.report(),
            DevStep::Listening(address) => session.set_address(address),
            DevStep::Refused(address, error) => code = cli::refuse_address(address, error.to_io_error()),
        }
    });
    end(code, None)
}

/// Makes the files, the variables and the streams of an invocation those of the commands. Returns the rest.
fn begin(mut invocation: Invocation) -> Invocation {
    let variables = mem::take(&mut invocation.variables);
    console::begin(variables, invocation.output_error.take().map(|error| error.to_io_error()));
    local_files::begin(mem::take(&mut invocation.files));
    invocation
}

fn end(code: u8, serve: Option<(SocketAddr, PathBuf)>) -> Outcome {
    let HostFiles { needs, changes, .. } = local_files::take();
    let streams = console::take();
    match needs.is_empty() {
        true => Outcome::Ended { code, streams, changes, serve },
        false => Outcome::Needs(needs),
    }
}
