//! Handmade names of properties and searchable traits with a valid hash: their number, their order and their form.

use parallax::testing::limits::{PRIVATE_TRAITS_MAX, PROPERTIES_MAX, SEARCHABLE_TRAITS_MAX};

use super::forged::{assert_refused, open_site, site};
use crate::fuzz::snapshot::request_everything;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number:02}")).collect()
}

#[test]
fn too_many_properties_and_searchable_traits_are_refused() {
    for less in [0, 1] {
        let mut site = site();
        site.goals.properties = names(PROPERTIES_MAX - less);
        site.traits.searchable = names(SEARCHABLE_TRAITS_MAX - less);
        site.traits.private = names(PRIVATE_TRAITS_MAX - less);
        request_everything(open_site(&site).expect("the snapshot opens"));
    }
    let why = "the site has too many properties or named traits";
    assert_refused(|site| site.goals.properties = names(PROPERTIES_MAX + 1), why);
    assert_refused(|site| site.traits.searchable = names(SEARCHABLE_TRAITS_MAX + 1), why);
    assert_refused(|site| site.traits.private = names(PRIVATE_TRAITS_MAX + 1), why);
}

#[test]
fn malformed_properties_and_searchable_traits_are_refused() {
    let owned = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let why = "the properties or the named traits of the site are not sorted";
    for names in [["b", "a"], ["a", "a"]] {
        assert_refused(|site| site.goals.properties = owned(names), why);
        assert_refused(|site| site.traits.searchable = owned(names), why);
        assert_refused(|site| site.traits.private = owned(names), why);
    }
    let why = "the goals or the properties of the site are malformed";
    assert_refused(|site| site.goals.properties = owned(["a", "b..c"]), why);
}
