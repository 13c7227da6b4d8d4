//! `parallax token new`: makes a token for the file of `serve --access`.

use std::io::{self, Write};

use clap::{Args, Subcommand};

use super::{CliError, print_line};
use crate::access::{AccessFile, Role, new_token, token_hash};
use crate::clock;
use crate::events::time;
use crate::limits::access::TOKEN_DAYS_MAX;

pub(super) const EXAMPLES: &str = "\
Make a token for a dashboard that reads the numbers of one site for 90 days, and add the entry to the access file:
  parallax token new --name dashboards --role viewer --site acme --days 90 >> access.toml

Exit codes: 0 success; 2 a bad command line.";

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Length of a day in the text of a time.
const DAY_CHARS: usize = 10;

#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Print a new token once, and the entry of the access file, which has only its hash.
    New(NewArgs),
}

#[derive(Debug, Args)]
struct NewArgs {
    /// The name of the token in the audit log.
    #[arg(long)]
    name: String,
    /// The role: viewer, analyst, privacy, composer or operator. docs/access.md has the endpoints of each.
    #[arg(long, value_parser = parse_role)]
    role: Role,
    /// A site that the token is for. Give it again for another one [default: all sites].
    #[arg(long = "site", value_name = "ID")]
    sites: Vec<String>,
    /// Days until the token expires [default: never].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(TOKEN_DAYS_MAX)))]
    days: Option<u32>,
}

fn parse_role(text: &str) -> Result<Role, String> {
    let names = Role::ALL.map(Role::name).join(", ");
    let found = Role::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}

pub(super) fn run(args: TokenArgs) -> Result<(), CliError> {
    let TokenCommand::New(args) = args.command;
    let token = new_token();
    let entry = entry_of(&args, &token);
    // The entry is read as the server reads it, so that a wrong name or site is an error now.
    AccessFile::parse(&entry).map_err(|error| CliError::Usage(without_line(&error).to_owned()))?;
    // Standard output can be appended to the access file, so the token is not a part of it.
    let _ = writeln!(io::stderr(), "The token, shown only now: {token}");
    print_line(entry.trim_end())
}

/// Returns an error of the access file without the number of its line.
fn without_line(error: &str) -> &str {
    error.split_once(": ").map_or(error, |(_, error)| error)
}

fn entry_of(args: &NewArgs, token: &str) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let sites: Vec<String> = args.sites.iter().map(|site| quoted(site)).collect();
    let sites = if sites.is_empty() { quoted("*") } else { sites.join(", ") };
    let expires = args.days.map_or_else(String::new, |days| {
        let end = time::to_text(clock::now_ms() + i64::from(days) * DAY_MS);
        format!("expires = {}\n", &end[..DAY_CHARS])
    });
    format!(
        "[[token]]\nname = {}\nrole = {}\nsites = [{sites}]\n{expires}hash = {}\n",
        quoted(&args.name),
        quoted(args.role.name()),
        quoted(&token_hash(token.as_bytes())),
    )
}
