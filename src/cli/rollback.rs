//! `parallax rollback`: removes the newest snapshot of a site from a snapshots directory, so that the server serves
//! the version before it.

use std::fs::{self, File};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::snapshot_list::{ListedSnapshot, SnapshotId, list_snapshots, of_site, site_ids};
use super::{CliError, print_line};
use crate::nearest::nearest;
use crate::site::catalog::directory::PULLED_NAME;

/// The ending that a removed file gets. The server does not read such a name.
const REMOVED_ENDING: &str = ".removed";

pub(super) const EXAMPLES: &str = "\
Publish two versions, and go back to the first one:
  parallax compile site/ --version 1 -o snapshots/
  parallax compile site/ --version 2 -o snapshots/
  parallax rollback snapshots/ my-site

End a preview:
  parallax rollback snapshots/ my-site--draft --unpublish

Exit codes: 0 success; 1 nothing was removed; 2 bad command line, or nobody can answer; 3 an error of the system.";

#[derive(Debug, Args)]
pub(super) struct RollbackArgs {
    /// The snapshots directory of a server.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The site ID. It can be left out if the directory has one site only.
    site: Option<String>,
    /// Remove without a question, as in a script.
    #[arg(short, long)]
    yes: bool,
    /// Remove all versions of the site, so that its pages answer 404. Without this flag the last version stays.
    #[arg(long)]
    unpublish: bool,
}

/// The files to remove, and the file that is served afterwards.
#[derive(Debug, PartialEq, Eq)]
struct Removal<'l> {
    files: Vec<&'l ListedSnapshot>,
    /// `None` if the site is not served afterwards.
    next: Option<&'l ListedSnapshot>,
}

pub(super) fn rollback(args: &RollbackArgs) -> Result<(), CliError> {
    let list = read_directory(&args.directory)?;
    let site = choose_site(args, &list)?;
    let removal = plan_removal(&list, site, args.unpublish)?;
    refuse_pulled(&args.directory, &removal)?;
    print_versions(&args.directory, &list, site, removal.next)?;
    let names = removal.files.iter().map(|file| file.name()).collect::<Vec<_>>().join(", ");
    let outcome = match removal.next.and_then(ListedSnapshot::site_and_version) {
        Some((_, version)) => {
            format!("a server of this directory then serves version {version} of site {site}")
        }
        None => format!("a server of this directory then answers 404 for site {site}"),
    };
    if !args.yes {
        confirm(&format!("remove {names}? {outcome} [y/N] "))?;
        // Someone may have published while the question was open.
        let list = read_directory(&args.directory)?;
        if plan_removal(&list, site, args.unpublish).ok().as_ref() != Some(&removal) {
            let shown = args.directory.display();
            let text = format!("{shown} changed meanwhile, so nothing was removed; run the command again");
            return Err(CliError::Input(text));
        }
    }
    // The newest file is the last one, so that a server switches once.
    for file in removal.files.iter().rev() {
        remove(&args.directory, &file.path)?;
    }
    print_line(&format!("removed {names}: {outcome}"))
}

fn read_directory(directory: &Path) -> Result<Vec<ListedSnapshot>, CliError> {
    let shown = directory.display();
    let list = list_snapshots(directory).map_err(|error| {
        CliError::Input(format!("cannot read {shown}: {error}; give the snapshots directory of the server"))
    })?;
    if list.is_empty() {
        let text = format!("{shown} has no file whose name ends in .snapshot, so nothing is published");
        return Err(CliError::Input(text));
    }
    Ok(list)
}

/// Returns the site of the command line, or the only one of the directory.
fn choose_site<'l>(args: &'l RollbackArgs, snapshots: &'l [ListedSnapshot]) -> Result<&'l str, CliError> {
    let ids = site_ids(snapshots);
    let shown = args.directory.display();
    let all = ids.iter().copied().collect::<Vec<_>>().join(", ");
    match (&args.site, ids.first()) {
        (Some(site), _) if !of_site(snapshots, site).is_empty() => Ok(site),
        (_, None) => {
            let text = format!("{shown} has no valid snapshot; `parallax check {shown}` names the damage");
            Err(CliError::Input(text))
        }
        (Some(site), Some(_)) => {
            let near = nearest(site, ids.iter().copied());
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            Err(CliError::Input(format!("{shown} has no snapshot of site {site}, only of {all}{hint}")))
        }
        (None, Some(only)) if ids.len() == 1 => Ok(only),
        (None, Some(_)) => {
            Err(CliError::Usage(format!("{shown} has several sites; name one of them: {all}")))
        }
    }
}

