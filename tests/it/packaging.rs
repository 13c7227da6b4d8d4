//! The files in `packaging/` match the options of this server.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
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
    let secrets = ["admin-token", "on-publish-token"];
    assert_eq!(printed.matches("  # file\n").count(), example_keys.len() - secrets.len(), "{printed}");
    for secret in secrets {
        assert!(printed.contains(&format!("# {secret} is set (file)")), "{printed}");
    }
}

#[test]
fn the_settings_of_a_node_are_valid() {
    let example = text("cluster/node.toml");
    let directory = temporary_directory();
    let file = directory.path().join("node.toml");
    fs::write(&file, settings(&example).collect::<Vec<_>>().join("\n")).expect("written");
    let printed = printed(&["serve", "--config", file.to_str().expect("UTF-8")], &[]);
    assert_eq!(printed.matches("  # file\n").count(), keys(&example).len() - 1, "{printed}");
    assert!(printed.contains("# admin-token is set (file)"), "{printed}");
    let compose = text("cluster/compose.yaml");
    let lines = compose.lines().filter_map(|line| line.trim().strip_prefix("PARALLAX_"));
    let variables: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
    assert!(variables.len() >= 5, "{variables:?}");
    for (name, _) in variables {
        let key = name.to_ascii_lowercase().replace('_', "-");
        assert!(keys(&printed).contains(key.as_str()), "PARALLAX_{name} is no setting");
    }
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

/// Returns the value of a directive of the unit.
fn directive<'u>(unit: &'u str, name: &str) -> &'u str {
    let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("the unit has {name}"))
}

/// Returns the `install` commands of README.md, in their order.
fn install_commands(readme: &str) -> Vec<Vec<&str>> {
    let lines = readme.lines().map(str::trim).filter(|line| line.starts_with("install "));
    lines.map(|line| line.split_whitespace().collect()).collect()
}

/// Returns the value of an option of a command.
fn option<'c>(command: &[&'c str], name: &str) -> Option<&'c str> {
    let at = command.iter().position(|word| *word == name)?;
    command.get(at + 1).copied()
}

#[test]
fn the_socket_unit_listens_on_the_address_of_the_example_file() {
    let unit = text("parallax.socket");
    let example = text("parallax.toml");
    let listen = settings(&example).find_map(|line| line.strip_prefix("listen = ")).expect("an address");
    let sockets: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("ListenStream=")).collect();
    assert_eq!(sockets.len(), 16, "one for each worker of a large machine");
    assert!(sockets.iter().all(|address| format!("{address:?}") == listen), "{sockets:?}, {listen}");
    assert_eq!(directive(&unit, "ReusePort"), "yes");
    // The name of the public address, as `socket_activation` tests it.
    assert_eq!(directive(&unit, "FileDescriptorName"), "public");
    let readme = text("README.md");
    assert!(install_commands(&readme).iter().any(|command| command.contains(&"packaging/parallax.socket")));
    // A start that systemd repeats leaves the connections waiting. One that it does not repeat ends in the loss of the sockets.
    assert_eq!(directive(&text("parallax-socket.conf"), "RestartPreventExitStatus"), "");
    // With Sockets= in the service, systemd would start the socket also where it is not enabled.
    assert!(!text("parallax.service").lines().any(|line| line.starts_with("Sockets=")));
}

