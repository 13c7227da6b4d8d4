//! Settings from flags, environment and file: their precedence, the refused values and their places, and the
//! file that `--print-config` prints.

use std::fs;
use std::process::Command;

use clap::{Arg, ArgAction};
use parallax::testing::cli::print_config::render_config;
use parallax::testing::cli::settings::FileSettings;
use parallax::testing::config::ByteSize;
use parallax::testing::limits::SETTINGS_BYTES_MAX;
use tempfile::TempDir;

use crate::harness::{Server, temporary_directory};

/// A directory with a settings file, and the environment variables of the settings.
struct Fixture {
    directory: TempDir,
    environment: Vec<(&'static str, &'static str)>,
}

impl Fixture {
    fn with(file: &str) -> Self {
        let fixture = Self { directory: temporary_directory(), environment: Vec::new() };
        fixture.write("p.toml", file);
        fixture
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join(name), text).expect("written");
    }

    /// Runs `serve`. Returns exit code, standard output and standard error.
    fn serve(&self, flags: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        let set = std::env::vars_os().map(|(name, _)| name);
        let ours = set.filter(|name| name.to_string_lossy().starts_with("PARALLAX_"));
        ours.for_each(|name| _ = command.env_remove(name));
        command.current_dir(self.directory.path()).envs(self.environment.iter().copied());
        let output = command.arg("serve").args(flags).output().expect("the command runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
    }

    /// Returns the output of `--print-config` with the settings file and these flags.
    fn printed(&self, flags: &[&str]) -> String {
        let (code, out, err) = self.serve(&[&["--config", "p.toml", "--print-config"], flags].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        out
    }

    /// Returns the error for `file` as the settings file.
    fn refused(&self, file: impl AsRef<[u8]>) -> String {
        self.write("p.toml", file);
        let (code, out, err) = self.serve(&["--config", "p.toml", "--print-config"]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        err
    }
}

/// Returns the line of a printed file that sets `key`, commented out or not.
fn line<'a>(printed: &'a str, key: &str) -> &'a str {
    let sets = |line: &&str| line.trim_start_matches('#').starts_with(&format!("{key} = "));
    printed.lines().find(sets).unwrap_or_else(|| panic!("{key} is missing: {printed}"))
}

/// Returns every key of a printed file.
fn keys(printed: &str) -> Vec<&str> {
    let settings = printed.lines().filter(|line| !line.starts_with("# ") && !line.is_empty());
    settings.map(|line| line.trim_start_matches('#').split(" = ").next().expect("a key")).collect()
}

#[test]
fn the_precedence_is_flag_environment_file_default() {
    let mut fixture = Fixture::with("");
    for (key, default) in
        [("listen", "\"127.0.0.1:8080\""), ("timeout-head-ms", "10000"), ("explain", "false")]
    {
        assert_eq!(line(&fixture.printed(&[]), key), format!("{key} = {default}  # default"));
    }
    fixture.write("p.toml", "listen = \"[::1]:1\"\ntimeout-head-ms = 1_001\nexplain = true\n");
    let printed = fixture.printed(&[]);
    assert_eq!(line(&printed, "listen"), "listen = \"[::1]:1\"  # file");
    assert_eq!(line(&printed, "timeout-head-ms"), "timeout-head-ms = 1001  # file");
    assert_eq!(line(&printed, "explain"), "explain = true  # file");

    fixture.environment = vec![
        ("PARALLAX_LISTEN", "[::1]:2"),
        ("PARALLAX_TIMEOUT_HEAD_MS", "1002"),
        ("PARALLAX_EXPLAIN", "false"),
    ];
    let printed = fixture.printed(&[]);
    assert_eq!(line(&printed, "listen"), "listen = \"[::1]:2\"  # environment");
    assert_eq!(line(&printed, "timeout-head-ms"), "timeout-head-ms = 1002  # environment");
    assert_eq!(line(&printed, "explain"), "explain = false  # environment");

    let printed = fixture.printed(&["--listen", "[::1]:3", "--timeout-head-ms", "+01003", "--explain"]);
    assert_eq!(line(&printed, "listen"), "listen = \"[::1]:3\"  # flag");
    assert_eq!(line(&printed, "timeout-head-ms"), "timeout-head-ms = 1003  # flag");
    assert_eq!(line(&printed, "explain"), "explain = true  # flag");
    let is_off = |printed: &str| line(printed, "explain") == "explain = false  # flag";
    assert!(is_off(&fixture.printed(&["--explain=false"])));
}

