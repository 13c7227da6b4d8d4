//! `serve --print-config`: prints the effective settings as a commented TOML file.
//!
//! Reading the file back gives the same settings. Each key is under the heading and the help of its flag. A
//! key with a value names the source of the value; a key without one is commented out. For a secret, the file
//! says only that it is set.

use std::ffi::OsStr;
use std::fmt::Write;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use toml::Value;

use super::settings::{
    FileSettings, ValueKind, allowed_values, is_repeatable, is_secret, placeholder, setting_args,
};

const HEADER: &str = "\
# The effective settings. This is also a settings file: parallax serve --config FILE
# Priority: flag, environment (PARALLAX_...), file, default.
# Relative paths are relative to the directory in which the server is started.
";

/// Renders the settings of `command`, which parsed to `matches` with `file_settings` as defaults.
pub fn render_config(command: &Command, matches: &ArgMatches, file_settings: &FileSettings) -> String {
    let mut headings: Vec<Option<&str>> = Vec::new();
    for heading in setting_args(command).map(|(_, arg)| arg.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let mut text = HEADER.to_owned();
    for heading in headings {
        let title = heading.unwrap_or("Others");
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\n# -- {title} --\n");
        for (key, arg) in setting_args(command).filter(|(_, arg)| arg.get_help_heading() == heading) {
            let _ =
                write!(text, "\n# {}\n{}\n", help_line(arg), setting_line(key, arg, matches, file_settings));
        }
    }
    text
}

fn help_line(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let first = help.lines().next().unwrap_or_default();
    let choices = allowed_values(arg);
    match ValueKind::of(arg) {
        ValueKind::Text if !choices.is_empty() => format!("{first} ({})", choices.join(", ")),
        _ => first.to_owned(),
    }
}

fn setting_line(key: &str, arg: &Arg, matches: &ArgMatches, file_settings: &FileSettings) -> String {
    let id = arg.get_id().as_str();
    let Some(values) = matches.get_raw(id) else {
        // An empty array in the file overrides a default that is not empty.
        let is_emptied = file_settings.contains(key) && is_repeatable(arg);
        return if is_emptied {
            format!("{key} = []  # file")
        } else {
            format!("#{key} = {}", example_value(arg))
        };
    };
    let source = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "flag",
        Some(ValueSource::EnvVariable) => "environment",
        _ if file_settings.contains(key) => "file",
        _ => "default",
    };
    if is_secret(arg) {
        return format!("# {key} is set ({source}), but not shown");
    }
    match values.map(|value| toml_literal(arg, value)).collect::<Option<Vec<_>>>() {
        None => format!("# {key} is set ({source}), but TOML cannot represent it: it is not UTF-8"),
        Some(values) if is_repeatable(arg) => format!("{key} = [{}]  # {source}", values.join(", ")),
        Some(values) => format!("{key} = {}  # {source}", values.join(", ")),
    }
}

/// Returns a placeholder in the form of a value, for a setting that is not set.
fn example_value(arg: &Arg) -> String {
    let placeholder = placeholder(arg);
    let example = match ValueKind::of(arg) {
        ValueKind::Text => format!("{placeholder:?}"),
        ValueKind::Switch | ValueKind::Number | ValueKind::Size => placeholder,
    };
    if is_repeatable(arg) { format!("[{example}]") } else { example }
}

/// Formats a value as TOML; `None` if it is not UTF-8. Flags accept `+4` and `04`, but TOML does not.
fn toml_literal(arg: &Arg, value: &OsStr) -> Option<String> {
    let text = value.to_str()?;
    Some(match ValueKind::of(arg) {
        ValueKind::Text => Value::String(text.to_owned()).to_string(),
        ValueKind::Number => {
            text.parse::<u64>().map_or_else(|_| text.to_owned(), |number| number.to_string())
        }
        ValueKind::Size => match text.parse::<u64>() {
            Ok(bytes) if i64::try_from(bytes).is_ok() => bytes.to_string(),
            _ => Value::String(text.to_owned()).to_string(),
        },
        ValueKind::Switch => text.to_owned(),
    })
}
