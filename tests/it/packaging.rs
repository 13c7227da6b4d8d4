//! The files in `packaging/` match the options of this server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::temporary_directory;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(packaging(name)).expect("the file exists")
}

/// Returns the output of `--print-config` with these arguments and environment variables.
fn printed(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    let set = std::env::vars_os().map(|(name, _)| name);
    let ours = set.filter(|name| name.to_string_lossy().starts_with("PARALLAX_"));
    ours.for_each(|name| _ = command.env_remove(name));
    command.args(arguments).arg("--print-config").envs(environment.iter().copied());
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the lines that set a key. Lines that are commented out (`#key = value`, no space) lose their `#`.
fn settings(toml: &str) -> impl Iterator<Item = &str> {
    let lines = toml.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    lines.filter(|line| !line.is_empty() && !line.starts_with(' '))
}

fn keys(toml: &str) -> BTreeSet<&str> {
    settings(toml).map(|line| line.split(" = ").next().expect("a key")).collect()
}

#[test]
fn every_key_of_the_example_file_exists_even_commented_out() {
    let example = text("parallax.toml");
    let (printed_all, example_keys) = (printed(&["serve"], &[]), keys(&example));
    let all = keys(&printed_all);
    assert!(example_keys.len() >= 8, "{example_keys:?}");
    assert_eq!(example_keys.difference(&all).collect::<Vec<_>>(), Vec::<&&str>::new());

    let directory = temporary_directory();
    let file = directory.path().join("p.toml");
    fs::write(&file, settings(&example).collect::<Vec<_>>().join("\n")).expect("written");
    let printed = printed(&["serve", "--config", file.to_str().expect("UTF-8")], &[]);
    assert_eq!(printed.matches("  # file\n").count(), example_keys.len() - 1, "{printed}");
    assert!(printed.contains("# admin-token is set (file)"));
}

#[test]
fn the_command_line_of_the_unit_loads_the_example_file() {
    let unit = text("parallax.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command line");
    let (program, arguments) = line.split_once(' ').expect("arguments");
    assert_eq!(program, "/usr/local/bin/parallax");
    let example = packaging("parallax.toml");
    let adapted = arguments.replace("/etc/parallax/parallax.toml", example.to_str().expect("UTF-8"));
    assert_ne!(adapted, arguments, "the unit names the file that README.md describes");
    let printed = printed(&adapted.split(' ').collect::<Vec<_>>(), &[]);
    let directory = unit.lines().find_map(|line| line.strip_prefix("ReadOnlyPaths=")).expect("the directory");
    assert!(printed.contains(&format!("snapshots = \"{directory}\"  # file\n")), "{printed}");
}

#[test]
fn the_arguments_and_environment_of_the_container_are_valid() {
    let file = text("Containerfile");
    let instruction =
        |name: &str| file.lines().find_map(|line| line.strip_prefix(name)).expect("the instruction exists");
    let arguments: Vec<String> = serde_json::from_str(instruction("ENTRYPOINT ")).expect("its exec form");
    let arguments: Vec<_> = arguments.iter().skip(1).map(String::as_str).collect();
    let environment = instruction("ENV ").split(' ').map(|set| set.split_once('=').expect("NAME=value"));
    let environment: Vec<_> = environment.collect();
    let printed = printed(&arguments, &environment);
    assert_eq!(printed.matches("  # environment\n").count(), environment.len(), "{printed}");
    for (_, value) in environment {
        assert!(printed.contains(&format!("= \"{value}\"  # environment\n")), "{printed}");
    }
}
