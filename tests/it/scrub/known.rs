//! The register of known damage.

use std::collections::BTreeSet;

use parallax::testing::limits::DAMAGED_PLACES_MAX;
use parallax::testing::storage::damage::KnownDamage;

#[test]
fn each_place_is_to_be_logged_once_whoever_meets_it() {
    let damage = KnownDamage::default();
    let of_reader = damage.clone();
    assert!(damage.note("a", 1));
    assert!(!of_reader.note("a", 1), "another reader has logged it");
    assert!(of_reader.note("a", 2) && of_reader.note("b", 1));
    assert_eq!((damage.count(), damage.files()), (3, vec!["a".to_owned(), "b".to_owned()]));
    damage.restore("a", 1);
    damage.restore("c", 0);
    assert_eq!((damage.has_unlogged("a"), damage.has_unlogged("c")), (false, true));
    assert!(damage.note("c", 0), "only an earlier process has logged it");
    assert!(!damage.has_unlogged("c"));
    damage.forget("a");
    assert_eq!(damage.all(), [("b".to_owned(), 1), ("c".to_owned(), 0)]);
    assert!(damage.note("a", 1), "the file is another one now");
}

#[test]
fn a_check_drops_what_it_does_not_find_unless_this_process_has_met_it_in_the_same_file() {
    let found = BTreeSet::from([2]);
    for is_replaced in [false, true] {
        let damage = KnownDamage::default();
        damage.restore("a", 1);
        damage.restore("a", 2);
        damage.note("a", 3);
        damage.note("b", 1);
        assert!(damage.settle("a", &found, is_replaced));
        let kept: Vec<u64> = damage.all().iter().filter(|(file, _)| file == "a").map(|(_, at)| *at).collect();
        assert_eq!(kept, if is_replaced { vec![2] } else { vec![2, 3] });
        assert_eq!(damage.count() as usize, damage.all().len());
        assert!(!damage.settle("a", &found, is_replaced), "nothing is left to drop");
        assert!(!damage.settle("c", &found, is_replaced), "nothing is known of this file");
    }
}

#[test]
fn at_most_so_many_places_are_known() {
    let damage = KnownDamage::default();
    for n in 1..=DAMAGED_PLACES_MAX as u64 + 1 {
        let is_new = damage.note(&format!("file-{}", n % 10), n);
        assert_eq!(is_new, n <= DAMAGED_PLACES_MAX as u64, "place {n}");
        assert_eq!(damage.count(), n.min(DAMAGED_PLACES_MAX as u64));
    }
    assert!(!damage.note("file-1", 1), "a known place stays known");
    damage.forget("file-1");
    assert!(damage.note("file-1", 1), "there is room again");
}
