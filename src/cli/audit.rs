//! `parallax audit`: prints the audit log of a data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

use super::output::print_line;
use super::site_directory::counted;
use super::{CliError, log_read_error};
use crate::audit::{
    AuditAction, AuditLine, AuditRecord, AuditReport, Head, Subject, directory_of, read_audit_log,
};
use crate::events::time;
use crate::insights::{Cell, write_csv_lines};
use crate::record::{IdKind, TombstoneKey, VisitorId};
use crate::storage::disk::RealDisk;

pub(super) const EXAMPLES: &str = "\
All erasures of a site, and who looked at one visitor since a day:
  parallax audit data/ --site acme --action erase
  parallax audit data/ --site acme --anon-id 2vRhp7dK --since 2026-11-01

A line names a visitor by a digest of the ID that the request named, so search for each ID of a visitor. The digest needs the
file `secret` of the data directory.

Keep the number and the hash of the last line on another machine. They prove later that no line up to it was removed or changed:
  parallax audit data/ --head
  parallax check data/ --audit-head 4711:HASH

Exit codes: 0 success; 1 the audit log is damaged, or there is none; 3 a file cannot be read.";

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned columns.
    Text,
    /// NDJSON: the lines as they were written, each with its number.
    Json,
    /// CSV with a header.
    Csv,
}

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// The data directory (serve --data). A server may be using it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Only lines of this site.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    site: Option<String>,
    /// Only lines with this action.
    #[arg(long, value_name = "NAME", value_parser = parse_action)]
    action: Option<AuditAction>,
    /// Only lines from this time on, in ISO 8601, such as 2026-11-01 or 2026-11-01T08:00:00Z. Without an offset it is UTC.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<i64>,
    /// Only lines about the visitor with this anonymous ID. It needs --site.
    #[arg(long, value_name = "ID", requires = "site", conflicts_with = "user_id")]
    anon_id: Option<String>,
    /// Only lines about the visitor with this user ID. It needs --site.
    #[arg(long, value_name = "ID", requires = "site")]
    user_id: Option<String>,
    /// Print only the number and the hash of the last line.
    #[arg(long, conflicts_with_all = ["site", "action", "since", "anon_id", "user_id", "format"])]
    head: bool,
}

fn parse_action(text: &str) -> Result<AuditAction, String> {
    let found = AuditAction::ALL.iter().find(|action| action.name() == text);
    let names = || AuditAction::ALL.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ");
    found.copied().ok_or_else(|| format!("expected one of {}", names()))
}

fn parse_time(text: &str) -> Result<i64, String> {
    time::parse(text).ok_or_else(|| "expected a time, such as 2026-11-01 or 2026-11-01T08:00:00Z".to_owned())
}

/// The lines that are printed.
struct Filter<'a> {
    args: &'a AuditArgs,
    subject: Option<String>,
}

impl Filter<'_> {
    fn accepts(&self, line: &AuditLine) -> bool {
        let AuditArgs { site, action, since, .. } = self.args;
        site.as_ref().is_none_or(|site| line.site.as_ref() == Some(site))
            && action.is_none_or(|action| line.action == action.name())
            && since.is_none_or(|since| line.at_ms().is_none_or(|at| at >= since))
            && self.subject.as_ref().is_none_or(|subject| line.subject.as_ref() == Some(subject))
    }
}

pub(super) fn print(args: &AuditArgs) -> Result<(), CliError> {
    let filter = Filter { args, subject: find_subject(args)? };
    if args.format == Format::Csv {
        print_csv(&[COLUMNS.map(|title| Cell::Text(Some(title.to_owned()))).to_vec()])?;
    }
    let mut failure = None;
    let mut print_record = |record: &AuditRecord| {
        if args.head || !filter.accepts(&record.line) {
            return true;
        }
        let printed = match args.format {
            Format::Text => print_line(&to_text(record)),
            Format::Json => print_line(&to_json(record)),
            Format::Csv => print_csv(&[to_cells(record)]),
        };
        failure = printed.err();
        failure.is_none()
    };
    let report = read_audit_log(&RealDisk, &args.directory, &mut print_record)
        .map_err(|error| CliError::System(error.to_string()))?;
    failure.map_or(Ok(()), Err)?;
    if report.files == 0 {
        let directory = args.directory.display();
        let text = format!("{directory} has no audit log. Use the directory of serve --data");
        return Err(CliError::Input(text));
    }
    if args.head {
        print_line(&format!("{}:{}", report.head.number, report.head.hash_text()))?;
    }
    refuse_damage(args, &report)
}

/// Returns the digest of the visitor that the arguments name.
fn find_subject(args: &AuditArgs) -> Result<Option<String>, CliError> {
    let anon = args.anon_id.as_deref().map(|id| (IdKind::Anon, id));
    let named = anon.or(args.user_id.as_deref().map(|id| (IdKind::User, id)));
    let Some(((id_kind, id), site)) = named.zip(args.site.as_deref()) else { return Ok(None) };
    let key = TombstoneKey::read(Arc::new(RealDisk), &args.directory).map_err(log_read_error)?;
    let Some(key) = key else {
        let path = args.directory.join("secret");
        return Err(CliError::Input(format!(
            "{} is missing, and without it no line can be found by an ID; put it back from a copy",
            path.display()
        )));
    };
    Ok(Some(Subject::of(&key, VisitorId { site, id_kind, id }).to_string()))
}

