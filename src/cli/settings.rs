//! Settings of a command from a TOML file, with less priority than flags and environment.
//!
//! The module sets the values of the file as defaults of the flags. So clap's own priority holds (flag,
//! environment, file, default), and every long flag is a key of the file. The parser of the flag reads the
//! value from every source. In the file a whole number is a number, a switch is true or false, a size is a
//! number or a string with a unit, and all other values are strings. The value of a repeatable flag is an
//! array of these.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::{ByteSize, MemorySize};
use crate::limits::{ACTUAL_CHARS_MAX, SETTINGS_BYTES_MAX};
use crate::nearest::nearest;

/// The flags that name or print the settings file.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// A TOML file of settings. Its keys are the long flags below, such as `listen = "0.0.0.0:8080"`. A flag
    /// has priority over the environment, and the environment over the file. Relative paths in it are
    /// relative to the working directory.
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    pub config: Option<PathBuf>,
    /// Print the effective settings as a file for --config, and exit.
    #[arg(long, help_heading = "Settings")]
    pub print_config: bool,
}

/// Long flags that are not settings.
const NON_SETTING_FLAGS: [&str; 4] = ["config", "print-config", "help", "version"];

/// Settings under their old and new names. The server refuses the old ones.
const RENAMED: [(&str, &str); 4] = [
    ("spin-us", "busy-poll-us"),
    ("limit-address", "rate-limit-per-ip"),
    ("limit-site", "rate-limit-per-site"),
    ("log", "log-format"),
];

fn new_name(old_name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(renamed, _)| *renamed == old_name).map(|(_, new)| *new)
}

/// Prefix of the environment variables of all settings.
const VARIABLE_PREFIX: &str = "PARALLAX_";

/// Returns the name of a flag's environment variable.
fn variable_name(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('-', "_").to_ascii_uppercase())
}

/// Returns an error message if a parser rejected a flag under its old name.
pub(super) fn renamed_flag(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    new_name(flag.strip_prefix("--")?).map(|new| format!("{flag} was renamed to --{new}"))
}

/// Variables of the tests.
const TEST_VARIABLES: [&str; 2] = ["PARALLAX_CASES", "PARALLAX_LONG"];

/// Returns an error message if the environment sets a variable that is no setting of `command`.
pub(super) fn reject_unknown_variables(command: &Command) -> Result<(), String> {
    let known = |name: &str| {
        let mut keys = setting_args(command).map(|(key, _)| key).chain(["config"]);
        TEST_VARIABLES.contains(&name) || keys.any(|key| variable_name(key) == name)
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    match names.filter(|name| name.starts_with(VARIABLE_PREFIX) && !known(name)).min() {
        Some(name) => Err(unknown_variable(command, &name)),
        None => Ok(()),
    }
}

fn unknown_variable(command: &Command, name: &str) -> String {
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| variable_name(old) == name) {
        return format!("the environment variable {name} was renamed to {}", variable_name(new));
    }
    let known: Vec<String> = setting_args(command).map(|(key, _)| variable_name(key)).collect();
    let hint = nearest_hint(name, known.iter().map(String::as_str));
    format!("unknown environment variable `{name}`{hint}")
}

/// Returns the end of an error message: a question for the known name that is nearest to `name`, if one is near.
fn nearest_hint<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(name, names).map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

/// Returns the flags of `command` that are settings, with their long names as keys.
pub(super) fn setting_args(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let long = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    long.filter(|(key, _)| !NON_SETTING_FLAGS.contains(key))
}

/// The kind of a value in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Switch,
    Number,
    Size,
    Text,
}

impl ValueKind {
    pub(super) fn of(arg: &Arg) -> Self {
        let numbers = [
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<Duration>(),
        ];
        let parsed = arg.get_value_parser().type_id();
        match parsed {
            parsed if parsed == TypeId::of::<bool>() => Self::Switch,
            parsed if parsed == TypeId::of::<ByteSize>() => Self::Size,
            parsed if parsed == TypeId::of::<MemorySize>() => Self::Size,
            parsed if numbers.iter().any(|number| parsed == *number) => Self::Number,
            _ => Self::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Number => "a whole number",
            Self::Size => "a number of bytes or a string such as \"512MiB\"",
            Self::Text => "a string",
        }
    }
}

