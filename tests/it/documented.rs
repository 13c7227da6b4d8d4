//! Every command and every file of a site in the README and in `docs/` is run or compiled, in order, beside a server
//! with the demo site.
//!
//! A command is a line of an indented block or of an `sh` block that begins with one of [`PROGRAMS`]. A file is a
//! `json` block after a line that only names it. Commands that build are not run. `parallax dev` and `parallax
//! rollback` have their own tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::harness::{Server, temporary_directory};

/// The programs that are run. `target/release/parallax` is the same program as `parallax`. `sudo` is left out.
const PROGRAMS: [&str; 5] = ["parallax", "target/release/parallax", "sudo parallax", "curl", "cp"];

/// Commands that are not run here: they run until a signal, or ask a question on the terminal.
const NOT_RUN: [&str; 3] = ["parallax dev ", "parallax serve", "parallax rollback "];

/// The token in the commands about visitors.
const TOKEN: &str = "...";

/// A step of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Run(String),
    /// Write a file of the site `my-site`.
    Write(String, String),
}

/// Returns the steps of a page, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines().peekable();
    let mut named_file = None;
    while let Some(line) = lines.next() {
        let command = line.trim_start().trim_start_matches("$ ");
        let is_command = PROGRAMS
            .iter()
            .any(|program| command.strip_prefix(program).is_some_and(|rest| rest.starts_with(' ')));
        if line == "```sh" {
            let block = lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n");
            steps.extend(block.replace("\\\n", "").lines().map(|command| Step::Run(command.to_owned())));
        } else if line == "```json" {
            let block = lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n");
            steps.extend(named_file.take().map(|name| Step::Write(name, block)));
        } else if line.starts_with("    ") && is_command {
            let mut command = command.to_owned();
            // A line that ends inside a quoted text or with a backslash continues.
            while command.ends_with('\\') || command.matches('\'').count() % 2 == 1 {
                command = format!(
                    "{}{}",
                    command.trim_end_matches('\\'),
                    lines.next().expect("the rest of a command")
                );
            }
            steps.push(Step::Run(command));
        } else if !line.is_empty() {
            let name = line.strip_prefix('`').and_then(|line| line.strip_suffix("`:"));
            named_file = name.filter(|name| name.ends_with(".json")).map(str::to_owned);
        }
    }
    let runs =
        |step: &Step| !matches!(step, Step::Run(text) if NOT_RUN.iter().any(|own| text.starts_with(own)));
    steps.into_iter().filter(runs).collect()
}

/// A working directory beside a running server, whose directories are `snapshots` and `data`.
struct Desk {
    server: Server,
    with_token: Server,
    directory: TempDir,
}

impl Desk {
    fn new() -> Self {
        let demo = parallax::testing::cli::demo::compile_demo().1;
        let server = Server::demo();
        let with_token = Server::start(&[("demo.snapshot", &demo)], &["--admin-token", TOKEN]);
        // The visitor of the examples with a token, which an erasure must know.
        let ana = br#"{"trackingId":"track_demo","userId":"ana","anonId":"visitor-3"}"#;
        assert_eq!(with_token.post("/v1/track", &[], ana).status, 200);
        let directory = temporary_directory();
        let link = |name: &str, target: &Path| {
            std::os::unix::fs::symlink(target, directory.path().join(name)).expect("linked");
        };
        link("snapshots", server.snapshots_directory());
        link("data", server.data());
        Self { server, with_token, directory }
    }

    fn do_step(&self, page: &Path, step: &Step) {
        match step {
            Step::Run(command) => self.run(page, command),
            Step::Write(name, text) => {
                fs::write(self.directory.path().join("my-site").join(name), text).expect("written");
            }
        }
    }

    /// Runs a command, with the actual addresses. A request is repeated until a just published site is served.
    fn run(&self, page: &Path, command: &str) {
        let admin = if command.contains(TOKEN) { self.with_token.admin } else { self.server.admin };
        let actual = command
            .replace("target/release/", "")
            .replace("sudo ", "")
            .replace("/var/lib/parallax/snapshots", "snapshots")
            .replace("127.0.0.1:8080", &self.server.edge.to_string())
            .replace("127.0.0.1:9090", &admin.to_string());
        let script = format!(
            "parallax() {{ \"{}\" \"$@\"; }}\ncurl() {{ command curl -fsS --retry 9 --retry-delay 1 --retry-all-errors \"$@\"; }}\n{actual}",
            env!("CARGO_BIN_EXE_parallax")
        );
        let output = Command::new("bash").args(["-c", &script]).current_dir(self.directory.path()).output();
        let output = output.expect("bash runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{}: {command}\n{}", page.display(), text.concat());
    }
}

/// Returns the paths of the pages.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).expect("a directory");
    let mut pages: Vec<_> = docs.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

#[test]
fn every_command_of_the_documentation_succeeds_and_every_file_compiles() {
    let mut count = 0;
    for page in pages() {
        let steps = steps(&fs::read_to_string(&page).expect("UTF-8"));
        if steps.is_empty() {
            continue;
        }
        let desk = Desk::new();
        steps.iter().for_each(|step| desk.do_step(&page, step));
        if desk.directory.path().join("my-site").exists() {
            desk.run(&page, "[ \"$(parallax lint my-site 2>&1 | grep -c ' 0 errors, 0 warnings')\" = 1 ]");
        }
        count += steps.len();
    }
    assert!(count > 50, "only {count} commands and files are found");
}

#[test]
fn the_steps_of_a_page_are_found() {
    let page = "Text `a.json`:\n\n`site.json`:\n\n```json\n{\n}\n```\n\n```json\n{\"unnamed\":1}\n```\n\n\
        ```sh\nparallax lint a\ncurl \\\n  b\n```\n\n    $ curl -d '{\n        }' c\n    {\"a\":1}\n    \
        parallax dev my-site\n    cargo test\n    curl d  # why\nparallax e\n";
    let run = |text: &str| Step::Run(text.to_owned());
    let file = Step::Write("site.json".to_owned(), "{\n}".to_owned());
    let expected =
        [file, run("parallax lint a"), run("curl   b"), run("curl -d '{        }' c"), run("curl d  # why")];
    assert_eq!(steps(page), expected);
}