/// Verifies the audit log of a data directory, and prints a line for each damaged place and one for the log. With a head it
/// proves that the log still has the record of this number and hash. Returns the error of each finding.
pub(super) fn check(directory: &Path, known_head: Option<Head>) -> Result<Result<(), CliError>, CliError> {
    let mut has_head = false;
    let report = read_audit_log(&RealDisk, directory, &mut |record| {
        has_head |= known_head == Some(record.head);
        true
    });
    let report = report.map_err(|error| CliError::System(error.to_string()))?;
    has_head |= known_head == Some(report.base);
    if report.files == 0 && known_head.is_none() {
        return Ok(Ok(()));
    }
    let dir = directory_of(directory);
    for place in damaged_places(&dir, &report) {
        print_line(&place)?;
    }
    if let Some(file) = &report.torn_file {
        print_line(&format!("{}: incomplete record at the end", dir.join(file).display()))?;
    }
    let verdict = if report.damage.is_empty() { "sound" } else { "damaged" };
    let times = report.first_at.as_ref().zip(report.last_at.as_ref());
    let times = times.map_or(String::new(), |(first, last)| format!(", {first} to {last}"));
    let AuditReport { files, records, base, head, .. } = &report;
    print_line(&format!(
        "{}: {verdict}, {}, {}{times}, head {}:{}",
        dir.display(),
        counted(*files, "file"),
        counted(*records as usize, "record"),
        head.number,
        head.hash_text()
    ))?;
    if let Some(known) = known_head.filter(|_| !has_head) {
        let Head { number, .. } = known;
        let reason = match number {
            n if n < base.number => format!("retention has deleted the records up to {}", base.number),
            n if n > head.number => format!("the last record is {}, so the end was removed", head.number),
            _ => "the record of this number has another hash, so records were changed or replaced".to_owned(),
        };
        return Ok(Err(CliError::Input(format!(
            "the audit log does not have the record {number}: {reason}"
        ))));
    }
    Ok(match report.damage.len() {
        0 => Ok(()),
        n => Err(CliError::Input(format!("the audit log is damaged in {}", counted(n, "place")))),
    })
}

/// Parses the value of `check --audit-head`.
pub(super) fn parse_head(text: &str) -> Result<Head, String> {
    let head = Head::parse(text);
    head.ok_or_else(|| {
        "expected NUMBER:HASH, the number and the 64 hex digits of `parallax audit DIR --head`".to_owned()
    })
}

fn damaged_places(dir: &Path, report: &AuditReport) -> Vec<String> {
    report.damage.iter().map(|damage| dir.join(damage.to_string()).display().to_string()).collect()
}

/// Returns an error that names each damaged place, if there is one.
fn refuse_damage(args: &AuditArgs, report: &AuditReport) -> Result<(), CliError> {
    if report.damage.is_empty() {
        return Ok(());
    }
    let places = damaged_places(&directory_of(&args.directory), report);
    Err(CliError::Input(format!(
        "the audit log is damaged in {}; compare it with a backup, and move the damaged files away:\n{}",
        counted(report.damage.len(), "place"),
        places.join("\n")
    )))
}

/// The columns of CSV.
const COLUMNS: [&str; 11] =
    ["number", "at", "action", "outcome", "actor", "actorName", "from", "site", "subject", "detail", "hash"];

fn to_cells(record: &AuditRecord) -> Vec<Cell> {
    let AuditLine { at, action, actor, from, site, subject, outcome, detail } = &record.line;
    let text = |text: &str| Cell::Text(Some(text.to_owned()));
    vec![
        text(&record.head.number.to_string()),
        text(at),
        text(action),
        text(outcome),
        text(&actor.kind),
        Cell::Text(actor.name.clone()),
        Cell::Text(from.clone()),
        Cell::Text(site.clone()),
        Cell::Text(subject.clone()),
        text(detail),
        text(&record.head.hash_text()),
    ]
}

/// Prints lines of CSV.
fn print_csv(lines: &[Vec<Cell>]) -> Result<(), CliError> {
    print_line(write_csv_lines(lines).trim_end_matches('\n'))
}

/// Returns the JSON of a line, with its number as the first member.
fn to_json(record: &AuditRecord) -> String {
    let members = record.payload.strip_prefix('{').unwrap_or_default();
    format!("{{\"number\":{},{members}", record.head.number)
}

/// Returns a line in columns. Characters that would change the terminal are escaped.
fn to_text(record: &AuditRecord) -> String {
    let AuditLine { at, action, actor, from, site, subject, outcome, detail } = &record.line;
    let who = match &actor.name {
        Some(name) => format!("{}:{name}", actor.kind),
        None => actor.kind.clone(),
    };
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let from = or_dash(from);
    let site = or_dash(site);
    let subject = or_dash(subject);
    let number = record.head.number;
    let text = format!(
        "{number:>8}  {at}  {action:<8}  {outcome:<7}  {who:<20}  {from:<15}  {site:<16}  {subject:<39}  {detail}"
    );
    escape_controls(text.trim_end())
}

fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => escaped.extend(c.escape_default()),
            false => escaped.push(c),
        }
    }
    escaped
}
