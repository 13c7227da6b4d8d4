//! Settings by flag, environment and file: which goes before which, what is refused and where, and the file that
//! `--print-config` prints.

use std::fs;
use std::process::Command;

use clap::{Arg, ArgAction};
use parallax::cli::print_config::printed;
use parallax::cli::settings::Said;
use parallax::limits::SETTINGS_BYTES_MAX;
use tempfile::TempDir;

use crate::harness::temporary_folder;

/// A folder with a settings file, and the environment of the settings.
struct Desk {
    folder: TempDir,
    environment: Vec<(&'static str, &'static str)>,
}

impl Desk {
    fn with(file: &str) -> Self {
        let desk = Self { folder: temporary_folder(), environment: Vec::new() };
        desk.write("p.toml", file);
        desk
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join(name), text).expect("written");
    }

    /// Exit code, standard output, standard error.
    fn serve(&self, flags: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        let set = std::env::vars_os().map(|(name, _)| name);
        let ours = set.filter(|name| name.to_string_lossy().starts_with("PARALLAX_"));
        ours.for_each(|name| _ = command.env_remove(name));
        command.current_dir(self.folder.path()).envs(self.environment.iter().copied());
        let output = command.arg("serve").args(flags).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
    }

    /// What is printed with these flags and the file.
    fn printed(&self, flags: &[&str]) -> String {
        let (code, out, err) = self.serve(&[&["--config", "p.toml", "--print-config"], flags].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        out
    }

    /// The refusal of `file` as the settings file.
    fn refused(&self, file: impl AsRef<[u8]>) -> String {
        self.write("p.toml", file);
        let (code, out, err) = self.serve(&["--config", "p.toml", "--print-config"]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        err
    }
}

/// The line of a printed file that sets `key`, or says that it is not set.
fn line<'a>(printed: &'a str, key: &str) -> &'a str {
    let sets = |line: &&str| line.trim_start_matches('#').starts_with(&format!("{key} = "));
    printed.lines().find(sets).unwrap_or_else(|| panic!("{key} is not there: {printed}"))
}

/// Every key of a printed file.
fn keys(printed: &str) -> Vec<&str> {
    let settings = printed.lines().filter(|line| !line.starts_with("# ") && !line.is_empty());
    settings.map(|line| line.trim_start_matches('#').split(" = ").next().expect("a key")).collect()
}

#[test]
fn a_flag_goes_before_the_environment_that_before_the_file_that_before_the_default() {
    let mut desk = Desk::with("");
    for (key, default) in
        [("listen", "\"127.0.0.1:8080\""), ("timeout-head-ms", "10000"), ("explain", "false")]
    {
        assert_eq!(line(&desk.printed(&[]), key), format!("{key} = {default}  # default"));
    }
    desk.write("p.toml", "listen = \"[::1]:1\"\ntimeout-head-ms = 1_001\nexplain = true\n");
    let printed = desk.printed(&[]);
    assert_eq!(line(&printed, "listen"), "listen = \"[::1]:1\"  # file");
    assert_eq!(line(&printed, "timeout-head-ms"), "timeout-head-ms = 1001  # file");
    assert_eq!(line(&printed, "explain"), "explain = true  # file");

    desk.environment = vec![
        ("PARALLAX_LISTEN", "[::1]:2"),
        ("PARALLAX_TIMEOUT_HEAD_MS", "1002"),
        ("PARALLAX_EXPLAIN", "false"),
    ];
    let printed = desk.printed(&[]);
    assert_eq!(line(&printed, "listen"), "listen = \"[::1]:2\"  # environment");
    assert_eq!(line(&printed, "timeout-head-ms"), "timeout-head-ms = 1002  # environment");
    assert_eq!(line(&printed, "explain"), "explain = false  # environment");

    let printed = desk.printed(&["--listen", "[::1]:3", "--timeout-head-ms", "+01003", "--explain"]);
    assert_eq!(line(&printed, "listen"), "listen = \"[::1]:3\"  # flag");
    assert_eq!(line(&printed, "timeout-head-ms"), "timeout-head-ms = 1003  # flag");
    assert_eq!(line(&printed, "explain"), "explain = true  # flag");
    let is_off = |printed: &str| line(printed, "explain") == "explain = false  # flag";
    assert!(is_off(&desk.printed(&["--explain=false"])));
}

