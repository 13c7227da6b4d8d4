//! Every limit of a site's source: one below, at, and one above.

use parallax::testing::limits::{
    CONTENT_FILE_BYTES_MAX, DIAGNOSTICS_SHOWN_MAX, EXCERPT_CHARS_MAX, SOURCE_FILE_BYTES_MAX,
    SOURCE_FILES_MAX, SOURCE_NESTING_MAX,
};
use parallax::testing::site::source::files::Files;

use super::{files, line, read_files, report_lines_of};

#[test]
fn a_file_is_accepted_up_to_its_size_limit() {
    for (length, accepted) in
        [(SOURCE_FILE_BYTES_MAX - 1, true), (SOURCE_FILE_BYTES_MAX, true), (SOURCE_FILE_BYTES_MAX + 1, false)]
    {
        let filling = " ".repeat(length - super::SITE.1.len());
        let text = format!("{}{filling}", super::SITE.1);
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        std::fs::write(directory.path().join("site.json"), &text).expect("a file");
        let from_directory = Files::from_directory(directory.path()).expect("a readable directory");
        for files in [files(&[("site.json", &text)]), from_directory] {
            let (source, report) = read_files(&files);
            assert_eq!(source.site.is_some(), accepted, "{length}");
            let too_large =
                format!("site.json:1:1  | a file of at most {SOURCE_FILE_BYTES_MAX} bytes | a larger file");
            let expected = if accepted { vec![] } else { vec![too_large] };
            assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn a_content_file_has_a_larger_size_limit() {
    for (length, accepted) in [
        (CONTENT_FILE_BYTES_MAX - 1, true),
        (CONTENT_FILE_BYTES_MAX, true),
        (CONTENT_FILE_BYTES_MAX + 1, false),
    ] {
        let text = format!("[]{}", " ".repeat(length - 2));
        let files = files(&[super::SITE, ("content/a.json", &text)]);
        assert_eq!(files.bytes("content/a.json").is_some(), accepted, "{length}");
    }
}

#[test]
fn a_site_is_accepted_up_to_its_file_count_limit() {
    for (count, read) in
        [(SOURCE_FILES_MAX - 1, true), (SOURCE_FILES_MAX, true), (SOURCE_FILES_MAX + 1, false)]
    {
        let names: Vec<String> = (1..count).map(|n| format!("unexpected{n}.json")).collect();
        let names = names.iter().map(String::as_str).chain(["site.json"]);
        let files = Files::from_memory(names.map(|name| (name, super::SITE.1.as_bytes())));
        assert_eq!(files.len(), count);
        let (source, report) = read_files(&files);
        assert_eq!(source.site.is_some(), read, "{count}");
        let refused = format!(".:1:1  | at most {SOURCE_FILES_MAX} files | more");
        assert_eq!(line(&report.diagnostics[0]) == refused, !read, "{count}");
    }
}

#[test]
fn a_file_nests_up_to_its_limit_even_in_free_form_values() {
    for (levels, read) in
        [(SOURCE_NESTING_MAX - 1, true), (SOURCE_NESTING_MAX, true), (SOURCE_NESTING_MAX + 1, false)]
    {
        // The file and its group are two of the levels.
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        let column = r#"{"g":"#.len() + levels - 1;
        let refused = format!(
            "groups.json:1:{column}  | at most {SOURCE_NESTING_MAX} levels of arrays and objects | one more"
        );
        let expected = if read { vec![] } else { vec![refused] };
        assert_eq!(
            report_lines_of("groups.json", &format!(r#"{{"g":{open}{close}}}"#)),
            expected,
            "{levels}"
        );
        let (open, close) = (r#"{"p":"#.repeat(levels - 3), "}".repeat(levels - 3));
        let item = format!(r#"[{{"id":"i","type":"t","fields":{open}{{}}{close}}}]"#);
        assert_eq!(report_lines_of("content/a.json", &item).is_empty(), read, "{levels}");
    }
}

#[test]
fn a_report_shows_diagnostics_up_to_its_limit_and_counts_the_rest() {
    for (count, more) in
        [(DIAGNOSTICS_SHOWN_MAX - 1, 0), (DIAGNOSTICS_SHOWN_MAX, 0), (DIAGNOSTICS_SHOWN_MAX + 1, 1)]
    {
        let members: Vec<String> = (0..count).map(|n| format!(r#""g{n}":{n}"#)).collect();
        let groups = format!("{{{}}}", members.join(",\n"));
        let (_, report) = read_files(&files(&[super::SITE, ("groups.json", &groups)]));
        assert_eq!((report.diagnostics.len(), report.hidden_count), (count - more, more));
        let ending = match more {
            0 => format!("\nerror: compilation failed with {count} errors"),
            more => {
                format!("\nerror: compilation failed with {count} errors ({more} not shown)")
            }
        };
        assert!(report.to_string().ends_with(&ending), "{ending}");
        let last = count - more - 1;
        let expected = format!(
            "groups.json:{}:{} /g{last} | an array | the number {last}",
            last + 1,
            format!(r#""g{last}":"#).len() + usize::from(last == 0) + 1
        );
        assert_eq!(line(&report.diagnostics[last]), expected);
    }
}

#[test]
fn an_excerpt_over_its_limit_is_cut_around_the_error() {
    for (chars, cut) in
        [(EXCERPT_CHARS_MAX - 1, false), (EXCERPT_CHARS_MAX, false), (EXCERPT_CHARS_MAX + 1, true)]
    {
        let filling = "é".repeat(chars - r#"{"g":3,"h":[""]}"#.len());
        let text = format!(r#"{{"g":3,"h":["{filling}"]}}"#);
        let (_, report) = read_files(&files(&[super::SITE, ("groups.json", &text)]));
        let excerpt = report.diagnostics[0].excerpt.as_ref().expect("an excerpt");
        let shown = format!("{}{}{}", excerpt.before, excerpt.highlight, excerpt.after);
        assert_eq!(shown.chars().count(), chars.min(EXCERPT_CHARS_MAX), "{chars}");
        assert_eq!(shown.ends_with('…'), cut, "{chars}");
    }
}