#[test]
fn publishers_have_a_group_of_their_own_that_owns_only_the_snapshots() {
    let (unit, readme) = (text("parallax.service"), text("README.md"));
    let (server, snapshots) = (directive(&unit, "Group"), directive(&unit, "ReadOnlyPaths"));
    let publishers = readme.lines().find_map(|line| line.trim().strip_prefix("usermod -aG "));
    let publishers = publishers.and_then(|rest| rest.split_whitespace().next()).expect("a group");
    assert_ne!(publishers, server);
    assert!(readme.contains(&format!("groupadd --system {publishers}\n")));
    // systemd gives a state directory to the group of the server.
    let state = directive(&unit, "StateDirectory");
    assert!(state.split(' ').all(|directory| Path::new("/var/lib").join(directory) != Path::new(snapshots)));
    let commands = install_commands(&readme);
    assert!(commands.len() >= 5, "{commands:?}");
    for command in &commands {
        let target = *command.last().expect("a target");
        let is_for_publishers = option(command, "-g") == Some(publishers);
        assert_eq!(is_for_publishers, target == snapshots, "{command:?}");
    }
    let state = commands.iter().find(|command| command.last() == Some(&"/var/lib/parallax"));
    assert_eq!(option(state.expect("a command"), "-m"), Some("711"));
    assert_eq!(directive(&unit, "StateDirectoryMode"), "0711");
    assert_eq!(directive(&unit, "UMask"), "0027");
}

/// A user of the host: user ID and group ID.
type User = (u32, u32);
const SERVER_USER: User = (64_001, 64_001);
const PUBLISHER: User = (64_002, 64_003);

/// Returns whether the shell command succeeds for the user, who has no other groups.
fn can(user: User, umask: &str, command: &str) -> bool {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("umask {umask}; {command}")]).uid(user.0).gid(user.1).current_dir("/");
    shell.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    shell.status().expect("a shell").success()
}

/// Runs the `install` commands of README.md below `root`, with the IDs of our users in place of the names.
fn install_below(root: &Path) {
    let readme = text("README.md");
    for command in install_commands(&readme).iter().filter(|command| !command.contains(&"755")) {
        let words = command.iter().skip(1).map(|word| match *word {
            "parallax-publish" => PUBLISHER.1.to_string(),
            "parallax" => SERVER_USER.0.to_string(),
            word if word.starts_with('/') => format!("{}{word}", root.display()),
            word => word.to_owned(),
        });
        let status = Command::new("install").args(words).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(status.expect("install runs").success(), "{command:?}");
    }
}

#[test]
fn publishers_can_write_snapshots_and_read_neither_token_nor_log() {
    let directory = temporary_directory();
    let root = directory.path();
    if std::os::unix::fs::chown(root, Some(0), Some(0)).is_err() || !can(PUBLISHER, "022", "true") {
        eprintln!("skipped: only root can run a command as another user");
        return;
    }
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).expect("permissions are set");
    for parent in ["etc/parallax", "etc/systemd/system", "var/lib"] {
        fs::create_dir_all(root.join(parent)).expect("created");
    }
    install_below(root);
    let path = |name: &str| format!("{}{name}", root.display());
    let (state, token) = (path("/var/lib/parallax"), path("/etc/parallax/parallax.toml"));
    let umask = directive(&text("parallax.service"), "UMask").to_owned();
    let log = format!("mkdir {state}/data && echo events > {state}/data/1.log");
    assert!(can(SERVER_USER, &umask, &log), "the server writes its log");
    let publish = format!("cd {state}/snapshots && echo site > .tmp && mv .tmp a.snapshot");
    assert!(can(PUBLISHER, "022", &publish), "a publisher publishes");
    assert!(can(PUBLISHER, "022", &format!("cat {state}/snapshots/a.snapshot")));
    for secret in [
        format!("cat {token}"),
        format!("ls {state}"),
        format!("ls {state}/data"),
        format!("cat {state}/data/1.log"),
        format!("touch {state}/x"),
        format!("touch {state}/data/x"),
    ] {
        assert!(!can(PUBLISHER, "022", &secret), "a publisher: {secret}");
    }
    assert!(can(
        SERVER_USER,
        &umask,
        &format!("cat {token} {state}/data/1.log {state}/snapshots/a.snapshot")
    ));
    assert!(
        !can(SERVER_USER, &umask, &format!("touch {state}/snapshots/x")),
        "the server only reads snapshots"
    );
    assert!(can(PUBLISHER, "022", &format!("rm {state}/snapshots/a.snapshot")), "a publisher rolls back");
}
