//! `parallax visitor-keys`: prints the keys with which a program of a site opens its visitor tokens.

use std::path::PathBuf;

use clap::Args;

use super::{CliError, print_line};
use crate::config::key_file::read_visitor_keys;
use crate::site::source::pattern::Name;

pub(super) const EXAMPLES: &str = "\
Create the file with the keys of the operator, and print the keys of a site:
  umask 077
  printf 'a %s\\n' \"$(openssl rand -hex 32)\" > visitor-keys
  parallax visitor-keys visitor-keys my-site

Exit codes: 0 success; 1 the file cannot be used; 2 a bad command line.";

#[derive(Debug, Args)]
pub(super) struct VisitorKeysArgs {
    /// The file of serve --visitor-keys.
    file: PathBuf,
    /// The site ID.
    #[arg(value_parser = parse_site)]
    site: Name,
}

fn parse_site(text: &str) -> Result<Name, String> {
    Name::try_from(text.to_owned()).map_err(|_| "expected a site ID: 1 to 64 of A-Z a-z 0-9 _ -".to_owned())
}

pub(super) fn print_keys(args: &VisitorKeysArgs) -> Result<(), CliError> {
    let keys = read_visitor_keys(&args.file).map_err(CliError::Input)?;
    print_line(&keys.of_site(&args.site).to_string())
}
