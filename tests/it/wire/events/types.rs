//! Content types, content codings and JSON syntax of event bodies.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use serde_json::json;

use super::super::problem;
use super::{SERVER, counts, expected_problem, only_record, problem_with_pointer, unique_id};
use crate::harness::Response;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

fn send_body(fields: &[(&str, &str)], body: &[u8]) -> Response {
    SERVER.get().post("/v1/track?site=acme", fields, body)
}

fn event(id: &str) -> String {
    json!({ "anonId": id, "event": "e" }).to_string()
}

#[test]
fn json_may_have_the_content_type_of_text_or_a_form_or_none() {
    for kind in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "text/plain;charset=UTF-8",
        "",
        "application/x-www-form-urlencoded",
    ] {
        let id = unique_id("type");
        only_record(&send_body(&[("Content-Type", kind)], event(&id).as_bytes()), &id);
    }
    let id = unique_id("type");
    only_record(&send_body(&[], event(&id).as_bytes()), &id);
    for kind in ["text/html", "application/octet-stream", "multipart/form-data; boundary=x"] {
        let response = send_body(&[("Content-Type", kind)], b"{}");
        assert_eq!(problem(&response), (415, "unsupported_type".into()), "{kind}");
    }
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(problem(&send_body(&form, b"event=e&anonId=v1")), (415, "unsupported_type".into()));
}

#[test]
fn all_members_of_a_gzip_body_are_decompressed() {
    let (first, second) = (unique_id("member"), unique_id("member"));
    let batch = json!({ "batch": [{ "anonId": first, "event": "e" }, { "anonId": second, "event": "e" }] });
    let batch = batch.to_string();
    let (fields, middle) = ([("Content-Encoding", "gzip")], batch.len() / 2);
    let members = [gzip(&batch.as_bytes()[..middle]), gzip(b""), gzip(&batch.as_bytes()[middle..])].concat();
    let response = SERVER.get().post("/v1/batch?site=acme", &fields, &members);
    assert_eq!((response.status, response.json()["accepted"].as_u64()), (200, Some(2)), "{response:?}");
    for rest in [vec![0], vec![b'{'; 100 * 1024], members[..12].to_vec(), b"\x1f\x8b".to_vec()] {
        let body = [members.clone(), rest].concat();
        let response = SERVER.get().post("/v1/batch?site=acme", &fields, &body);
        assert_eq!(problem(&response), (400, "malformed_json".into()), "other bytes follow");
    }
}

#[test]
fn a_byte_order_mark_before_json_is_skipped() {
    let id = unique_id("mark");
    let marked = format!("\u{feff}{}", event(&id));
    only_record(&send_body(&[], marked.as_bytes()), &id);
    let id = unique_id("mark");
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Content-Encoding", "gzip")];
    only_record(&send_body(&form, &gzip(format!("\u{feff}{}", event(&id)).as_bytes())), &id);
    let twice = format!("\u{feff}\u{feff}{}", event("v1"));
    assert_eq!(problem(&send_body(&[], twice.as_bytes())), (400, "malformed_json".into()));
}

#[test]
fn a_body_of_any_accepted_type_may_be_compressed() {
    for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded"] {
        let id = unique_id("gzip");
        let fields = [("Content-Type", kind), ("Content-Encoding", "gzip")];
        only_record(&send_body(&fields, &gzip(event(&id).as_bytes())), &id);
    }
    let fields = [("Content-Encoding", "gzip")];
    assert_eq!(problem(&send_body(&fields, event("v1").as_bytes())), (400, "malformed_json".into()));
    let cut = gzip(event("v1").as_bytes());
    assert_eq!(problem(&send_body(&fields, &cut[..cut.len() - 9])), (400, "malformed_json".into()));
    for coding in ["br", "deflate", "gzip, gzip"] {
        let response = send_body(&[("Content-Encoding", coding)], b"{}");
        assert_eq!(problem(&response), (415, "unsupported_encoding".into()), "{coding}");
    }
}

#[test]
fn the_size_limit_of_a_compressed_body_applies_after_inflation() {
    let padded = |length: usize| {
        let batch = format!(r#"{{"batch":[{}]}}"#, event("padded"));
        gzip(format!("{batch}{}", " ".repeat(length - batch.len())).as_bytes())
    };
    let fields = [("Content-Encoding", "gzip")];
    for length in [512 * 1024 - 1, 512 * 1024] {
        assert_eq!(counts(&send_body(&fields, &padded(length))), [1, 0, 0, 0]);
    }
    for length in [512 * 1024 + 1, 400 << 20] {
        assert_eq!(problem(&send_body(&fields, &padded(length))), (413, "body_too_large".into()));
    }
}

#[test]
fn a_body_that_is_no_json_object_is_refused() {
    let deep = |depth: usize| {
        let inner = depth - 2;
        format!(
            r#"{{"anonId":"deep","event":"e","properties":{{"a":{}{}}}}}"#,
            "[".repeat(inner),
            "]".repeat(inner)
        )
    };
    for depth in [31, 32] {
        assert_eq!(counts(&send_body(&[], deep(depth).as_bytes())), [1, 0, 0, 0], "{depth}");
    }
    let many = "[".repeat(400 * 1024);
    let fields = r#"{"anonId":"v1","event":"e""#;
    for wrong in [
        String::new(),
        "null".into(),
        "[]".into(),
        r#""text""#.into(),
        deep(33),
        many,
        format!(r#"{fields},"properties":{{"n":NaN}}}}"#),
        format!(r#"{fields},"properties":{{"n":Infinity}}}}"#),
        format!(r#"{fields},"properties":{{"n":01}}}}"#),
        format!(r#"{fields}}}x"#),
        format!(r#"{fields}}}{{}}"#),
        format!(r#"{fields},}}"#),
        fields.to_owned(),
        format!("{fields},\"name\":\"a\nb\"}}"),
    ] {
        let begin: String = wrong.chars().take(60).collect();
        assert_eq!(
            problem_with_pointer(&send_body(&[], wrong.as_bytes())),
            expected_problem(400, "malformed_json", ""),
            "{begin}"
        );
    }
    assert_eq!(
        problem_with_pointer(&send_body(&[], b"{\"anonId\":\"v\xff\"}")),
        expected_problem(400, "malformed_json", "")
    );
}

#[test]
fn lone_surrogates_are_replaced_and_the_last_duplicate_member_wins() {
    let id = unique_id("mended");
    let body = format!(
        r#"{{"anonId":"nobody","anonId":"{id}","event":"a\ud83d","event":"b\udc00\ud83d\ude00","name":"\uD83D",
            "properties":{{"a":"\ud800","a":"x\udfff","big":123456789012345678901234567890}}}}"#
    );
    let response = send_body(&[], body.as_bytes());
    let record = only_record(&response, &id);
    assert_eq!((&record["event"], &record["name"]), (&json!("b\u{fffd}\u{1f600}"), &json!("\u{fffd}")));
    assert_eq!(record["payload"]["properties"]["a"], "x\u{fffd}");
    assert_eq!(
        record["payload"]["properties"]["big"].as_f64(),
        Some(123_456_789_012_345_678_901_234_567_890.0)
    );
    assert_eq!(record["payload"].as_object().expect("an object").len(), 4);
}
