//! A command's settings from a file, beneath its flags and the environment.
//!
//! In come a clap command and a TOML file; out goes the command with the file's values as its flags' defaults. So clap's own
//! order holds (flag, environment, file, default), and every long flag is a key without another word. What always holds: a
//! value is read by its flag's own parser, wherever it comes from; a whole number stands in the file as a number, a switch as
//! true or false, everything else as a string, what may be repeated as an array of these.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::limits::{CAME_CHARS_MAX, SETTINGS_BYTES_MAX};
use crate::nearest::nearest;

/// Where settings come from beside flags and the environment.
#[derive(Debug, Args)]
pub struct Sources {
    /// A TOML file of settings: its keys are the long flags below, `listen = "0.0.0.0:8080"`. A flag goes before the environment,
    /// that before the file. Relative paths in it are relative to the working directory.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CONFIG", help_heading = "Settings")]
    pub config: Option<PathBuf>,
    /// Print the settings that are in effect, as a file for --config, and end.
    #[arg(long, help_heading = "Settings")]
    pub print_config: bool,
}

/// Long flags that are no keys: they say where settings come from, or are no settings.
const NO_KEYS: [&str; 4] = ["config", "print-config", "help", "version"];

/// The flags of `command` that are keys, by their long names.
pub(super) fn keys(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let long = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    long.filter(|(key, _)| !NO_KEYS.contains(key))
}

/// What a value looks like in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Switch,
    Number,
    Text,
}

impl Form {
    pub(super) fn of(arg: &Arg) -> Self {
        let numbers = [TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()];
        let parsed = arg.get_value_parser().type_id();
        match parsed {
            parsed if parsed == TypeId::of::<bool>() => Self::Switch,
            parsed if numbers.iter().any(|number| parsed == *number) => Self::Number,
            _ => Self::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Number => "a whole number",
            Self::Text => "a string",
        }
    }
}

pub(super) fn is_repeatable(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Lets every switch of `command` be switched off as well, `--explain=false`, for it may be on in the file.
pub fn with_switches(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue if !NO_KEYS.contains(&arg.get_long().unwrap_or_default()) => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .default_value("false")
            .value_name("true|false")
            .hide_possible_values(true),
        _ => arg,
    })
}

/// What a settings file says: for each key the values that its flag would be given.
#[derive(Debug, Default)]
pub struct Said(BTreeMap<String, Vec<String>>);

impl Said {
    pub(super) fn says(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The command, what the file says beneath its flags and the environment.
    pub fn beneath(&self, command: Command) -> Command {
        command.mut_args(|arg| match arg.get_long().and_then(|key| self.0.get(key)) {
            Some(values) => arg.default_values(values.clone()),
            None => arg,
        })
    }

    /// Reads the settings of `command` from a file.
    ///
    /// # Errors
    /// All that is wrong with it, a line each: the file, the line, what was expected, what came.
    pub fn read(path: &Path, command: &Command) -> Result<Self, String> {
        let text = text(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let fault = |at: usize, what: &str| {
            let (line, column) = place(&text, at);
            format!("{}:{line}:{column}: {what}", path.display())
        };
        let table = DeTable::parse(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            fault(at, &format!("it is not TOML: {}", error.message()))
        })?;
        let (mut said, mut faults) = (Self::default(), Vec::new());
        for (key, value) in table.get_ref() {
            match values(command, key.get_ref(), value) {
                Ok(values) => _ = said.0.insert(key.get_ref().to_string(), values),
                Err(what) => faults.push((key.span().start, what)),
            }
        }
        faults.sort();
        let faults: Vec<_> = faults.iter().map(|(at, what)| fault(*at, what)).collect();
        if faults.is_empty() { Ok(said) } else { Err(faults.join("\n")) }
    }
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SETTINGS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > SETTINGS_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {SETTINGS_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let sound = error.utf8_error().valid_up_to();
        io::Error::other(format!(
            "it is not TOML: byte {sound}, counted from 0, begins no character of UTF-8"
        ))
    })
}

/// Line and column of a byte, from 1, the column in characters.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_begins = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_begins..].chars().count() + 1)
}

/// A key's values as its flag would be given them, or what is wrong.
fn values(command: &Command, key: &str, value: &Spanned<DeValue>) -> Result<Vec<String>, String> {
    let Some((_, arg)) = keys(command).find(|(known, _)| *known == key) else {
        let nearest = nearest(key, keys(command).map(|(known, _)| known));
        let nearest = nearest.map_or_else(String::new, |nearest| format!("; the nearest is `{nearest}`"));
        return Err(format!("there is no setting `{key}`{nearest}"));
    };
    match (is_repeatable(arg), value.get_ref()) {
        (false, value) => Ok(vec![one(command, arg, key, value)?]),
        (true, DeValue::Array(array)) => {
            array.iter().map(|value| one(command, arg, key, value.get_ref())).collect()
        }
        (true, other) => {
            let (came, form) = (came(arg, other), Form::of(arg).name());
            Err(format!("`{key}` is {came}, expected an array, each {form}"))
        }
    }
}

fn one(command: &Command, arg: &Arg, key: &str, value: &DeValue) -> Result<String, String> {
    let refusal = |expected: &str| format!("`{key}` is {}, expected {expected}", came(arg, value));
    let form = Form::of(arg);
    let text = match (form, value) {
        (Form::Switch, DeValue::Boolean(switch)) => switch.to_string(),
        (Form::Text, DeValue::String(text)) => text.to_string(),
        // Past 128 bits it is out of every range, which its text says as well.
        (Form::Number, DeValue::Integer(number)) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.to_string(), |number| number.to_string()),
        _ => return Err(refusal(form.name())),
    };
    match expected_instead(command, arg, key, &text) {
        Some(expected) => Err(refusal(&expected)),
        None => Ok(text),
    }
}

/// What the flag's own parser expects, where it refuses `value`.
fn expected_instead(command: &Command, arg: &Arg, key: &str, value: &str) -> Option<String> {
    let alone = command.clone().mut_args(|arg| arg.env(Resettable::Reset));
    let error = alone.try_get_matches_from(["", &format!("--{key}={value}")]).err()?;
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    let choices: Vec<_> = choices(arg);
    Some(match error.source() {
        _ if !choices.is_empty() => format!("one of {}", choices.join(", ")),
        Some(reason) => format!("{} ({reason})", placeholder(arg)),
        None => placeholder(arg),
    })
}

/// The words that a value is one of; none where it is free.
pub(super) fn choices(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|choice| choice.get_name().to_owned()).collect()
}

/// What help calls the value: ADDRESS.
pub(super) fn placeholder(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or_else(|| "VALUE".to_owned(), |name| name.to_string())
}

/// A value as a refusal repeats it; of a secret only what kind of value it is.
fn came(arg: &Arg, value: &DeValue) -> String {
    let (kind, shown) = match value {
        DeValue::String(text) => ("string", format!("{text:?}")),
        DeValue::Integer(number) => ("number", number.to_string()),
        DeValue::Float(number) => ("number", number.to_string()),
        DeValue::Boolean(switch) => ("truth value", switch.to_string()),
        DeValue::Datetime(date) => ("date", date.to_string()),
        DeValue::Array(_) => return "an array".to_owned(),
        DeValue::Table(_) => return "a table".to_owned(),
    };
    if is_secret(arg) {
        return format!("a {kind}");
    }
    let shown: String = shown.chars().take(CAME_CHARS_MAX).collect();
    format!("the {kind} {shown}")
}

/// What help does not show of the environment, is not shown here either.
pub(super) fn is_secret(arg: &Arg) -> bool {
    arg.is_hide_env_values_set()
}