/// Selects the files to remove.
fn plan_removal<'l>(
    snapshots: &'l [ListedSnapshot],
    site: &str,
    must_unpublish: bool,
) -> Result<Removal<'l>, CliError> {
    let mut files = of_site(snapshots, site);
    if must_unpublish {
        return Ok(Removal { files, next: None });
    }
    // A copy of the newest file under another name would be served as well. A running server may still serve the last
    // valid content of a file that is damaged now. So all files above the next one are removed.
    let newest = files.first().and_then(|file| file.content.clone().ok());
    let is_next = |file: &&ListedSnapshot| {
        file.content.as_ref().is_ok_and(|id| Some(id) != newest.as_ref() && is_free(snapshots, site, id))
    };
    let Some(at) = files.iter().position(is_next) else {
        return Err(CliError::Input(format!(
            "site {site} has no other valid snapshot, so after a rollback its pages would answer 404; use --unpublish to remove it"
        )));
    };
    let next = Some(files[at]);
    files.truncate(at);
    Ok(Removal { files, next })
}

/// Returns whether no other site has the tracking ID of a snapshot. A server refuses it otherwise.
fn is_free(snapshots: &[ListedSnapshot], site: &str, snapshot_id: &SnapshotId) -> bool {
    let others = site_ids(snapshots).into_iter().filter(|id| *id != site);
    let newest = |id: &str| of_site(snapshots, id).into_iter().find_map(|file| file.content.as_ref().ok());
    !others.filter_map(newest).any(|other| other.tracking_id == snapshot_id.tracking_id)
}

/// Refuses files that a server with --snapshots-from has fetched: it would fetch them again.
fn refuse_pulled(directory: &Path, removal: &Removal<'_>) -> Result<(), CliError> {
    // Without the file nothing was pulled.
    let pulled = fs::read_to_string(directory.join(PULLED_NAME)).unwrap_or_default();
    let names = removal.files.iter().map(|file| file.name());
    match names.into_iter().find(|name| pulled.lines().any(|line| line == name)) {
        None => Ok(()),
        Some(name) => Err(CliError::Input(format!(
            "{name} was fetched from the source of --snapshots-from, so a server would fetch it again; remove it there with `parallax publish --remove {name}`"
        ))),
    }
}

fn print_versions(
    directory: &Path,
    snapshots: &[ListedSnapshot],
    site: &str,
    next_snapshot: Option<&ListedSnapshot>,
) -> Result<(), CliError> {
    print_line(&format!("snapshots of site {site} in {}, newest first:", directory.display()))?;
    for file in of_site(snapshots, site) {
        let mark = if next_snapshot == Some(file) { "  <- served next" } else { "" };
        let state = match &file.content {
            Ok(id) => format!("version {}", id.version),
            Err(reason) => reason.clone(),
        };
        print_line(&format!("  {}  {state}{mark}", file.name()))?;
    }
    for file in snapshots.iter().filter(|file| file.site_and_version().is_none()) {
        let reason = file.content.as_ref().err().map_or("", String::as_str);
        print_line(&format!("  {}  unknown site: {reason}", file.name()))?;
    }
    Ok(())
}

/// Asks a question on the terminal. Returns if the answer is yes.
fn confirm(question: &str) -> Result<(), CliError> {
    if !io::stdin().is_terminal() {
        let text = "standard input is not a terminal, so nobody can confirm the removal; use --yes to remove without a question";
        return Err(CliError::Usage(text.to_owned()));
    }
    // Ignore the error: if standard error is closed, nobody sees the question, and the answer is no.
    let _ = write!(io::stderr(), "{question}");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| CliError::System(format!("cannot read the answer: {error}")))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(CliError::Input("nothing was removed".to_owned()))
}

/// Gives a file a name that the server does not read, and prints the name.
fn remove(directory: &Path, path: &Path) -> Result<(), CliError> {
    let mut target = path.as_os_str().to_owned();
    target.push(REMOVED_ENDING);
    let renamed = fs::rename(path, &target).and_then(|()| File::open(directory)?.sync_all());
    renamed.map_err(|error| CliError::System(format!("cannot rename {}: {error}", path.display())))?;
    print_line(&format!(
        "{} is kept; rename it to publish it again, or delete it",
        Path::new(&target).display()
    ))
}
