//! `parallax init`: writes a small site to start from, with the schemas that editors use.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use include_dir::{Dir, DirEntry, include_dir};

use super::{CliError, print_line};
use crate::local_files;
use crate::site::source::pattern::Name;
use crate::site::source::schema::{FileKind, schema};

static STARTER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/cli/starter");

/// The site ID in the starter's files.
const STARTER_ID: &str = "my-site";

/// Directory of the schemas in the written site. The compiler ignores hidden directories.
const SCHEMAS: &str = ".schema";

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The directory to create. It is empty or does not exist. Its name becomes the site ID, if it can be one.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn init(args: &InitArgs) -> Result<(), CliError> {
    let directory = &args.directory;
    let shown = directory.display();
    let failed = |error: io::Error| CliError::System(format!("cannot write {shown}: {error}"));
    local_files::create_directories(directory).map_err(failed)?;
    if local_files::read_directory(directory).map_err(failed)?.next().is_some() {
        return Err(CliError::Input(format!("{shown} is not empty; choose a new or an empty directory")));
    }
    local_files::finish_reading().map_err(failed)?;
    let id = site_id(directory);
    write_starter(&STARTER, directory, &id).map_err(failed)?;
    write_schemas(&directory.join(SCHEMAS)).map_err(failed)?;
    print_line(&format!(
        "wrote the site {id} to {shown}. Next:\n\n  \
         parallax dev {shown}        serve it, and compile it again after each change\n  \
         parallax lint {shown}       report all errors and warnings\n  \
         parallax test {shown}       run the cases in tests/\n  \
         parallax compile {shown} -o snapshots/    publish it to a server\n  \
         parallax rollback snapshots/ {id}    serve the version before again\n\n\
         {shown}/README.md describes the files."
    ))
}

/// Returns the name of the directory if it can be a site ID, else that of the starter.
fn site_id(directory: &Path) -> String {
    let name = local_files::canonicalize(directory)
        .ok()
        .and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let id = name.and_then(|name| Name::try_from(name).ok());
    id.map_or_else(|| STARTER_ID.to_owned(), |id| id.to_string())
}

fn write_starter(starter: &Dir<'_>, directory: &Path, site_id: &str) -> io::Result<()> {
    for entry in starter.entries() {
        let path = directory.join(entry.path());
        match entry {
            DirEntry::Dir(inner) => {
                local_files::create_directories(&path)?;
                write_starter(inner, directory, site_id)?;
            }
            DirEntry::File(file) => {
                let text = file.contents_utf8().expect("the starter is UTF-8");
                local_files::write(&path, text.replace(STARTER_ID, site_id).as_bytes())?;
            }
        }
    }
    Ok(())
}

fn write_schemas(directory: &Path) -> io::Result<()> {
    local_files::create_directories(directory)?;
    FileKind::ALL.into_iter().try_for_each(|kind| {
        let path = directory.join(format!("{}.json", kind.name()));
        local_files::write(&path, format!("{:#}\n", schema(kind)).as_bytes())
    })
}
