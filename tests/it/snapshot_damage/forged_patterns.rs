//! Handmade archives with other regular expressions than their tables.

use parallax::testing::condition::TABLE_FORMAT;

use super::forged::{archived, assert_refused, site};
use super::open_bytes;

#[test]
fn an_expression_without_a_table_and_a_damaged_table_are_refused() {
    assert_refused(|site| site.patterns.sources.push("b".to_owned()), "a regular expression has no table");
    assert_refused(|site| site.patterns.tables[0][50] ^= 1, "the table of a regular expression is damaged");
}

#[test]
fn tables_of_another_format_are_built_from_the_expressions() {
    let mut other = site();
    other.patterns.table_format = TABLE_FORMAT + 1;
    other.patterns.tables = vec![b"anything".to_vec()];
    let opened = open_bytes(&archived(&other)).expect("it opens");
    assert!(opened.patterns().is_match(0, "baa") && !opened.patterns().is_match(0, "b"));
    for source in ["(", "a{1000}{1000}"] {
        assert_refused(
            |site| {
                site.patterns.table_format = TABLE_FORMAT + 1;
                site.patterns.sources.push(source.to_owned());
            },
            "regular expression 1: ",
        );
    }
}
