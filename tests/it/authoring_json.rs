//! `--format json` of `parallax lint` and `parallax types`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::temporary_directory;

fn run(directory: &Path, args: &[&str]) -> (Option<i32>, Value, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(args)
        .current_dir(directory)
        .output()
        .expect("the command runs");
    let document = serde_json::from_slice(&stdout).expect("standard output is one JSON document");
    (status.code(), document, String::from_utf8(stderr).expect("UTF-8"))
}

/// Writes the site of `init` with one replaced file.
fn site(directory: &Path, file: &str, edit: impl Fn(&str) -> String) {
    let status = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(["init", "my-site"])
        .current_dir(directory)
        .output()
        .expect("the command runs")
        .status;
    assert!(status.success());
    let path = directory.join("my-site").join(file);
    let text = fs::read_to_string(&path).expect("a file");
    fs::write(path, edit(&text)).expect("written");
}

#[test]
fn lint_prints_each_error_as_an_object_and_exits_with_1() {
    let directory = temporary_directory();
    site(directory.path(), "site.json", |text| text.replacen("\"trackingId\"", "\"trackingID\"", 1));
    for command in ["lint", "types"] {
        let (code, document, stderr) = run(directory.path(), &[command, "my-site", "--format", "json"]);
        assert_eq!(code, Some(1));
        assert_eq!((&document["routes"], &document["warnings"]), (&Value::Null, &json!([])));
        assert_eq!(document["errorCount"], json!(document["errors"].as_array().map(Vec::len)));
        let error = &document["errors"][0];
        assert_eq!(
            (&error["file"], &error["pointer"]),
            (&json!("site.json"), &json!("/trackingID")),
            "{error}"
        );
        let place = format!("site.json:{}:{}", error["line"], error["column"]);
        assert!(stderr.contains(&place), "{place}\n{stderr}");
        let help = error["help"][0].as_str().expect("a nearest name");
        assert!(help.contains("trackingId") && stderr.contains(help), "{help}\n{stderr}");
    }
}

#[test]
fn lint_prints_warnings_as_objects_and_succeeds() {
    let directory = temporary_directory();
    site(directory.path(), "README.md", str::to_owned);
    fs::create_dir(directory.path().join("my-site/contents")).expect("created");
    let (code, document, stderr) = run(directory.path(), &["lint", "my-site", "--format", "json"]);
    assert_eq!(code, Some(0));
    assert_eq!((&document["site"], &document["errorCount"]), (&json!("my-site"), &json!(0)));
    assert_eq!(document["warningCount"], 1);
    let warning = &document["warnings"][0];
    assert_eq!(warning["file"], "contents");
    assert!(stderr.contains(warning["title"].as_str().expect("a title")), "{stderr}");
}

#[test]
fn types_have_their_declarations_or_the_file_in_the_object() {
    let directory = temporary_directory();
    site(directory.path(), "README.md", str::to_owned);
    let (_, document, _) = run(directory.path(), &["types", "my-site", "--format", "json"]);
    let declarations = document["declarations"].as_str().expect("a text");
    assert_eq!(document["bytes"], declarations.len());
    let (code, document, _) =
        run(directory.path(), &["types", "my-site", "--format", "json", "-o", "site.d.ts"]);
    assert_eq!((code, &document["output"]), (Some(0), &json!("site.d.ts")));
    assert_eq!(document["declarations"], Value::Null);
    assert_eq!(fs::read_to_string(directory.path().join("site.d.ts")).expect("a file"), declarations);
}
