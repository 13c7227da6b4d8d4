//! `serve --print-config`: the settings in effect, as a commented TOML file that says the same when it is read.
//!
//! Every key stands there under its flag's heading and help: what has a value with where it came from, what has none commented
//! out. A secret is never shown; only that it is set.

use std::ffi::OsStr;
use std::fmt::Write;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use toml::Value;

use super::settings::{Form, Said, choices, is_repeatable, is_secret, keys, placeholder};

const HEAD: &str = "\
# The settings in effect. This is a settings file itself: parallax serve --config FILE
# A flag goes before the environment (PARALLAX_...), that before the file, that before the default.
# Relative paths are relative to the folder that the server is started in.
";

/// The settings of `command`, which gave `matches` with what the file `said` beneath it.
pub fn printed(command: &Command, matches: &ArgMatches, said: &Said) -> String {
    let mut headings: Vec<Option<&str>> = Vec::new();
    for heading in keys(command).map(|(_, arg)| arg.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let mut text = HEAD.to_owned();
    for heading in headings {
        let title = heading.unwrap_or("Others");
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\n# -- {title} --\n");
        for (key, arg) in keys(command).filter(|(_, arg)| arg.get_help_heading() == heading) {
            let _ = write!(text, "\n# {}\n{}\n", help(arg), setting(key, arg, matches, said));
        }
    }
    text
}

fn help(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let first = help.lines().next().unwrap_or_default();
    let choices = choices(arg);
    match Form::of(arg) {
        Form::Text if !choices.is_empty() => format!("{first} ({})", choices.join(", ")),
        _ => first.to_owned(),
    }
}

fn setting(key: &str, arg: &Arg, matches: &ArgMatches, said: &Said) -> String {
    let id = arg.get_id().as_str();
    let Some(values) = matches.get_raw(id) else {
        // An array without a value goes before a default that has some.
        let is_emptied = said.says(key) && is_repeatable(arg);
        return if is_emptied { format!("{key} = []  # file") } else { format!("#{key} = {}", example(arg)) };
    };
    let source = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "flag",
        Some(ValueSource::EnvVariable) => "environment",
        _ if said.says(key) => "file",
        _ => "default",
    };
    if is_secret(arg) {
        return format!("# {key} is set ({source}), and never shown");
    }
    match values.map(|value| literal(arg, value)).collect::<Option<Vec<_>>>() {
        None => format!("# {key} is set ({source}), to bytes that are not UTF-8 and cannot stand in TOML"),
        Some(values) if is_repeatable(arg) => format!("{key} = [{}]  # {source}", values.join(", ")),
        Some(values) => format!("{key} = {}  # {source}", values.join(", ")),
    }
}

/// What stands where nothing is set, in the form that a value would have.
fn example(arg: &Arg) -> String {
    let placeholder = placeholder(arg);
    let example = match Form::of(arg) {
        Form::Text => format!("{placeholder:?}"),
        Form::Switch | Form::Number => placeholder,
    };
    if is_repeatable(arg) { format!("[{example}]") } else { example }
}

/// A value in TOML; none where it is not UTF-8. A flag takes `+4` and `04`, which TOML does not.
fn literal(arg: &Arg, value: &OsStr) -> Option<String> {
    let text = value.to_str()?;
    Some(match Form::of(arg) {
        Form::Text => Value::String(text.to_owned()).to_string(),
        Form::Number => text.parse::<u64>().map_or_else(|_| text.to_owned(), |number| number.to_string()),
        Form::Switch => text.to_owned(),
    })
}