#[test]
fn the_environment_can_name_the_file_and_without_a_command_it_counts_as_well() {
    let mut desk = Desk::with("workers = 3");
    desk.environment = vec![("PARALLAX_CONFIG", "p.toml")];
    let (code, out, _) = desk.serve(&["--print-config"]);
    assert_eq!((code, line(&out, "workers")), (0, "workers = 3  # file"));
    desk.write("p.toml", "workers = 0");
    let output = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .env("PARALLAX_CONFIG", desk.folder.path().join("p.toml"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("p.toml:1:1: `workers` is the number 0"));
}

/// A command with what `serve` may one day have: a flag that may be repeated, one with numbers, one that conflicts.
fn command() -> clap::Command {
    let proxies = Arg::new("trusted").long("trusted-proxy").env("PATH").action(ArgAction::Append);
    let ports = Arg::new("ports").long("ports").action(ArgAction::Append).default_value("80");
    let ports = ports.value_parser(clap::value_parser!(u16)).conflicts_with("trusted");
    clap::Command::new("a").arg(proxies.default_value("10.0.0.0/8")).arg(ports)
}

#[test]
fn a_flag_that_may_be_repeated_is_an_array_and_one_source_s_values_replace_another_s() {
    let folder = temporary_folder();
    let path = folder.path().join("p.toml");
    let said = |text: &str, command: &clap::Command| {
        fs::write(&path, text).expect("written");
        Said::read(&path, command)
    };
    let shown = |said: &Said, command: &clap::Command, words: &[&str]| {
        let matches = said.beneath(command.clone()).get_matches_from(words);
        line(&printed(command, &matches, said), "trusted-proxy").to_owned()
    };
    let without = command().mut_arg("trusted", |arg| arg.env("A_NAME_THAT_NOBODY_SETS"));
    let (none, two) = (Said::default(), said("trusted-proxy = ['a', \"b c\"]\nports = [1, 0x2]", &without));
    let two = two.expect("sound");
    assert_eq!(shown(&none, &without, &["a"]), "trusted-proxy = [\"10.0.0.0/8\"]  # default");
    assert_eq!(shown(&two, &without, &["a"]), "trusted-proxy = [\"a\", \"b c\"]  # file");
    let by_environment = shown(&two, &command(), &["a"]);
    assert!(by_environment.contains('/') && by_environment.ends_with("]  # environment"));
    let flags = ["a", "--trusted-proxy", "c", "--trusted-proxy", "d"];
    assert_eq!(shown(&two, &command(), &flags), "trusted-proxy = [\"c\", \"d\"]  # flag");
    let matches = two.beneath(without.clone()).get_matches_from(["a"]);
    assert_eq!(matches.get_many::<u16>("ports").expect("two").copied().collect::<Vec<_>>(), [1, 2]);

    let emptied = said("trusted-proxy = []", &without).expect("sound");
    assert_eq!(shown(&emptied, &without, &["a"]), "trusted-proxy = []  # file");

    let refused = |text: &str| said(text, &without).expect_err("refused");
    assert!(
        refused("ports = 1")
            .ends_with(":1:1: `ports` is the number 1, expected an array, each a whole number")
    );
    assert!(refused("ports = [\"1\"]").ends_with("`ports` is the string \"1\", expected a whole number"));
    assert!(
        refused("ports = [1, 65536]")
            .contains("`ports` is the number 65536, expected VALUE (65536 is not in")
    );
}

#[test]
fn a_key_that_is_none_is_refused_with_its_place_and_the_nearest() {
    let desk = Desk::with("");
    let refused = desk.refused("# a comment\nworkers = 1\n  lisen = 'here'\n");
    assert_eq!(refused, "parallax: p.toml:3:3: there is no setting `lisen`; the nearest is `listen`\n");
    assert!(desk.refused("timeout_head_ms = 1").contains("the nearest is `timeout-head-ms`"));
    assert_eq!(desk.refused("[zebra]\na = 1"), "parallax: p.toml:1:2: there is no setting `zebra`\n");
    for no_key in ["config", "print-config", "help", "version"] {
        let refused = desk.refused(format!("{no_key} = true"));
        assert!(refused.contains(&format!("there is no setting `{no_key}`")), "{refused}");
    }
}

#[test]
fn a_value_of_the_wrong_type_or_range_is_refused_with_what_was_expected_and_what_came() {
    let desk = Desk::with("");
    let cases = [
        ("workers = \"4\"", "`workers` is the string \"4\", expected a whole number"),
        ("workers = 4.0", "`workers` is the number 4.0, expected a whole number"),
        ("workers = 0", "`workers` is the number 0, expected N (0 is not in 1..=256)"),
        ("workers = 257", "`workers` is the number 257, expected N (257 is not in 1..=256)"),
        ("snapshots-memory = -1", "`snapshots-memory` is the number -1, expected BYTES (invalid digit"),
        ("ack = \"soon\"", "`ack` is the string \"soon\", expected one of disk, written"),
        ("segment-bytes = 65535", "`segment-bytes` is the number 65535, expected BYTES (65535 is not in"),
        ("retain-days = 0", "`retain-days` is the number 0, expected N (0 is not in 1..=36500)"),
        ("explain = \"true\"", "`explain` is the string \"true\", expected true or false"),
        ("listen = 8080", "`listen` is the number 8080, expected a string"),
        ("listen = \"8080\"", "`listen` is the string \"8080\", expected ADDRESS (invalid socket address"),
        ("listen = ['[::1]:1']", "`listen` is an array, expected a string"),
        ("log.form = 'text'", "`log` is a table, expected a string"),
        ("log = 2026-01-05", "`log` is the date 2026-01-05, expected a string"),
        ("log = \"xml\"", "`log` is the string \"xml\", expected one of text, json"),
        ("admin-token = 1234567", "`admin-token` is a number, expected a string"),
    ];
    for (file, expected) in cases {
        let refused = desk.refused(file);
        assert!(refused.starts_with(&format!("parallax: p.toml:1:1: {expected}")), "{file}: {refused}");
    }
    let long = desk.refused(format!("workers = {}", "9".repeat(5000)));
    assert!(long.contains(" 99") && long.len() < 400, "{long}");
    let both = desk.refused("workers = 0\nlog = 1\nzebra = 1\n");
    assert_eq!(both.matches("p.toml:").count(), 3, "all at once, by line: {both}");
    assert!(both.find(":1:1:") < both.find(":2:1:") && both.find(":2:1:") < both.find(":3:1:"));
}

#[test]
fn what_is_wrong_in_the_file_is_refused_where_a_flag_goes_before_it_too() {
    let desk = Desk::with("workers = 0");
    let (code, _, err) = desk.serve(&["--config", "p.toml", "--workers", "1", "--print-config"]);
    assert_eq!((code, err.contains("p.toml:1:1: `workers`")), (2, true), "{err}");
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_place() {
    let desk = Desk::with("");
    assert!(
        desk.refused("workers = 1\nlisten = here\n").starts_with("parallax: p.toml:2:10: it is not TOML: ")
    );
    assert!(
        desk.refused("workers = 1\nworkers = 2\n").starts_with("parallax: p.toml:2:1: it is not TOML: dup")
    );
    assert!(desk.refused(b"listen = \"\xff\"").starts_with("parallax: p.toml: it is not TOML: byte 10, "));
    let (code, _, err) = desk.serve(&["--config", "nowhere.toml"]);
    assert_eq!((code, err.as_str()), (2, "parallax: nowhere.toml: No such file or directory (os error 2)\n"));
}

#[test]
fn a_settings_file_has_a_largest_size() {
    let desk = Desk::with("");
    let of = |bytes: usize| format!("#{}", "a".repeat(bytes - 1));
    for sound in [SETTINGS_BYTES_MAX - 1, SETTINGS_BYTES_MAX] {
        desk.write("p.toml", of(sound));
        desk.printed(&[]);
    }
    let refused = desk.refused(of(SETTINGS_BYTES_MAX + 1));
    assert_eq!(refused, format!("parallax: p.toml: it is larger than {SETTINGS_BYTES_MAX} bytes\n"));
}

#[test]
fn the_printed_file_read_back_prints_the_same() {
    let desk = Desk::with("country-header = 'a \"b\" \\c'\nsnapshots = \"a\\nb\"\n");
    let first = desk.printed(&["--workers", "7", "--explain", "--snapshots-memory", "281474976710656"]);
    desk.write("p.toml", &first);
    let second = desk.printed(&[]);
    let values = |text: &str| {
        let sources = ["default", "flag", "environment", "file"].map(|source| format!("  # {source}\n"));
        sources.iter().fold(text.to_owned(), |text, source| text.replace(source, "\n"))
    };
    assert_eq!(values(&first), values(&second));
    assert!(second.contains("workers = 7  # file") && second.contains("281474976710656  # file"));
    desk.write("p.toml", &second);
    assert_eq!(desk.printed(&[]), second);
}

#[test]
fn the_operator_s_token_is_never_shown() {
    let mut desk = Desk::with("admin-token = 'hush-hush'");
    let shown = |printed: String, source: &str| {
        assert!(
            printed.contains(&format!("# admin-token is set ({source}), and never shown\n")),
            "{printed}"
        );
        assert!(!printed.contains("hush"), "{printed}");
    };
    shown(desk.printed(&[]), "file");
    shown(desk.printed(&["--admin-token", "hush"]), "flag");
    desk.environment = vec![("PARALLAX_ADMIN_TOKEN", "hush")];
    shown(desk.printed(&[]), "environment");
    let (_, help, _) = desk.serve(&["--help"]);
    assert!(help.contains("PARALLAX_ADMIN_TOKEN") && !help.contains("hush"));
    let unset = Desk::with("").printed(&[]);
    assert_eq!(line(&unset, "admin-token"), "#admin-token = \"TOKEN\"");
}

#[test]
fn every_long_flag_of_serve_is_a_key_and_stands_under_a_heading() {
    let desk = Desk::with("");
    let (_, help, _) = desk.serve(&["--help"]);
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let named = flags.map(|flag| flag.split([' ', '[', '=']).next().expect("a name").to_owned());
    let printed = desk.printed(&[]);
    let keys = keys(&printed);
    for flag in named.filter(|flag| !["config", "print-config"].contains(&flag.as_str())) {
        assert!(keys.contains(&flag.as_str()), "--{flag} is no key");
    }
    assert!(keys.len() >= 15 && !keys.contains(&"config") && !keys.contains(&"help"), "{keys:?}");
    assert!(!printed.contains("-- Others --"), "give the new flag a help_heading: {printed}");
}

#[test]
fn printing_binds_nothing_and_makes_nothing() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let desk = Desk::with("snapshots = 'nowhere'");
    desk.printed(&["--listen", &address, "--admin", &address]);
    let left: Vec<_> = desk.folder.path().read_dir().expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
