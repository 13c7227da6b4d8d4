//! The digest of a table, compared with the sum over a plain model.

use parallax::testing::visitors::store::table::{EvictionClass, Key, Table};

use super::{CLASSES, TableModel};
use crate::dice::Dice;
use crate::harness::times;

/// A hash with which each byte of an entry counts.
fn hash_of(Key([low, high]): Key, value: &[u8], class: EvictionClass) -> u128 {
    let of_value =
        value.iter().fold(u128::from(low), |sum, byte| sum.wrapping_mul(1_000_003) ^ u128::from(*byte));
    of_value.wrapping_mul(3).wrapping_add(u128::from(high)).wrapping_mul(5).wrapping_add(class as u128)
}

#[test]
fn the_digest_is_the_sum_over_all_entries_after_each_change() {
    let (mut table, mut later, mut model) = (Table::new(), Table::new(), TableModel::default());
    table.keep_digest(hash_of);
    let mut dice = Dice(7);
    for change in 0..times(3_000, 100_000) {
        let key = Key([dice.below(60) as u64 + 1, 9]);
        if dice.below(4) == 0 {
            [&mut table, &mut later].into_iter().for_each(|table| table.remove(key));
            model.remove(key);
        } else {
            let value = vec![change as u8; dice.below(50)];
            let class = CLASSES[dice.below(3)];
            [&mut table, &mut later].into_iter().for_each(|table| table.put(key, &value, class));
            model.put(key, &value, class);
        }
        let sum = model.all().map(|(key, value, class)| hash_of(key, &value, class));
        let sum = sum.fold(0_u128, u128::wrapping_add);
        assert_eq!(table.digest(), sum, "after change {change}");
    }
    assert_eq!(later.digest(), 0, "a table that is not compared keeps none");
    later.keep_digest(hash_of);
    assert_eq!(later.digest(), table.digest(), "the present entries are hashed once");
}
