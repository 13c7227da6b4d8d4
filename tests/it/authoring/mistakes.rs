//! The text and the place of each diagnostic.

use parallax::testing::nearest::nearest;
use parallax::testing::site::source::diagnostics::{Diagnostic, Diagnostics, Target};
use parallax::testing::site::source::files::Files;

use super::{SITE, files, line, read_files, report_lines, report_lines_of};

/// Returns the diagnostics of a page with these zones.
fn report_lines_of_zones(zones: &str) -> Vec<String> {
    let head = r#"{"path":"/","layout":{"root":{"props":{}},"zones":"#;
    report_lines_of("routes/a.json", &format!("{head}\n{zones}}}}}"))
}

/// Returns the diagnostics of a zone with this rule.
fn report_lines_of_rule(rule: &str) -> Vec<String> {
    report_lines_of_zones(&format!("{{\"z\":{{\"default\":[],\"variants\":{{}},\"rules\":[\n{rule}]}}}}"))
}

#[test]
fn invalid_utf8_is_reported_at_its_first_byte() {
    let bytes: &[u8] = b"{\n  \"\xc3\xa9\": [\"\xff\"]}";
    let files = Files::from_memory([("groups.json", bytes), (SITE.0, SITE.1.as_bytes())]);
    let (_, report) = read_files(&files);
    assert_eq!(line(&report.diagnostics[0]), "groups.json:2:10  | text in UTF-8 | the byte 0xff");
    assert_eq!(report.diagnostics.len(), 1);
}

#[test]
fn invalid_json_is_one_error_where_parsing_fails() {
    let broken = [
        ("", "1:1  | the rest of a value | the end of the file"),
        ("{\"g\": [1,\n\n", "1:10  | the rest of a value | the end of the file"),
        ("{\"g\": [", "1:8  | the rest of a list | the end of the file"),
        ("{\n \"é\": [1 2]}", "2:10  | `,` or `]` | `2`"),
        ("{\"g\": [] \"h\"", "1:10  | `,` or `}` | `\"`"),
        ("{\"g\": [],}", "1:10  | JSON (RFC 8259) | trailing comma"),
        ("{'g': []}", "1:2  | JSON (RFC 8259) | key must be a string"),
        ("// groups\n{}", "1:1  | a JSON value | `/`"),
        ("{\"g\": [1e999]}", "1:12  | JSON (RFC 8259) | number out of range"),
        ("{\"g\": [\"\\ud800\"]}", "1:15  | JSON (RFC 8259) | unexpected end of hex escape"),
        (
            "{\"g\": [\"\t\"]}",
            "1:9  | JSON (RFC 8259) | control character (\\u0000-\\u001F) found while parsing a string",
        ),
        ("{} []", "1:4  | JSON (RFC 8259) | trailing characters"),
        ("\u{feff}{}", "1:1  | UTF-8 without a byte order mark (BOM) | U+FEFF"),
    ];
    for (text, expected) in broken {
        assert_eq!(report_lines_of("groups.json", text), [format!("groups.json:{expected}")], "{text:?}");
    }
}

#[test]
fn an_unknown_member_is_reported_at_its_name_with_the_nearest_name() {
    let route = "{\n  \"path\": \"/a\", \"updatedAT\": null,\n  \"redirect\": {\"to\": \"/b\", \"status\": 301}, \"more\": {}}";
    let either = "one of `each`, `layout`, `path`, `redirect`, `updatedAt`";
    assert_eq!(
        report_lines_of("routes/a.json", route),
        [
            format!("routes/a.json:2:17 /updatedAT | {either} | `updatedAT` | updatedAt"),
            format!("routes/a.json:3:44 /more | {either} | `more`"),
        ],
    );
    let redirect = r#"{"path":"/a","redirect":{"to":"/b","status":301,"statsu":302}}"#;
    let expected = "routes/a.json:1:49 /redirect/statsu | one of `status`, `to` | `statsu` | status";
    assert_eq!(report_lines_of("routes/a.json", redirect), [expected]);
}