#[test]
fn the_environment_can_name_the_file_with_and_without_a_command() {
    let mut fixture = Fixture::with("workers = 3");
    fixture.environment = vec![("PARALLAX_CONFIG", "p.toml")];
    let (code, out, _) = fixture.serve(&["--print-config"]);
    assert_eq!((code, line(&out, "workers")), (0, "workers = 3  # file"));
    fixture.write("p.toml", "workers = 0");
    let output = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .env("PARALLAX_CONFIG", fixture.directory.path().join("p.toml"))
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("p.toml:1:1: `workers` is the number 0"));
}

/// Returns a command with options that `serve` may have one day: a repeatable flag, and one with numbers that
/// conflicts with it.
fn command() -> clap::Command {
    let proxies = Arg::new("trusted").long("trusted-proxy").env("PATH").action(ArgAction::Append);
    let ports = Arg::new("ports").long("ports").action(ArgAction::Append).default_value("80");
    let ports = ports.value_parser(clap::value_parser!(u16)).conflicts_with("trusted");
    clap::Command::new("a").arg(proxies.default_value("10.0.0.0/8")).arg(ports)
}

#[test]
fn a_repeatable_flag_is_an_array_and_sources_replace_each_other() {
    let directory = temporary_directory();
    let path = directory.path().join("p.toml");
    let parse = |text: &str, command: &clap::Command| {
        fs::write(&path, text).expect("written");
        FileSettings::read(&path, command)
    };
    let shown = |settings: &FileSettings, command: &clap::Command, arguments: &[&str]| {
        let matches = settings.apply_as_defaults(command.clone()).get_matches_from(arguments);
        line(&render_config(command, &matches, settings), "trusted-proxy").to_owned()
    };
    let without = command().mut_arg("trusted", |arg| arg.env("A_NAME_THAT_NOBODY_SETS"));
    let (none, two) =
        (FileSettings::default(), parse("trusted-proxy = ['a', \"b c\"]\nports = [1, 0x2]", &without));
    let two = two.expect("a valid file");
    assert_eq!(shown(&none, &without, &["a"]), "trusted-proxy = [\"10.0.0.0/8\"]  # default");
    assert_eq!(shown(&two, &without, &["a"]), "trusted-proxy = [\"a\", \"b c\"]  # file");
    let by_environment = shown(&two, &command(), &["a"]);
    assert!(by_environment.contains('/') && by_environment.ends_with("]  # environment"));
    let flags = ["a", "--trusted-proxy", "c", "--trusted-proxy", "d"];
    assert_eq!(shown(&two, &command(), &flags), "trusted-proxy = [\"c\", \"d\"]  # flag");
    let matches = two.apply_as_defaults(without.clone()).get_matches_from(["a"]);
    assert_eq!(matches.get_many::<u16>("ports").expect("two").copied().collect::<Vec<_>>(), [1, 2]);

    let emptied = parse("trusted-proxy = []", &without).expect("a valid file");
    assert_eq!(shown(&emptied, &without, &["a"]), "trusted-proxy = []  # file");

    let refused = |text: &str| parse(text, &without).expect_err("refused");
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
fn an_unknown_key_is_refused_with_its_place_and_the_nearest_name() {
    let fixture = Fixture::with("");
    let refused = fixture.refused("# a comment\nworkers = 1\n  lisen = 'here'\n");
    assert_eq!(refused, "parallax: p.toml:3:3: unknown setting `lisen`; did you mean `listen`?\n");
    assert!(fixture.refused("timeout_head_ms = 1").contains("did you mean `timeout-head-ms`?"));
    assert_eq!(fixture.refused("[zebra]\na = 1"), "parallax: p.toml:1:2: unknown setting `zebra`\n");
    for no_key in ["config", "print-config", "help", "version"] {
        let refused = fixture.refused(format!("{no_key} = true"));
        assert!(refused.contains(&format!("unknown setting `{no_key}`")), "{refused}");
    }
}

#[test]
fn a_wrong_type_or_range_is_refused_with_expected_and_actual_value() {
    let fixture = Fixture::with("");
    let cases = [
        ("workers = \"4\"", "`workers` is the string \"4\", expected a whole number"),
        ("workers = 4.0", "`workers` is the number 4.0, expected a whole number"),
        ("workers = 0", "`workers` is the number 0, expected N (0 is not in 1..=256)"),
        ("workers = 257", "`workers` is the number 257, expected N (257 is not in 1..=256)"),
        (
            "snapshots-memory = -1",
            "`snapshots-memory` is the number -1, expected SIZE (expected a whole number, alone or with a unit",
        ),
        ("ack = \"soon\"", "`ack` is the string \"soon\", expected one of disk, written"),
        ("segment-bytes = 65535", "`segment-bytes` is the number 65535, expected SIZE (65535 is not in"),
        (
            "segment-bytes = '63KiB'",
            "`segment-bytes` is the string \"63KiB\", expected SIZE (64512 is not in",
        ),
        (
            "segment-bytes = '1 GiB'",
            "`segment-bytes` is the string \"1 GiB\", expected SIZE (unknown unit \" GiB\"",
        ),
        (
            "segment-bytes = 1.5",
            "`segment-bytes` is the number 1.5, expected a number of bytes or a string such",
        ),
        (
            "insights-memory = 67108863",
            "`insights-memory` is the number 67108863, expected SIZE (expected 0, or a size from 64MiB to 256TiB)",
        ),
        ("retain-days = 0", "`retain-days` is the number 0, expected N (0 is not in 1..=36500)"),
        ("explain = \"true\"", "`explain` is the string \"true\", expected true or false"),
        ("listen = 8080", "`listen` is the number 8080, expected a string"),
        (
            "listen = \"here\"",
            "`listen` is the string \"here\", expected ADDRESS (expected an address and a port",
        ),
        ("listen = ['[::1]:1']", "`listen` is an array, expected a string"),
        ("log-format.a = 'text'", "`log-format` is a table, expected a string"),
        ("log-format = 2026-01-05", "`log-format` is the date 2026-01-05, expected a string"),
        ("log-format = \"xml\"", "`log-format` is the string \"xml\", expected one of text, json"),
        ("admin-token = 1234567", "`admin-token` is a number, expected a string"),
    ];
    for (file, expected) in cases {
        let refused = fixture.refused(file);
        assert!(refused.starts_with(&format!("parallax: p.toml:1:1: {expected}")), "{file}: {refused}");
    }
    let long = fixture.refused(format!("workers = {}", "9".repeat(5000)));
    assert!(long.contains(" 99") && long.len() < 400, "{long}");
    let both = fixture.refused("workers = 0\nlog-format = 1\nzebra = 1\n");
    assert_eq!(both.matches("p.toml:").count(), 3, "every error is reported, in the order of lines: {both}");
    assert!(both.find(":1:1:") < both.find(":2:1:") && both.find(":2:1:") < both.find(":3:1:"));
}

#[test]
fn a_size_is_a_number_or_a_string_with_a_unit() {
    let fixture = Fixture::with("");
    let cases = [
        ("65536", "65536"),
        ("'65536'", "65536"),
        ("'64KiB'", "\"64KiB\""),
        ("'64kib'", "\"64kib\""),
        ("'66KB'", "\"66KB\""),
        ("0x10000", "65536"),
        ("'1TiB'", "\"1TiB\""),
        ("1_099_511_627_776", "1099511627776"),
    ];
    for (written, printed) in cases {
        fixture.write("p.toml", format!("segment-bytes = {written}"));
        let expected = format!("segment-bytes = {printed}  # file");
        assert_eq!(line(&fixture.printed(&[]), "segment-bytes"), expected);
    }
    let printed = fixture.printed(&["--segment-bytes", "1MB", "--retain-bytes", "18446744073709551615"]);
    assert_eq!(line(&printed, "segment-bytes"), "segment-bytes = \"1MB\"  # flag");
    // TOML numbers have 63 bits.
    assert_eq!(line(&printed, "retain-bytes"), "retain-bytes = \"18446744073709551615\"  # flag");
}

#[test]
fn a_size_is_parsed_exactly_and_refused_beyond_64_bits() {
    let bytes = |text: &str| ByteSize::parse(text).map(|size| size.0);
    for (unit, factor) in [
        ("", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ] {
        for number in [0, 1, 7] {
            assert_eq!(bytes(&format!("{number}{unit}")), Ok(number * factor));
            assert_eq!(bytes(&format!("{number}{}", unit.to_lowercase())), Ok(number * factor));
            assert_eq!(bytes(&format!("{number}{}", unit.to_uppercase())), Ok(number * factor));
        }
        let largest = u64::MAX / factor;
        assert_eq!(bytes(&format!("{largest}{unit}")), Ok(largest * factor));
        let too_large = format!("{}{unit}", u128::from(largest) + 1);
        assert_eq!(bytes(&too_large), Err(format!("{too_large} exceeds 18446744073709551615 bytes")));
    }
    assert_eq!(bytes("00512MiB"), Ok(512 << 20));
    for (text, words) in [
        ("", "expected a whole number, alone or with a unit: TiB, GiB, MiB, KiB, TB, GB, MB, KB"),
        ("MiB", "expected a whole number"),
        ("-1", "expected a whole number"),
        ("+1", "expected a whole number"),
        ("1k", "unknown unit \"k\", expected one of TiB, GiB"),
        ("1B", "unknown unit \"B\""),
        ("1 MiB", "unknown unit \" MiB\""),
        ("1.5GiB", "unknown unit \".5GiB\""),
        ("1MiBs", "unknown unit \"MiBs\""),
        ("1\u{0660}", "unknown unit"),
    ] {
        let error = bytes(text).expect_err("refused");
        assert!(error.contains(words), "{text}: {error}");
    }
    let written = [0, 1, 1023, 1024, 1 << 20, (1 << 20) + 1, 5 << 40, u64::MAX].map(ByteSize);
    for size in written {
        assert_eq!(ByteSize::parse(&size.to_string()), Ok(size));
    }
    assert_eq!(written.map(|size| size.to_string())[3..5], ["1KiB", "1MiB"]);
}

/// Settings under their old and new names.
const RENAMED: [(&str, &str, &str); 4] = [
    ("spin-us", "busy-poll-us", "5"),
    ("limit-address", "rate-limit-per-ip", "5"),
    ("limit-site", "rate-limit-per-site", "5"),
    ("log", "log-format", "json"),
];

#[test]
fn an_old_name_is_refused_with_the_new_one() {
    let variable = |key: &str| format!("PARALLAX_{}", key.replace('-', "_").to_uppercase());
    for (old, new, value) in RENAMED {
        let mut fixture = Fixture::with("");
        let error = format!("parallax: --{old} was renamed to --{new}\n");
        for flag in [vec![format!("--{old}"), value.to_owned()], vec![format!("--{old}={value}")]] {
            let flags: Vec<_> = flag.iter().map(String::as_str).collect();
            assert_eq!(fixture.serve(&flags), (2, String::new(), error.clone()));
        }
        let error = fixture.refused(format!("workers = 1\n{old} = '{value}'"));
        assert_eq!(error, format!("parallax: p.toml:2:1: `{old}` was renamed to `{new}`\n"));

        let (old, new) = (variable(old), variable(new));
        fixture.write("p.toml", "");
        fixture.environment = vec![(old.clone().leak(), value)];
        let error = format!("parallax: the environment variable {old} was renamed to {new}\n");
        assert_eq!(fixture.serve(&["--print-config"]), (2, String::new(), error));
        fixture.environment = vec![(new.leak(), value)];
        assert_eq!(fixture.printed(&[]).matches("  # environment\n").count(), 1);
    }
}

#[test]
fn an_unknown_environment_variable_is_refused_with_the_nearest_name() {
    let mut fixture = Fixture::with("");
    for (name, nearest) in
        [("PARALLAX_LISEN", "; did you mean `PARALLAX_LISTEN`?"), ("PARALLAX_XYLOPHONE", "")]
    {
        fixture.environment = vec![(name, "1")];
        let error = format!("parallax: unknown environment variable `{name}`{nearest}\n");
        assert_eq!(fixture.serve(&["--print-config"]), (2, String::new(), error));
    }
    for known in ["PARALLAX_CASES", "PARALLAX_LONG", "PARALLAX", "PARALLAXES"] {
        fixture.environment = vec![(known, "1")];
        assert_eq!(fixture.serve(&["--print-config"]).0, 0, "{known}");
    }
}

#[test]
fn an_invalid_file_value_is_refused_even_if_a_flag_overrides_it() {
    let fixture = Fixture::with("workers = 0");
    let (code, _, err) = fixture.serve(&["--config", "p.toml", "--workers", "1", "--print-config"]);
    assert_eq!((code, err.contains("p.toml:1:1: `workers`")), (2, true), "{err}");
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_place() {
    let fixture = Fixture::with("");
    assert!(
        fixture.refused("workers = 1\nlisten = here\n").starts_with("parallax: p.toml:2:10: invalid TOML: ")
    );
    assert!(
        fixture.refused("workers = 1\nworkers = 2\n").starts_with("parallax: p.toml:2:1: invalid TOML: dup")
    );
    assert!(
        fixture
            .refused(b"listen = \"\xff\"")
            .starts_with("parallax: p.toml: invalid UTF-8 at byte offset 10")
    );
    let (code, _, err) = fixture.serve(&["--config", "nowhere.toml"]);
    assert_eq!((code, err.as_str()), (2, "parallax: nowhere.toml: No such file or directory (os error 2)\n"));
}

#[test]
fn a_settings_file_has_a_largest_size() {
    let fixture = Fixture::with("");
    let of = |bytes: usize| format!("#{}", "a".repeat(bytes - 1));
    for sound in [SETTINGS_BYTES_MAX - 1, SETTINGS_BYTES_MAX] {
        fixture.write("p.toml", of(sound));
        fixture.printed(&[]);
    }
    let refused = fixture.refused(of(SETTINGS_BYTES_MAX + 1));
    assert_eq!(refused, format!("parallax: p.toml: the file is larger than {SETTINGS_BYTES_MAX} bytes\n"));
}

#[test]
fn the_printed_file_read_back_prints_the_same() {
    let fixture = Fixture::with("country-header = 'a \"b\" \\c'\nsnapshots = \"a\\nb\"\n");
    let first = fixture.printed(&["--workers", "7", "--explain", "--snapshots-memory", "256tib"]);
    fixture.write("p.toml", &first);
    let second = fixture.printed(&[]);
    let values = |text: &str| {
        let sources = ["default", "flag", "environment", "file"].map(|source| format!("  # {source}\n"));
        sources.iter().fold(text.to_owned(), |text, source| text.replace(source, "\n"))
    };
    assert_eq!(values(&first), values(&second));
    assert!(second.contains("workers = 7  # file") && second.contains("\"256tib\"  # file"));
    fixture.write("p.toml", &second);
    assert_eq!(fixture.printed(&[]), second);
}

#[test]
fn the_admin_token_is_never_shown() {
    let mut fixture = Fixture::with("admin-token = 'hush-hush'");
    let shown = |printed: String, source: &str| {
        assert!(printed.contains(&format!("# admin-token is set ({source}), but not shown\n")), "{printed}");
        assert!(!printed.contains("hush"), "{printed}");
    };
    shown(fixture.printed(&[]), "file");
    shown(fixture.printed(&["--admin-token", "hush"]), "flag");
    fixture.environment = vec![("PARALLAX_ADMIN_TOKEN", "hush")];
    shown(fixture.printed(&[]), "environment");
    let (_, help, _) = fixture.serve(&["--help"]);
    assert!(help.contains("PARALLAX_ADMIN_TOKEN") && !help.contains("hush"));
    let unset = Fixture::with("").printed(&[]);
    assert_eq!(line(&unset, "admin-token"), "#admin-token = \"TOKEN\"");
}

#[test]
fn an_admin_token_that_no_header_field_can_have_is_refused() {
    let mut fixture = Fixture::with("");
    for token in ["hush hush hush hush", "hush-hush-hush-hush\u{e9}", "hush-hush-hush-hush\n", " "] {
        for (flags, environment) in
            [(vec!["--admin-token", token], vec![]), (vec![], vec![("PARALLAX_ADMIN_TOKEN", token)])]
        {
            fixture.environment = environment;
            let (code, out, err) = fixture.serve(&flags);
            assert_eq!((code, out.as_str()), (2, ""), "{err}");
            let reason =
                "--admin-token has a space or a character that is not ASCII; choose a token of visible ASCII";
            assert!(err.contains(reason) && !err.contains("hush"), "{err}");
        }
    }
}

#[test]
fn an_admin_token_of_fewer_than_16_characters_is_a_warning() {
    for (length, is_short) in [(1, true), (15, true), (16, false), (17, false), (64, false)] {
        let token = "h".repeat(length);
        let server = Server::start(&[], &["--admin-token", &token]);
        let log = server.log();
        let warning = "WARN --admin-token has fewer than 16 characters; choose a longer one";
        assert_eq!(log.contains(warning), is_short, "{length}: {log}");
        assert!(!log.contains(&format!(" {token} ")), "{log}");
    }
    assert!(!Server::start(&[], &["--admin-token", ""]).log().contains("--admin-token"), "no token is set");
}

#[test]
fn every_long_flag_of_serve_is_a_key_under_a_heading() {
    let fixture = Fixture::with("");
    let (_, help, _) = fixture.serve(&["--help"]);
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let named = flags.map(|flag| flag.split([' ', '[', '=']).next().expect("a name").to_owned());
    let printed = fixture.printed(&[]);
    let keys = keys(&printed);
    for flag in named.filter(|flag| !["config", "print-config"].contains(&flag.as_str())) {
        assert!(keys.contains(&flag.as_str()), "--{flag} is not a key");
        let variable = format!("[env: PARALLAX_{}", flag.replace('-', "_").to_uppercase());
        assert!(help.contains(&variable), "--{flag} has no environment variable");
    }
    assert!(keys.len() >= 15 && !keys.contains(&"config") && !keys.contains(&"help"), "{keys:?}");
    assert!(!printed.contains("-- Others --"), "give the new flag a help_heading: {printed}");
}

#[test]
fn printing_binds_no_address_and_creates_no_file() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let fixture = Fixture::with("snapshots = 'nowhere'");
    fixture.printed(&["--listen", &address, "--admin", &address]);
    let left: Vec<_> = fixture.directory.path().read_dir().expect("a directory").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
