//! People that a proxy has signed in: the headers that count, and the origin of their changes.

use parallax::testing::limits::access::{ACCESS_GROUPS_MAX, ACCESS_NAME_BYTES_MAX};
use serde_json::json;

use super::{ACCESS, BEHIND_PROXY, OWN_ORIGIN, comparable, send, start_with_roles};

#[test]
fn a_header_of_a_person_counts_only_once_and_only_from_a_trusted_proxy() {
    let name = [("X-Forwarded-Email", "operator@example.com")];
    let untrusted =
        start_with_roles(&["--trusted-proxy", "192.0.2.1", "--trusted-user-header", "X-Forwarded-Email"]);
    assert_eq!(send(&untrusted, "GET", "/sites", &name).status, 401);
    let unset = start_with_roles(&["--trusted-proxy", "127.0.0.1"]);
    assert_eq!(send(&unset, "GET", "/sites", &name).status, 401);
    let server = start_with_roles(&BEHIND_PROXY);
    assert_eq!(send(&server, "GET", "/sites", &name).status, 200);
    assert_eq!(send(&server, "GET", "/sites", &[name[0], name[0]]).status, 401);
    assert_eq!(send(&server, "GET", "/sites", &[("X-Forwarded-Email", "")]).status, 401);
    let stranger = send(&server, "GET", "/sites", &[("X-Forwarded-Email", "stranger@example.com")]);
    assert_eq!((stranger.status, stranger.code()), (403, "access_denied".to_owned()));
    let of_stranger = |target: &str| {
        comparable(&send(&server, "GET", target, &[("X-Forwarded-Email", "stranger@example.com")]))
    };
    assert_eq!(of_stranger("/sites"), of_stranger("/nothing"));
    // A group alone signs nobody in.
    assert_eq!(send(&server, "GET", "/sites", &[("X-Groups", "operator")]).status, 401);
    // A token comes first.
    let fields = [
        ("Authorization", format!("Bearer {}", ACCESS.1[0])),
        ("X-Forwarded-Email", "operator@example.com".to_owned()),
    ];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(send(&server, "GET", "/access", &fields).json()["name"], json!("viewer"));
    // The proxy may send a token of its own.
    let fields = [("Authorization", "Bearer of-the-proxy"), name[0]];
    assert_eq!(send(&server, "GET", "/access", &fields).json()["name"], json!("operator@example.com"));
}

#[test]
fn a_change_by_a_person_needs_the_own_origin() {
    let server = start_with_roles(&BEHIND_PROXY);
    let name = ("X-Forwarded-Email", "privacy@example.com");
    let target = "/visitors?site=acme&anonId=nobody";
    let erase = |fields: &[(&str, &str)]| send(&server, "DELETE", target, &[&[name][..], fields].concat());
    for fields in [&[][..], &[("Origin", "https://evil.example")], &[("Origin", "null")]] {
        assert_eq!(erase(fields).code(), "origin_not_allowed", "{fields:?}");
    }
    assert_ne!(erase(&[("Origin", OWN_ORIGIN)]).status, 403);
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        assert_eq!(
            send(&server, "GET", "/sites", &[name, ("Sec-Fetch-Site", site)]).status,
            status,
            "{site}"
        );
    }
}

#[test]
fn a_person_has_the_first_256_groups_and_a_name_of_at_most_256_bytes() {
    let server = start_with_roles(&BEHIND_PROXY);
    let status = |name: &str, groups: &str| {
        send(&server, "GET", "/access", &[("X-Forwarded-Email", name), ("X-Groups", groups)]).status
    };
    let groups = |before: usize| format!("{}viewer", "g,".repeat(before));
    assert_eq!(
        [ACCESS_GROUPS_MAX - 2, ACCESS_GROUPS_MAX - 1, ACCESS_GROUPS_MAX]
            .map(|before| status("n", &groups(before))),
        [200, 200, 403]
    );
    let name = |bytes: usize| "n".repeat(bytes);
    assert_eq!(
        [ACCESS_NAME_BYTES_MAX - 1, ACCESS_NAME_BYTES_MAX, ACCESS_NAME_BYTES_MAX + 1]
            .map(|bytes| status(&name(bytes), "viewer")),
        [200, 200, 403]
    );
}