#[test]
fn a_misspelt_required_member_is_not_missing_and_its_value_is_checked() {
    let site = r#"{"site":"a","trackingID":"acme","name":"A"}"#;
    let (_, report) = read_files(&files(&[("site.json", site)]));
    let known = "one of `attribution`, `bots`, `cache`, `cookie`, `goals`, `holdout`, `hosts`, `identity`, `ignoreProviders`, `ignoredReferrers`, `localDecisions`, `name`, `origins`, `privacy`, `private`, `properties`, `searchable`, `segments`, `site`, `timeZone`, `trackingId`, `version`";
    let expected = [
        format!("site.json:1:13 /trackingID | {known} | `trackingID` | trackingId"),
        r#"site.json:1:26 /trackingID | `track_` and 1 to 64 of A-Z a-z 0-9 _ - | the string "acme""#
            .to_owned(),
    ];
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
}

#[test]
fn the_verification_of_user_ids_is_none_or_signed() {
    let report_of = |identity: &str| {
        let site = format!(r#"{{"site":"a","trackingId":"track_a","name":"A","identity":{identity}}}"#);
        let (_, report) = read_files(&files(&[("site.json", &site)]));
        report.diagnostics.iter().map(line).collect::<Vec<_>>()
    };
    for valid in [r#"{"verify":"none"}"#, r#"{"verify":"signed"}"#, "{}"] {
        assert_eq!(report_of(valid), [""; 0], "{valid}");
    }
    let wrong = r#"site.json:1:68 /identity/verify | one of `none`, `signed` | the string "Signed" | signed"#;
    assert_eq!(report_of(r#"{"verify":"Signed"}"#), [wrong]);
    let unknown = "site.json:1:59 /identity/verified | `verify` | `verified`";
    assert_eq!(report_of(r#"{"verified":true}"#), [unknown]);
}

#[test]
fn a_host_of_the_site_is_a_name_without_scheme_and_port() {
    let site = r#"{"site":"a","trackingId":"track_a","name":"A","hosts":["a.example","https://b.example","c.example:80"]}"#;
    let (_, report) = read_files(&files(&[("site.json", site)]));
    let name = "a host name in lower case such as `shop.example.com`, without scheme, port and path";
    let expected = [
        format!(r#"site.json:1:68 /hosts/1 | {name} | the string "https://b.example""#),
        format!(r#"site.json:1:88 /hosts/2 | {name} | the string "c.example:80""#),
    ];
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
}

#[test]
fn an_ignored_referrer_is_a_host_or_a_domain_with_its_subdomains() {
    let site = r#"{"site":"a","trackingId":"track_a","name":"A","ignoredReferrers":["*.a.example","*b.example"],"ignoreProviders":[]}"#;
    let (_, report) = read_files(&files(&[("site.json", site)]));
    let name = "a host name in lower case such as `checkout.example.com`, or `*.example.com` for a domain and all its subdomains, without scheme, port and path";
    let expected = [
        format!(r#"site.json:1:81 /ignoredReferrers/1 | {name} | the string "*b.example""#),
        "site.json:1:113 /ignoreProviders | true or false | an empty array".to_owned(),
    ];
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
}

#[test]
fn unknown_consent_categories_are_reported() {
    let site = r#"{"site":"a","trackingId":"track_a","name":"A","privacy":{"consentCategories":{"measures":"x","personalize":7}}}"#;
    let (_, report) = read_files(&files(&[("site.json", site)]));
    let places: Vec<_> = report.diagnostics.iter().map(line).collect();
    assert_eq!(places.len(), 2, "{places:?}");
    assert!(places[0].contains("/privacy/consentCategories/measures"), "{places:?}");
    assert!(places[1].contains("/privacy/consentCategories/personalize"), "{places:?}");
}

#[test]
fn a_missing_member_is_reported_at_its_object() {
    let expected = [
        "routes/a.json:2:10 /layout/zones/main/0 | the member `id` | an object with `type`",
        "routes/a.json:2:10 /layout/zones/main/0 | the member `props` | an object with `type`",
    ];
    assert_eq!(report_lines_of_zones(r#"{"main":[{"type":"T"}]}"#), expected);
}

#[test]
fn a_wrong_type_is_reported_at_the_value() {
    let site = r#"{"site":"a","trackingId":"track_a","name":7,"version":1.0,"origins":{},"privacy":{"honorGpc":"yes"}}"#;
    let (_, report) = read_files(&files(&[("site.json", site)]));
    let expected = [
        "site.json:1:43 /name | a string | the number 7",
        "site.json:1:55 /version | an integer | the number 1.0",
        "site.json:1:69 /origins | an array | an empty object",
        r#"site.json:1:94 /privacy/honorGpc | true or false | the string "yes""#,
    ];
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
    let expected = "routes/a.json:2:6 /layout/zones/z | an array or an object | true";
    assert_eq!(report_lines_of_zones(r#"{"z":true}"#), [expected]);
    let expected = "routes/a.json:1:1  | an object | an empty array";
    assert_eq!(report_lines_of("routes/a.json", "[]"), [expected]);
}

#[test]
fn a_value_out_of_range_is_reported_with_its_bounds() {
    let report_lines_of_site = |members: &str| {
        let text = format!(r#"{{"site":"a","trackingId":"track_a","name":"A",{members}}}"#);
        let (_, report) = read_files(&files(&[("site.json", &text)]));
        report
            .diagnostics
            .iter()
            .map(|placed| line(placed).split_off("site.json:1:47 ".len()))
            .collect::<Vec<_>>()
    };
    let largest = "9007199254740992";
    assert_eq!(report_lines_of_site(&format!(r#""version":{largest}"#)), [""; 0]);
    for above in ["9007199254740993", "18446744073709551616", "1000000000000000000000000000000000000000000"] {
        let expected = format!("/version | 0 to {largest} | the number {above}");
        assert_eq!(report_lines_of_site(&format!(r#""version":{above}"#)), [expected]);
    }
    assert_eq!(
        report_lines_of_site(r#""version":-1"#),
        [format!("/version | 0 to {largest} | the number -1")]
    );
    assert_eq!(report_lines_of_site(r#""version":-0"#), ["/version | an integer | the number -0"]);
    let cookie = r#"/cookie | a cookie's name: 1 to 64 of A-Z a-z 0-9 ! # $ % & ' * + - . ^ _ ` | ~ | the string "a b""#;
    assert_eq!(report_lines_of_site(r#""cookie":"a b""#), [cookie]);
}

#[test]
fn a_value_outside_its_enum_is_reported_with_the_nearest_value() {
    let text = r#"{"site":"a","trackingId":"track_a","name":"A","bots":"falg","privacy":{"ip":"all"}}"#;
    let (_, report) = read_files(&files(&[("site.json", text)]));
    let expected = [
        r#"site.json:1:54 /bots | one of `drop`, `flag`, `keep` | the string "falg" | flag"#,
        r#"site.json:1:77 /privacy/ip | one of `none`, `truncated`, `full` | the string "all""#,
    ];
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
    let redirect = r#"{"path":"/a","redirect":{"to":"/b","status":70000}}"#;
    let expected =
        "routes/a.json:1:45 /redirect/status | one of `301`, `302`, `303`, `307`, `308` | the number 70000";
    assert_eq!(report_lines_of("routes/a.json", redirect), [expected]);
}

#[test]
fn an_invalid_name_is_reported_and_its_value_is_still_checked() {
    let name = "1 to 64 of A-Z a-z 0-9 _ -";
    let expected = [
        format!("routes/a.json:2:2 /layout/zones/he ro | a name of {name} | `he ro`"),
        "routes/a.json:2:10 /layout/zones/he ro | an array or an object | the number 3".to_owned(),
    ];
    assert_eq!(report_lines_of_zones(r#"{"he ro":3}"#), expected);
    let node = r#"{"main":[{"id":"","type":"","props":{}}]}"#;
    let expected = [
        format!(r#"routes/a.json:2:16 /layout/zones/main/0/id | {name} | the string """#),
        r#"routes/a.json:2:26 /layout/zones/main/0/type | 1 or more characters | the string """#.to_owned(),
    ];
    assert_eq!(report_lines_of_zones(node), expected);
}

#[test]
fn default_is_a_reserved_variant_key() {
    let expected = "routes/a.json:2:32 /layout/zones/z/variants/default | a name of 1 to 64 of A-Z a-z 0-9 _ -, and not `default`, which is reserved | `default`";
    assert_eq!(
        report_lines_of_zones(r#"{"z":{"default":[],"variants":{"default":[]},"rules":[]}}"#),
        [expected]
    );
}

#[test]
fn a_route_has_exactly_one_of_layout_and_redirect() {
    let forms = "{`each`?, `layout`, `path`, `updatedAt`?} or {`path`, `redirect`, `updatedAt`?}";
    let neither = format!("routes/a.json:1:1  | {forms} | an object with `path`");
    assert_eq!(report_lines_of("routes/a.json", r#"{"path":"/a"}"#), [neither]);
    let layout = r#""layout":{"root":{"props":{}},"zones":{}}"#;
    let both = format!(r#"{{"path":"/a",{layout},"redirect":{{"to":"/b","status":301}}}}"#);
    let expected = format!("routes/a.json:1:1  | {forms} | an object with `path`, `layout`, `redirect`");
    assert_eq!(report_lines_of("routes/a.json", &both), [expected]);
}

#[test]
fn a_rule_has_exactly_one_of_its_three_forms() {
    let forms = "{`audience`, `variant`} or {`variant`, `when`} or {`experiment`, `when`?}";
    let assert_reported = |rule: &str, actual: &str| {
        let expected = format!("routes/a.json:3:1 /layout/zones/z/rules/0 | {forms} | {actual}");
        assert_eq!(report_lines_of_rule(rule), [expected], "{rule}");
    };
    assert_reported("{}", "an empty object");
    assert_reported(r#"{"audience":"a"}"#, "an object with `audience`");
    assert_reported(r#"{"variant":"b"}"#, "an object with `variant`");
    assert_reported(
        r#"{"audience":"a","when":{},"variant":"b"}"#,
        "an object with `audience`, `when`, `variant`",
    );
    let experiment = r#"{"experiment":{"key":"k","variants":["b"]},"variant":"b"}"#;
    assert_reported(experiment, "an object with `experiment`, `variant`");
}

#[test]
fn a_misspelt_rule_member_is_the_only_error() {
    let known = "one of `audience`, `experiment`, `variant`, `when`";
    let expected =
        format!("routes/a.json:3:2 /layout/zones/z/rules/0/audiense | {known} | `audiense` | audience");
    assert_eq!(report_lines_of_rule(r#"{"audiense":"a","variant":"b"}"#), [expected]);
}

#[test]
fn experiment_shares_are_between_0_and_1() {
    let rule = |members: &str| {
        report_lines_of_rule(&format!(r#"{{"experiment":{{"key":"k","variants":["b"],{members}}}}}"#))
    };
    assert_eq!(rule(r#""coverage":0,"holdout":1,"weights":[1e0,-0.0],"namespace":["n",0,1]"#), [""; 0]);
    let at = "/layout/zones/z/rules/0/experiment";
    let expected = [
        format!("routes/a.json:3:54 {at}/coverage | 0 to 1 | the number 1.01"),
        format!("routes/a.json:3:72 {at}/weights/1 | 0 to 1 | the number -1"),
        format!("routes/a.json:3:88 {at}/namespace | 3 elements | an array of 2 elements"),
    ];
    assert_eq!(rule(r#""coverage":1.01,"weights":[1,-1],"namespace":["n",0]"#), expected);
    let four = rule(r#""namespace":["n",0,1,1]"#);
    let expected = format!("routes/a.json:3:55 {at}/namespace | 3 elements | an array of 4 elements");
    assert_eq!(four, [expected]);
}

#[test]
fn a_duplicate_member_is_reported_at_its_second_occurrence() {
    let site = "{\"site\":\"a\",\"trackingId\":\"track_a\",\"name\":\"A\",\n \"si\\u0074e\":\"b\"}";
    let (_, report) = read_files(&files(&[("site.json", site)]));
    let expected = ["site.json:2:2 /site | each member once | `site` again"];
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
}

#[test]
fn a_duplicate_member_inside_props_or_conditions_is_an_error() {
    let zone = r#"{"main":[{"id":"n","type":"T","props":{"a":[{"b":1,"b":2}]}}]}"#;
    let expected = "routes/a.json:2:52 /layout/zones/main/0/props/a/0/b | each member once | `b` again";
    assert_eq!(report_lines_of_zones(zone), [expected]);
    let audiences = r#"{"pro":{"when":{"plan":{"$in":[1],"$in":[2]}}}}"#;
    let expected = "audiences.json:1:35 /pro/when/plan/$in | each member once | `$in` again";
    assert_eq!(report_lines_of("audiences.json", audiences), [expected]);
}

#[test]
fn columns_count_characters_and_pointers_escape_names() {
    let groups = "{\n\t\"g\": [], \"ü~/😀\": \"漢\"}";
    let expected = [
        "groups.json:2:11 /ü~0~1😀 | a name of 1 to 64 of A-Z a-z 0-9 _ - | `ü~/😀`",
        "groups.json:2:19 /ü~0~1😀 | an array | the string \"漢\"",
    ];
    assert_eq!(report_lines_of("groups.json", groups), expected);
}

#[test]
fn a_parameter_declaration_must_be_consistent() {
    let query = |params: &str| {
        report_lines_of("queries.json", &format!("{{\"q\":{{\"collection\":\"c\",\"params\":\n{params}}}}}"))
    };
    let valid = r#"{"n":{"type":"number","enum":[1,2.5],"default":1,"minimum":1,"maximum":3},"b":{"type":"boolean","default":false}}"#;
    assert_eq!(query(valid), [""; 0]);
    let numbers = r#"{"n":{"type":"number","minimum":3,"maximum":2,"default":"3"}}"#;
    let expected = [
        "queries.json:2:45 /q/params/n/maximum | at least 3 (the minimum) | 2",
        "queries.json:2:57 /q/params/n/default | a number (the `type` of the parameter) | \"3\"",
    ];
    assert_eq!(query(numbers), expected);
    let strings = r#"{"s":{"type":"string","maximum":2,"enum":["a",1],"default":"c"}}"#;
    let expected = [
        "queries.json:2:33 /q/params/s/maximum | no bound, because the parameter is not a number | 2",
        "queries.json:2:47 /q/params/s/enum/1 | a string (the `type` of the parameter) | 1",
        "queries.json:2:60 /q/params/s/default | one of the values of `enum` | \"c\"",
    ];
    assert_eq!(query(strings), expected);
    let bounds = r#"{"n":{"type":"number","minimum":1,"maximum":3,"enum":[0,1,3,4]}}"#;
    let expected = [
        "queries.json:2:55 /q/params/n/enum/0 | at least 1 | 0",
        "queries.json:2:61 /q/params/n/enum/3 | at most 3 | 4",
    ];
    assert_eq!(query(bounds), expected);
}

#[test]
fn a_duplicate_item_id_is_reported_at_the_second_item() {
    let items = "[{\"id\":\"a\",\"type\":\"t\",\"fields\":{}},\n{\"id\":\"a\",\"type\":\"t\",\"fields\":{}}]";
    let expected = "content/c.json:2:7 /1/id | an ID that no other item of the collection has | \"a\" again";
    assert_eq!(report_lines_of("content/c.json", items), [expected]);
}

#[test]
fn diagnostics_of_all_files_are_sorted_by_file_line_and_column() {
    let texts = [
        ("routes/b.json", "{"),
        ("routes/a.json", "{\"paht\":\"/a\",\n\"redirect\":{\"status\":1,\"to\":2}}"),
        ("groups.json", "{\"g\":1,\"h\":2}"),
        ("content/c.json", "[{}]"),
    ];
    let places: Vec<String> = report_lines(&texts)
        .iter()
        .map(|line| line.split(" | ").next().expect("a position").to_owned())
        .collect();
    let expected = [
        "content/c.json:1:2 /0",
        "content/c.json:1:2 /0",
        "content/c.json:1:2 /0",
        "groups.json:1:6 /g",
        "groups.json:1:12 /h",
        "routes/a.json:1:2 /paht",
        "routes/a.json:2:22 /redirect/status",
        "routes/a.json:2:29 /redirect/to",
        "routes/b.json:1:2 ",
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_diagnostic_with_a_pointer_is_placed_at_the_name_or_the_value() {
    let files = files(&[("groups.json", "{\n  \"ä\": [],\n  \"a/b\": [1, {\"c\": 2}]\n}")]);
    let mut diagnostics = Diagnostics::default();
    diagnostics.add(Diagnostic::at_value("groups.json", "/a~1b/1/c", "three", "two"));
    diagnostics.add(Diagnostic::at_key("groups.json", "/a~1b", "x", "y"));
    diagnostics.add(Diagnostic::at_value("groups.json", "/a~1b/0", "zero", "one"));
    diagnostics.add(Diagnostic::at_key("groups.json", "/a~1b/0", "an element has no name", "y"));
    diagnostics.add(Diagnostic::at_value("groups.json", "", "all", "of it"));
    diagnostics.add(Diagnostic::at_value("groups.json", "/no/such/place", "something", "nothing"));
    diagnostics.add(Diagnostic::at_value("gone.json", "/a", "a file", "none"));
    let expected = [
        "gone.json:1:1 /a | a file | none",
        "groups.json:1:1  | all | of it",
        "groups.json:1:1 /no/such/place | something | nothing",
        "groups.json:3:3 /a~1b | x | y",
        "groups.json:3:11 /a~1b/0 | zero | one",
        "groups.json:3:11 /a~1b/0 | an element has no name | y",
        "groups.json:3:20 /a~1b/1/c | three | two",
    ];
    let report = diagnostics.report(&files);
    assert_eq!(report.diagnostics.iter().map(line).collect::<Vec<_>>(), expected);
}

#[test]
fn the_terminal_text_underlines_the_error_in_its_line() {
    let texts = [("groups.json", "{\n\t\"grüße\": [],\n\t\"b\": 3\n}"), SITE];
    let files = files(&texts);
    let (_, report) = read_files(&files);
    let expected = "\
error: invalid name `grüße`
 --> groups.json:2:2 at /grüße
  |
2 |  \"grüße\": [],
  |  ^^^^^^^
  |
  = note: expected a name of 1 to 64 of A-Z a-z 0-9 _ -

error: expected an array, found the number 3
 --> groups.json:3:7 at /b
  |
3 |  \"b\": 3
  |       ^

error: compilation failed with 2 errors";
    assert_eq!(report.to_string(), expected);
    let mut diagnostics = Diagnostics::default();
    let diagnostic =
        Diagnostic::at_value("x.json", "", "a", "b").with_nearest(Some("c".to_owned())).with_title("t");
    diagnostics.add(Diagnostic { target: Target::Span(0..0), ..diagnostic });
    let expected = "\
error: t
 --> x.json:1:1
  = note: expected a, found b
  = help: did you mean `c`?

error: compilation failed with 1 error";
    assert_eq!(diagnostics.report(&files).to_string(), expected);
}

#[test]
fn no_file_can_write_control_characters_to_the_terminal() {
    let text = "{\"\\u001b[31m\\u202e\":\"\\u0007\u{7f}\u{9b}\u{202e}\u{2066}\u{61c}\"}";
    let report = read_files(&files(&[SITE, ("groups.json", text)])).1.to_string();
    let reorders = |c| ['\u{202e}', '\u{2066}', '\u{61c}'].contains(&c);
    let control = report.chars().find(|&c| c.is_control() && c != '\n' || reorders(c));
    assert_eq!(control, None, "{report:?}");
}

#[test]
fn the_nearest_name_has_at_most_one_typo_per_three_letters() {
    let names = ["audience", "variant", "when"];
    for (name, expected) in [
        ("audiense", Some("audience")),
        ("AUDIENCE", Some("audience")),
        ("varaint", Some("variant")),
        ("wen", Some("when")),
        ("weight", None),
        ("w", None),
        ("", None),
    ] {
        assert_eq!(nearest(name, names).as_deref(), expected, "{name}");
    }
    assert_eq!(nearest("zone-c", ["zone-b", "zone-a"]).as_deref(), Some("zone-a"));
    assert_eq!(nearest(&"x".repeat(8_000_000), names), None);
}