pub(super) fn is_repeatable(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Gives every flag of `command` an environment variable. Lets every switch take a value, as in
/// `--explain=false`, to override a `true` in the file.
pub(crate) fn add_sources(command: Command) -> Command {
    command.mut_args(|arg| {
        let Some(key) = arg.get_long().map(str::to_owned) else { return arg };
        let arg = if key == "print-config" { arg } else { arg.env(variable_name(&key)) };
        match arg.get_action() {
            ArgAction::SetTrue if !NON_SETTING_FLAGS.contains(&key.as_str()) => arg
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .default_value("false")
                .value_name("true|false")
                .hide_possible_values(true),
            _ => arg,
        }
    })
}

/// The settings of a file: for each key the values, in the form that its flag accepts.
#[derive(Debug, Default)]
pub struct FileSettings(BTreeMap<String, Vec<String>>);

impl FileSettings {
    pub(super) fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Sets the values of the file as defaults of the flags of `command`.
    pub fn apply_as_defaults(&self, command: Command) -> Command {
        command.mut_args(|arg| match arg.get_long().and_then(|key| self.0.get(key)) {
            Some(values) => arg.default_values(values.clone()),
            None => arg,
        })
    }

    /// Reads the settings of `command` from a file.
    ///
    /// # Errors
    /// Returns all errors of the file, one line each: file, line, column, received and expected value.
    pub fn read(path: &Path, command: &Command) -> Result<Self, String> {
        let text = read_text(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let fault = |at: usize, what: &str| {
            let (line, column) = line_and_column(&text, at);
            format!("{}:{line}:{column}: {what}", path.display())
        };
        let table = DeTable::parse(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            fault(at, &format!("invalid TOML: {}", error.message()))
        })?;
        let mut settings = Self::default();
        let mut faults = Vec::new();
        for (key, value) in table.get_ref() {
            match parse_setting(command, key.get_ref(), value) {
                Ok(values) => _ = settings.0.insert(key.get_ref().to_string(), values),
                Err(what) => faults.push((key.span().start, what)),
            }
        }
        faults.sort();
        let faults: Vec<_> = faults.iter().map(|(at, what)| fault(*at, what)).collect();
        if faults.is_empty() { Ok(settings) } else { Err(faults.join("\n")) }
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SETTINGS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > SETTINGS_BYTES_MAX {
        return Err(io::Error::other(format!("the file is larger than {SETTINGS_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let sound = error.utf8_error().valid_up_to();
        io::Error::other(format!("invalid UTF-8 at byte offset {sound}"))
    })
}

/// Returns line and column of a byte offset, both from 1. The column counts characters.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_begins = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_begins..].chars().count() + 1)
}

/// Converts the value of a key to the arguments of its flag, or returns an error message.
fn parse_setting(command: &Command, key: &str, value: &Spanned<DeValue>) -> Result<Vec<String>, String> {
    let Some((_, arg)) = setting_args(command).find(|(known, _)| *known == key) else {
        if let Some(new) = new_name(key) {
            return Err(format!("`{key}` was renamed to `{new}`"));
        }
        let hint = nearest_hint(key, setting_args(command).map(|(known, _)| known));
        return Err(format!("unknown setting `{key}`{hint}"));
    };
    match (is_repeatable(arg), value.get_ref()) {
        (false, value) => Ok(vec![parse_value(command, arg, key, value)?]),
        (true, DeValue::Array(array)) => {
            array.iter().map(|value| parse_value(command, arg, key, value.get_ref())).collect()
        }
        (true, other) => {
            let actual = describe_value(arg, other);
            let form = ValueKind::of(arg).name();
            Err(format!("`{key}` is {actual}, expected an array, each {form}"))
        }
    }
}

fn parse_value(command: &Command, arg: &Arg, key: &str, value: &DeValue) -> Result<String, String> {
    let refusal = |expected: &str| format!("`{key}` is {}, expected {expected}", describe_value(arg, value));
    let form = ValueKind::of(arg);
    let text = match (form, value) {
        (ValueKind::Switch, DeValue::Boolean(switch)) => switch.to_string(),
        (ValueKind::Text | ValueKind::Size, DeValue::String(text)) => text.to_string(),
        // A number of more than 128 bits is out of every range. The flag's parser rejects its text.
        (ValueKind::Number | ValueKind::Size, DeValue::Integer(number)) => {
            i128::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.to_string(), |number| number.to_string())
        }
        _ => return Err(refusal(form.name())),
    };
    match expected_by_parser(command, arg, key, &text) {
        Some(expected) => Err(refusal(&expected)),
        None => Ok(text),
    }
}

/// Returns the expectation of the flag's own parser, if that parser rejects `value`.
fn expected_by_parser(command: &Command, arg: &Arg, key: &str, value: &str) -> Option<String> {
    let alone = command.clone().mut_args(|arg| arg.env(Resettable::Reset));
    let error = alone.try_get_matches_from(["", &format!("--{key}={value}")]).err()?;
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    let choices: Vec<_> = allowed_values(arg);
    if !choices.is_empty() {
        return Some(format!("one of {}", choices.join(", ")));
    }
    Some(match error.source() {
        Some(reason) => format!("{} ({reason})", placeholder(arg)),
        None => placeholder(arg),
    })
}

/// Returns the allowed values of a flag; empty if every text is allowed.
pub(super) fn allowed_values(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|choice| choice.get_name().to_owned()).collect()
}

/// Returns the placeholder of the value in `--help`, such as ADDRESS.
pub(super) fn placeholder(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or_else(|| "VALUE".to_owned(), |name| name.to_string())
}

/// Describes a value for an error message. Of a secret it names only the type.
fn describe_value(arg: &Arg, value: &DeValue) -> String {
    let (kind, literal) = match value {
        DeValue::String(text) => ("string", format!("{text:?}")),
        DeValue::Integer(number) => ("number", number.to_string()),
        DeValue::Float(number) => ("number", number.to_string()),
        DeValue::Boolean(switch) => ("boolean", switch.to_string()),
        DeValue::Datetime(date) => ("date", date.to_string()),
        DeValue::Array(_) => return "an array".to_owned(),
        DeValue::Table(_) => return "a table".to_owned(),
    };
    if is_secret(arg) {
        return format!("a {kind}");
    }
    let literal: String = literal.chars().take(ACTUAL_CHARS_MAX).collect();
    format!("the {kind} {literal}")
}

/// Returns whether the value is a secret. `--help` hides the environment value of the same flags.
pub(super) fn is_secret(arg: &Arg) -> bool {
    arg.is_hide_env_values_set()
}
