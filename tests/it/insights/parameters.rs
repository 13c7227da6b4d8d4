//! Parameters that are refused.

use parallax::testing::insights::{LIMIT_MAX, Question, Subject, Zone};

fn parse(subject: Subject, query: &str) -> Result<Question, (String, &'static str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').expect("a value"));
    Question::parse(subject, pairs, &Zone::utc(), 1_767_571_200_000)
        .map_err(|error| (error.param, error.kind.code))
}

#[test]
fn wrong_values_are_refused_with_the_name_of_the_parameter() {
    for (subject, query, param, code) in [
        (Subject::Overview, "from=yesterday", "from", "invalid_param"),
        (Subject::Overview, "to=2026-13-01", "to", "invalid_param"),
        (Subject::Overview, "from=2026-01-05&to=2026-01-05", "from", "invalid_param"),
        (Subject::Overview, "from=2027-01-05", "from", "invalid_param"),
        (Subject::Overview, "by=minute", "by", "invalid_param"),
        (Subject::Overview, "from=2020-01-01&to=2026-01-01&by=hour", "by", "invalid_param"),
        (Subject::Overview, "bots=yes", "bots", "invalid_param"),
        (Subject::Overview, "by=day&by=week", "by", "repeated_param"),
        (Subject::Top, "", "of", "invalid_param"),
        (Subject::Top, "of=colour", "of", "invalid_param"),
        (Subject::Top, "of=page&limit=0", "limit", "invalid_limit"),
        (Subject::Live, "limit=ten", "limit", "invalid_limit"),
        (Subject::Live, "device=phone", "device", "invalid_param"),
        (Subject::Live, "variant=hero", "variant", "invalid_param"),
        (Subject::Live, "variant=hero:default", "variant", "invalid_param"),
    ] {
        assert_eq!(parse(subject, query).err(), Some((param.to_owned(), code)), "{query}");
    }
}

#[test]
fn filters_repeat_and_unknown_and_empty_parameters_are_ignored() {
    let question =
        parse(Subject::Overview, "page=/&page=/a&country=DE&colour=red&by=&limit=3").expect("a question");
    assert_eq!(
        (question.filters.page, question.filters.country),
        (vec!["/".to_owned(), "/a".to_owned()], vec!["DE".to_owned()])
    );
    assert_eq!(question.limit, 3);
}

#[test]
fn a_list_has_at_most_10_000_rows() {
    let limit =
        |limit: usize| parse(Subject::Top, &format!("of=page&limit={limit}")).map(|question| question.limit);
    assert_eq!(limit(LIMIT_MAX - 1), Ok(LIMIT_MAX - 1));
    assert_eq!(limit(LIMIT_MAX), Ok(LIMIT_MAX));
    assert_eq!(limit(LIMIT_MAX + 1), Err(("limit".to_owned(), "invalid_limit")));
}

#[test]
fn the_default_range_is_the_last_30_days() {
    let day = 24 * 60 * 60 * 1000;
    let question = parse(Subject::Overview, "").expect("a question");
    assert_eq!(question.range, 1_767_571_200_000 - 29 * day..1_767_571_200_000 + day);
    let until = parse(Subject::Overview, "to=2025-12-31").expect("a question");
    assert_eq!(until.range.end - until.range.start, 30 * day);
}
