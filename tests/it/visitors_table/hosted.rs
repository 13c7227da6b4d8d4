//! The table of visitors on one thread, as the core without a server has it, compared with that of the server.

#[path = "../../../src/hosted/store.rs"]
#[allow(dead_code, unused_imports, reason = "the fold uses more of the table")]
mod store;

use self::store::table as hosted;
use super::{CLASSES, Dice, EvictionClass, Key, Table};

/// Returns the class of the other table with the same name.
fn hosted_class(class: EvictionClass) -> hosted::EvictionClass {
    match class {
        EvictionClass::Pinned => hosted::EvictionClass::Pinned,
        EvictionClass::SingleVisit => hosted::EvictionClass::SingleVisit,
        EvictionClass::Returning => hosted::EvictionClass::Returning,
    }
}

#[test]
fn the_table_on_one_thread_has_the_entries_the_cost_and_the_victims_of_the_table_of_the_server() {
    let mut dice = Dice(17);
    let mut server = Table::new();
    let mut single = hosted::Table::new();
    for _ in 0..200_000 {
        let key = Key([dice.below(3_000) as u64, 7]);
        match dice.below(10) {
            0 => {
                server.remove(key);
                single.remove(hosted::Key(key.0));
            }
            1 => {
                let victim = server.next_victim().map(|(key, _)| key);
                assert_eq!(single.next_victim().map(|(key, _)| key.0), victim.map(|key| key.0));
                victim.iter().for_each(|key| server.remove(*key));
                victim.iter().for_each(|key| single.remove(hosted::Key(key.0)));
            }
            _ => {
                let value = vec![dice.next_u64() as u8; dice.below(400)];
                let class = *dice.pick(&CLASSES);
                server.put(key, &value, class);
                single.put(hosted::Key(key.0), &value, hosted_class(class));
            }
        }
        assert_eq!(single.get(hosted::Key(key.0)), server.get(key));
        assert_eq!((single.cost(), single.len()), (server.cost(), server.len()));
    }
    assert!(!single.is_empty());
}
