//! Every limit one below, at, and above.

use parallax::limits::{
    CONTENT_BYTES_MAX, EXCERPT_CHARS_MAX, FILE_BYTES_MAX, FILE_NESTING_MAX, FILES_MAX, MISTAKES_SHOWN_MAX,
};
use parallax::site::source::files::Files;

use super::{files, line, read_files, told_of};

#[test]
fn a_file_is_taken_up_to_its_limit_from_memory_and_from_a_folder() {
    for (length, taken) in [(FILE_BYTES_MAX - 1, true), (FILE_BYTES_MAX, true), (FILE_BYTES_MAX + 1, false)] {
        let filling = " ".repeat(length - super::SITE.1.len());
        let text = format!("{}{filling}", super::SITE.1);
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        std::fs::write(folder.path().join("site.json"), &text).expect("a file");
        let from_folder = Files::from_folder(folder.path()).expect("a readable folder");
        for files in [files(&[("site.json", &text)]), from_folder] {
            let (source, report) = read_files(&files);
            assert_eq!(source.site.is_some(), taken, "{length}");
            let too_large =
                format!("site.json:1:1  | a file of at most {FILE_BYTES_MAX} bytes | a larger one");
            let expected = if taken { vec![] } else { vec![too_large] };
            assert_eq!(report.shown.iter().map(line).collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn a_file_of_content_has_a_larger_limit() {
    for (length, taken) in
        [(CONTENT_BYTES_MAX - 1, true), (CONTENT_BYTES_MAX, true), (CONTENT_BYTES_MAX + 1, false)]
    {
        let text = format!("[]{}", " ".repeat(length - 2));
        let files = files(&[super::SITE, ("content/a.json", &text)]);
        assert_eq!(files.bytes("content/a.json").is_some(), taken, "{length}");
    }
}

#[test]
fn a_site_has_files_up_to_their_limit() {
    for (count, read) in [(FILES_MAX - 1, true), (FILES_MAX, true), (FILES_MAX + 1, false)] {
        let names: Vec<String> = (1..count).map(|n| format!("unexpected{n}.json")).collect();
        let names = names.iter().map(String::as_str).chain(["site.json"]);
        let files = Files::from_memory(names.map(|name| (name, super::SITE.1.as_bytes())));
        assert_eq!(files.len(), count);
        let (source, report) = read_files(&files);
        assert_eq!(source.site.is_some(), read, "{count}");
        let refused = format!(".:1:1  | at most {FILES_MAX} files | more");
        assert_eq!(line(&report.shown[0]) == refused, !read, "{count}");
    }
}

#[test]
fn a_file_nests_up_to_its_limit_also_where_anything_is_allowed() {
    for (levels, read) in
        [(FILE_NESTING_MAX - 1, true), (FILE_NESTING_MAX, true), (FILE_NESTING_MAX + 1, false)]
    {
        // The file and its group are two levels.
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        let column = r#"{"g":"#.len() + levels - 1;
        let refused = format!(
            "groups.json:1:{column}  | at most {FILE_NESTING_MAX} levels of arrays and objects | one more"
        );
        let expected = if read { vec![] } else { vec![refused] };
        assert_eq!(told_of("groups.json", &format!(r#"{{"g":{open}{close}}}"#)), expected, "{levels}");
        let (open, close) = (r#"{"p":"#.repeat(levels - 3), "}".repeat(levels - 3));
        let item = format!(r#"[{{"id":"i","type":"t","fields":{open}{{}}{close}}}]"#);
        assert_eq!(told_of("content/a.json", &item).is_empty(), read, "{levels}");
    }
}

#[test]
fn a_report_shows_mistakes_up_to_its_limit_and_counts_the_rest() {
    for (count, more) in [(MISTAKES_SHOWN_MAX - 1, 0), (MISTAKES_SHOWN_MAX, 0), (MISTAKES_SHOWN_MAX + 1, 1)] {
        let members: Vec<String> = (0..count).map(|n| format!(r#""g{n}":{n}"#)).collect();
        let groups = format!("{{{}}}", members.join(",\n"));
        let (_, report) = read_files(&files(&[super::SITE, ("groups.json", &groups)]));
        assert_eq!((report.shown.len(), report.more), (count - more, more));
        let ending = match more {
            0 => format!("\n{count} mistakes"),
            more => format!("\n{count} mistakes, {more} more than are shown"),
        };
        assert!(report.to_string().ends_with(&ending), "{ending}");
        let last = count - more - 1;
        let expected = format!(
            "groups.json:{}:{} /g{last} | an array | the number {last}",
            last + 1,
            format!(r#""g{last}":"#).len() + usize::from(last == 0) + 1
        );
        assert_eq!(line(&report.shown[last]), expected);
    }
}

#[test]
fn an_excerpt_is_cut_around_the_fault_above_its_limit() {
    for (chars, cut) in
        [(EXCERPT_CHARS_MAX - 1, false), (EXCERPT_CHARS_MAX, false), (EXCERPT_CHARS_MAX + 1, true)]
    {
        let filling = "é".repeat(chars - r#"{"g":3,"h":[""]}"#.len());
        let text = format!(r#"{{"g":3,"h":["{filling}"]}}"#);
        let (_, report) = read_files(&files(&[super::SITE, ("groups.json", &text)]));
        let excerpt = report.shown[0].excerpt.as_ref().expect("an excerpt");
        let shown = format!("{}{}{}", excerpt.before, excerpt.fault, excerpt.after);
        assert_eq!(shown.chars().count(), chars.min(EXCERPT_CHARS_MAX), "{chars}");
        assert_eq!(shown.ends_with('…'), cut, "{chars}");
    }
}
