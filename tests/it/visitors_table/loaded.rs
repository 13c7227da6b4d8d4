//! The loader of a table, compared with puts.

use parallax::testing::visitors::store::bulk::{BulkLoader, DuplicateKey};
use parallax::testing::visitors::store::table::{EvictionClass, Table};

use super::{CLASSES, Entry, TableModel, assert_same, colliding_key, key, value};
use crate::dice::Dice;
use crate::harness::times;

/// Loads entries with a wrong estimate of their number.
fn load(entries: &[Entry], expected: usize) -> Result<Table, DuplicateKey> {
    let mut loader = BulkLoader::new(expected);
    entries.iter().for_each(|(key, value, class)| loader.put(*key, value, *class));
    loader.finish()
}

#[test]
fn a_loaded_table_matches_its_model_and_changes_like_any_other() {
    for seed in 0..times(12, 400) {
        let mut dice = Dice(seed as u64);
        let (keys, mut model) = (*dice.pick(&[3, 40, 2_000]), TableModel::default());
        for _ in 0..dice.below(2 * keys) {
            model.put(colliding_key(&mut dice, keys), &value(&mut dice), *dice.pick(&CLASSES));
        }
        let entries: Vec<Entry> = model.all().collect();
        let expected = *dice.pick(&[0, entries.len(), 200_000]);
        let mut table = load(&entries, expected).expect("each key is there once");
        let mut reader = table.readers().reader();
        entries.iter().for_each(|(key, ..)| assert_same(&table, &model, &mut reader, *key));
        for _ in 0..300 {
            let key = colliding_key(&mut dice, keys);
            if dice.below(2) == 0 {
                let (value, class) = (value(&mut dice), *dice.pick(&CLASSES));
                table.put(key, &value, class);
                model.put(key, &value, class);
            } else {
                table.remove(key);
                model.remove(key);
            }
            assert_same(&table, &model, &mut reader, key);
        }
    }
}

#[test]
fn a_key_that_is_loaded_twice_is_an_error() {
    // The loader stores the words of 2^19 entries at once. The distances are below and above that.
    for distance in [1, 1_000, 600_000] {
        let entry = |number: u64| (key(number), vec![1], EvictionClass::Returning);
        let mut entries: Vec<Entry> = (0..distance).chain([0]).map(entry).collect();
        assert_eq!(load(&entries, entries.len()).err(), Some(DuplicateKey), "{distance}");
        entries.pop();
        let table = load(&entries, entries.len()).expect("each key is there once");
        assert_eq!((table.len(), table.get(key(distance - 1))), (entries.len(), Some(&[1][..])));
    }
}

#[test]
fn a_loaded_table_takes_a_hundredth_more_memory_than_one_that_grew_at_most() {
    let entries: Vec<Entry> =
        (0..400_000).map(|number| (key(number), vec![1; 100], EvictionClass::Returning)).collect();
    let mut grown = Table::new();
    entries.iter().for_each(|(key, value, class)| grown.put(*key, value, *class));
    let loaded = load(&entries, entries.len()).expect("each key is there once");
    let (bytes, grown) = (loaded.memory_bytes(), grown.memory_bytes());
    // The index of a shard that grew has 4 to 5 words for 3 entries. A loaded one has nearly 5.
    assert!(bytes <= grown + grown / 100, "{bytes} after a load, {grown} after growth");
    assert!(bytes as u64 <= loaded.cost(), "{bytes}");
}
