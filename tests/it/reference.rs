//! The man pages and the completions describe each command of the program.

use std::collections::BTreeSet;

use crate::command_line::Workspace;

/// Returns the commands that a help text lists, without their subcommands.
fn listed_commands(help: &str) -> Vec<&str> {
    let section = help.split("Commands:\n").nth(1).expect("a list of commands");
    let lines = section.lines().take_while(|line| !line.is_empty());
    // A line that continues a description has more than two spaces at its start.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn man_pages_describe_each_listed_command_and_no_hidden_one() {
    let workspace = Workspace::new();
    workspace.run(&["man-pages", "man1"]).assert_exit(0, &[]);
    let help = workspace.run(&["--help"]).out;
    let commands = listed_commands(&help);
    assert!(commands.len() > 10, "{commands:?}");
    let written = workspace.files("man1");
    let mut expected: BTreeSet<String> =
        commands.iter().map(|command| format!("parallax-{command}.1")).collect();
    expected.insert("parallax.1".to_owned());
    let pages: BTreeSet<String> = written.iter().cloned().collect();
    assert_eq!(expected.difference(&pages).collect::<Vec<_>>(), Vec::<&String>::new());
    // The other pages are those of subcommands, such as parallax-cluster-status.1.
    let others = pages.difference(&expected);
    assert!(
        others.clone().all(|page| commands.iter().any(|own| page.starts_with(&format!("parallax-{own}-")))),
        "{others:?}"
    );
    assert!(!pages.contains("parallax-man-pages.1"));
    let serve = std::fs::read_to_string(workspace.path("man1/parallax-serve.1")).expect("the page exists");
    assert!(serve.contains(r"\fB\-\-listen\fR"), "{serve}");
    workspace.write("file", "");
    workspace.run(&["man-pages", "file/man1"]).assert_exit(3, &["file/man1", "choose another directory"]);
}

#[test]
fn completions_of_each_shell_know_the_commands_and_flags() {
    let workspace = Workspace::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        workspace.run(&["completions", shell]).assert_exit(0, &["demo-traffic", "print-config"]);
    }
    workspace.run(&["completions", "csh"]).assert_exit(2, &["csh", "bash"]);
}
