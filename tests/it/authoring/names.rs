//! The names of properties and of searchable traits in `site.json`: their errors and their limits.

use parallax::testing::limits::{
    PRIVATE_TRAITS_MAX, PROPERTIES_MAX, PROPERTY_NAME_CHARS_MAX, SEARCHABLE_TRAITS_MAX, TRAIT_NAME_BYTES_MAX,
};
use serde_json::{Value, json};

use super::goals::lines;

const NONE: [&str; 0] = [];

/// Compiles a site with this member. Returns the lines of a report of its errors.
fn of_member(name: &str, value: &Value) -> Vec<String> {
    lines(&json!({ name: value }), &json!({}), &[])
}

#[test]
fn properties_and_searchable_traits_are_lists_of_names() {
    assert_eq!(of_member("properties", &json!(["plan", "cart.coupon", "größe", "a b"])), NONE);
    assert_eq!(of_member("searchable", &json!(["email", "vorname", "a.b"])), NONE);
    assert_eq!([of_member("properties", &json!([])), of_member("searchable", &json!([]))], [NONE; 2]);
}

#[test]
fn each_wrong_name_is_reported_at_its_place() {
    let path = "the path of a property without `properties.`, such as `plan` or `cart.coupon`";
    for (member, names, expected) in [
        ("properties", json!(["a", "b..c"]), format!("/properties/1 | {path} | \"b..c\"")),
        ("properties", json!(["a*"]), format!("/properties/0 | {path} | \"a*\"")),
        ("properties", json!(["b", "a", "b"]), "/properties/2 | each name once | \"b\"".to_owned()),
        ("searchable", json!(["email", "email"]), "/searchable/1 | each name once | \"email\"".to_owned()),
        ("searchable", json!([""]), "/searchable/0 | 1 to 256 characters | the string \"\"".to_owned()),
        ("private", json!(["email", "email"]), "/private/1 | each name once | \"email\"".to_owned()),
        ("properties", json!("plan"), "/properties | an array | the string \"plan\"".to_owned()),
    ] {
        let found = of_member(member, &names);
        assert!(found.len() == 1 && found[0].ends_with(&expected), "{names}: {found:?}");
    }
}

#[test]
fn a_site_has_so_many_names_and_no_more() {
    let names = |count: usize| json!((0..count).map(|number| format!("n{number}")).collect::<Vec<_>>());
    for (member, count_max) in [
        ("properties", PROPERTIES_MAX),
        ("searchable", SEARCHABLE_TRAITS_MAX),
        ("private", PRIVATE_TRAITS_MAX),
    ] {
        for count in [count_max - 1, count_max] {
            assert_eq!(of_member(member, &names(count)), NONE);
        }
        let refused = of_member(member, &names(count_max + 1));
        assert!(refused.len() == 1 && refused[0].contains(&format!("{count_max}")), "{refused:?}");
    }
    let property = |length: usize| of_member("properties", &json!(["é".repeat(length)]));
    assert_eq!([property(PROPERTY_NAME_CHARS_MAX - 1), property(PROPERTY_NAME_CHARS_MAX)], [NONE; 2]);
    assert!(property(PROPERTY_NAME_CHARS_MAX + 1)[0].contains("1 to 128 characters"));
    // The name of a trait is limited in bytes.
    let name = |length: usize| of_member("searchable", &json!(["é".repeat(length)]));
    assert_eq!([name(TRAIT_NAME_BYTES_MAX / 2 - 1), name(TRAIT_NAME_BYTES_MAX / 2)], [NONE; 2]);
    assert!(name(TRAIT_NAME_BYTES_MAX / 2 + 1)[0].contains("at most 256 bytes"));
}
