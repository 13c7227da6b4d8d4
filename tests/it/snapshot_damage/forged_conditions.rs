//! Forged conditions in an archive with a valid hash.

use parallax::testing::condition::program::{Accessor, HOLDS, Operation, Program, Successors, Test};
use parallax::testing::limits::AUDIENCES_MAX;
use parallax::testing::site::profile_fields::field_paths;
use parallax::testing::site::snapshot::format::{Audience, Condition, Rule, Scan, Site};

use super::forged::{assert_page_refused, assert_refused, open_site, site};

/// A program with one test. The tests of conditions have all other faults of programs.
fn program(test: Test) -> Program {
    Program { operations: vec![Operation { test, next: Successors { holds: HOLDS, fails: HOLDS } }] }
}

fn audience(test: Test) -> Audience {
    let condition = Condition { program: program(test), authored: "{}".to_owned() };
    Audience { key: "a".to_owned(), name: String::new(), condition }
}

#[test]
fn an_invalid_condition_is_refused_wherever_it_is() {
    let field = |code| Test::IsArray(Accessor::Field { code, name: "a".into() });
    let fields = field_paths().count() as u16;
    for (code, is_known) in [(fields - 1, true), (fields, false)] {
        let mut site = site();
        site.audiences.push(audience(field(code)));
        assert_eq!(open_site(&site).is_ok(), is_known, "{code}");
    }
    let missing = "a condition refers to a missing or misplaced field";
    let forged = || program(field(u16::MAX));
    assert_refused(|site| site.audiences.push(audience(field(u16::MAX))), missing);
    let when = || Condition { program: forged(), authored: "{}".to_owned() };
    assert_page_refused(|page| page.zones[0].rules.push(Rule::When { when: when(), variant: 1 }), missing);
    let rule = || Rule::Experiment { experiment: 0, arms: vec![0, 1], when: Some(when()) };
    assert_page_refused(|page| page.zones[0].rules.push(rule()), missing);
    // A query has one parameter.
    let forged = || program(Test::HasParam(2));
    let missing = "a condition refers to a missing parameter";
    let scan = |site: &mut Site| site.queries[0].scan.take().expect("a scan");
    assert_refused(|site| site.queries[0].scan = Some(Scan { program: forged(), ..scan(site) }), missing);
    assert_refused(|site| site.queries[0].scan = Some(Scan { residual: forged(), ..scan(site) }), missing);
}

#[test]
fn missing_cyclic_and_too_many_audiences_are_refused() {
    let refer_to = |index| audience(Test::Audience(index));
    let missing = "a condition refers to a missing or misplaced audience";
    assert_refused(|site| site.audiences = vec![refer_to(1)], missing);
    let cycle = "audiences refer to each other in a cycle or in too long a chain";
    assert_refused(|site| site.audiences = vec![refer_to(0)], cycle);
    assert_refused(|site| site.audiences = vec![refer_to(1), refer_to(0)], cycle);
    let crowd = |count: usize| (0..count).map(|_| audience(Test::Always)).collect();
    assert!(open_site(&Site { audiences: crowd(AUDIENCES_MAX), ..site() }).is_ok());
    assert_refused(|site| site.audiences = crowd(AUDIENCES_MAX + 1), "there are too many audiences");
}
