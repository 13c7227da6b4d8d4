//! `parallax migrate`: brings a data directory to the formats of this release.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;

use super::site_directory::counted;
use super::{CliError, check_has_log, log_read_error, print_line};
use crate::visitors::comparison::CompareError;
use crate::visitors::migration::{self, Migration, MigrationError, MigrationSummary};

pub(super) const EXAMPLES: &str = "\
Migrate the data directory of a stopped server, start the new server, and delete the original when everything is right:
  systemctl stop parallax
  parallax migrate /var/lib/parallax/data
  systemctl start parallax
  rm -r /var/lib/parallax/data.before-migration

If the directory is a mount point, it cannot be exchanged. Write the migrated one to another place:
  parallax migrate /data -o /new-disk/data

Exit codes: 0 migrated, or nothing to do; 1 no log in the directory, damage in the log (which the copy has too), or a name that is taken
or cannot be exchanged; 3 the directory is in use, the disk is too full, or a file cannot be read or written.";

#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    /// The directory of the log (serve --data). No server uses it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The directory to create. It is empty or does not exist [default: the migrated directory gets the name of DIR, and the original
    /// the name DIR.before-migration].
    #[arg(short, long, value_name = "NEWDIR")]
    output: Option<PathBuf>,
}

pub(super) fn migrate(args: &MigrateArgs) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::Input(format!("{}: {error}", args.directory.display()));
    // The target of a link is exchanged, and not the link.
    let directory = fs::canonicalize(&args.directory).map_err(failed)?;
    check_has_log(&directory)?;
    let migrated = match &args.output {
        None => migration::migrate(&directory),
        Some(target) => migration::migrate_to(&directory, target),
    };
    let name = args.output.as_ref().unwrap_or(&directory).display();
    match migrated.map_err(to_cli_error)? {
        Migration::NotNeeded => {
            print_line(&format!("{}: has the present formats; nothing to do", directory.display()))
        }
        Migration::Finished { original } => print_line(&format!(
            "{name}: an earlier run had migrated it; the original is {}",
            original.display()
        )),
        Migration::Done(summary) => {
            print_summary(&name.to_string(), &summary)?;
            match summary.damage.len() {
                0 => Ok(()),
                n => Err(CliError::Input(format!("the log is damaged in {n} places, before and after"))),
            }
        }
    }
}

fn print_summary(name: &str, summary: &MigrationSummary) -> Result<(), CliError> {
    let MigrationSummary { original, segments, records, profiles, damage } = summary;
    for place in damage {
        print_line(&format!("{name}/{place}"))?;
    }
    let segments = counted(*segments, "segment");
    let profiles = match profiles {
        Some(count) => format!("{count} entries of profiles are equal"),
        None => "the next start folds the profiles".to_owned(),
    };
    print_line(&format!(
        "{name}: migrated {segments}; {records} records are equal, and {profiles}; the original is {}",
        original.display()
    ))
}

fn to_cli_error(error: MigrationError) -> CliError {
    let text = error.to_string();
    match error {
        MigrationError::Log(error) | MigrationError::Compare(CompareError::Log(error)) => {
            log_read_error(error)
        }
        MigrationError::OfNode(_)
        | MigrationError::Exists(_)
        | MigrationError::NotEmpty(_)
        | MigrationError::Nested(_)
        | MigrationError::NotInPlace { .. } => CliError::Input(text),
        MigrationError::InUse(_)
        | MigrationError::NoSpace { .. }
        | MigrationError::Compare(_)
        | MigrationError::Io { .. } => CliError::System(text),
    }
}
