//! The tests that `.ci/run` runs only once start no server, so that the second run over epoll loses no check.

use super::text::words;
use super::{File, files};

/// Returns the modules that the run over epoll skips.
fn skipped(script: &str) -> Vec<&str> {
    let list = script.lines().find_map(|line| line.strip_prefix("NO_SERVER=\"")?.strip_suffix('"'));
    list.expect(".ci/run has a line NO_SERVER=\"...\"").split(' ').collect()
}

/// Returns whether a file belongs to a module at the top of `tests/it`.
fn is_in(file: &File, module: &str) -> bool {
    let rest = file.path.strip_prefix("tests/it/").and_then(|path| path.strip_prefix(module));
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn starts_a_server(file: &File) -> bool {
    ["Server", "StartingServer"].iter().any(|word| words(&file.code, word).next().is_some())
}

#[test]
fn modules_that_the_epoll_run_skips_start_no_server() {
    let files = files(&["tests/it"]);
    for module in skipped(include_str!("../../../.ci/run")) {
        let own: Vec<&File> = files.iter().filter(|file| is_in(file, module)).collect();
        assert!(!own.is_empty(), ".ci/run skips `{module}`, which does not exist; remove it from NO_SERVER");
        for file in own {
            assert!(
                !starts_a_server(file),
                "{}: it starts a server; remove `{module}` from NO_SERVER",
                file.path
            );
        }
        // The test runner compares parts of names, so a skipped name must not be the end of another module's name.
        let others = files.iter().filter(|file| !is_in(file, module) && starts_a_server(file));
        for file in others {
            let path = file.path.trim_end_matches(".rs").replace('/', "::") + "::";
            assert!(
                !path.contains(&format!("{module}::")),
                "{}: the skip of `{module}::` hits it too",
                file.path
            );
        }
    }
}

#[test]
fn a_server_in_a_skipped_module_is_found() {
    assert_eq!(skipped("a\nNO_SERVER=\"b c\"\n"), ["b", "c"]);
    assert!(starts_a_server(&File::new("tests/it/b.rs", "let server = Server::start(&[], &[]);")));
    assert!(!starts_a_server(&File::new("tests/it/b.rs", "// Server::start\nlet a = \"Server\";")));
    assert!(is_in(&File::new("tests/it/b/c.rs", ""), "b") && !is_in(&File::new("tests/it/bc.rs", ""), "b"));
}
