//! Fixed histories: the shortest ones in which a rule is needed.

use crate::event::Action;
use crate::mutant::Mutant;
use crate::stream::InTransit;
use crate::world::{Codec, World};

/// One node, whose disk is restored from a backup. Later the stream loses its end, with a record of the
/// earlier producer ID.
fn lost_record_of_a_predecessor(mutant: Mutant) -> Result<(), String> {
    let mut codec = Codec::new();
    let mut world = World::new(1, mutant, &mut codec);
    world.join();
    world.checkpoint(0);
    // The node acknowledges the seqs 1 to 5, and sends them in three messages.
    (0..5).for_each(|_| world.record(0, Action::Page, 0));
    assert!(world.publish(0, 3));
    let kept = world.end();
    (0..2).for_each(|_| assert!(world.publish(0, 1)));
    world.wait(0);
    // The backup has the seqs 1 to 4. The node acknowledges another record as seq 5.
    world.restore(0, 4);
    world.record(0, Action::Page, 1);
    world.wait(0);
    // Seq 5 differs: the node takes another producer ID, with base seq 5. It writes the file, becomes a member again, and
    // sends its record.
    world.read(0);
    (0..2).for_each(|_| assert!(world.publish(0, 1)));
    world.read(0);
    // The stream loses all after the first of them, with seq 4 of the first ID.
    world.lose_after(kept);
    world.finish().map(drop)
}

#[test]
fn a_record_that_the_stream_loses_under_a_predecessor_is_sent_again() {
    assert_eq!(lost_record_of_a_predecessor(Mutant::None), Ok(()));
    let lost = lost_record_of_a_predecessor(Mutant::ForgetsPredecessors);
    assert!(lost.as_ref().is_err_and(|error| error.contains("is in no table")), "{lost:?}");
}

/// A node is cut off and records an event. Meanwhile another node erases the visitor.
fn erased_while_cut_off(mutant: Mutant) -> Result<(), String> {
    let mut codec = Codec::new();
    let mut world = World::new(1, mutant, &mut codec);
    world.join();
    world.disconnect(1);
    world.record(1, Action::Page, 0);
    world.wait(1);
    world.record(0, Action::Tombstone, 0);
    assert!(world.publish(0, 1));
    world.connect(1);
    // Without the rule the node sends the event of the erased visitor before it has read the tombstone.
    (0..2).for_each(|_| assert!(world.publish(1, 1)));
    world.finish().map(drop)
}

#[test]
fn a_node_that_was_cut_off_reads_before_it_sends() {
    assert_eq!(erased_while_cut_off(Mutant::None), Ok(()));
}

/// Node 1 sends an event, and its message is under way while node 0 erases the visitor. `before` happens to
/// node 1 before it reads the tombstone, and `after` after it.
fn erased_under_way(
    mutant: Mutant,
    before: fn(&mut World<'_>),
    after: fn(&mut World<'_>),
) -> Result<(), String> {
    let mut codec = Codec::new();
    let mut world = World::new(1, mutant, &mut codec);
    world.join();
    world.record(1, Action::Page, 0);
    let message = world.send(1, 1).expect("the event");
    world.record(0, Action::Tombstone, 0);
    assert!(world.publish(0, 1));
    before(&mut world);
    world.read(1);
    after(&mut world);
    world.arrive(message);
    world.finish().map(drop)
}

fn is_back(result: &Result<(), String>) -> bool {
    result.as_ref().is_err_and(|error| error.contains("erased visitor is back"))
}

#[test]
fn an_event_that_was_under_way_during_its_erasure_gets_a_second_tombstone() {
    let run = |mutant| erased_under_way(mutant, |_| (), |_| ());
    assert_eq!(run(Mutant::None), Ok(()));
    assert!(is_back(&run(Mutant::HasNoSecondTombstone)));
}

#[test]
fn a_damaged_event_that_was_under_way_during_its_erasure_gets_a_second_tombstone() {
    let before = |mutant| erased_under_way(mutant, |world| world.damage_record(1, 1), |_| ());
    assert_eq!(before(Mutant::None), Ok(()));
    assert!(is_back(&before(Mutant::IgnoresUnreadableRecords)));
    let after = |mutant| erased_under_way(mutant, |_| (), |world| world.damage_record(1, 1));
    assert_eq!(after(Mutant::IgnoresUnreadableRecords), Ok(()), "its key is noted");
}

#[test]
fn an_event_that_a_restored_disk_has_lost_gets_a_second_tombstone() {
    let run = |mutant| erased_under_way(mutant, |world| world.restore(1, 0), |_| ());
    assert_eq!(run(Mutant::None), Ok(()));
    assert!(is_back(&run(Mutant::IgnoresLostRecords)));
}

#[test]
fn a_crash_after_an_erasure_does_not_forget_the_event_that_was_under_way() {
    let run = |mutant| erased_under_way(mutant, |_| (), |world| world.restart(1));
    assert_eq!(run(Mutant::None), Ok(()));
    assert!(is_back(&run(Mutant::ForgetsErasures)));
}

/// A copied machine records an event that the original does not have, under the same seq.
#[test]
fn a_copied_machine_and_its_original_keep_all_their_events() {
    let run = |mutant| {
        let mut codec = Codec::new();
        let mut world = World::new(1, mutant, &mut codec);
        world.read(0);
        world.record(0, Action::Page, 0);
        let copy = world.copy(0);
        world.record(0, Action::Page, 1);
        world.record(copy, Action::Page, 2);
        [0, copy].iter().for_each(|node| world.wait(*node));
        world.finish().map(drop)
    };
    assert_eq!(run(Mutant::None), Ok(()));
    let lost = run(Mutant::SkipsComparison);
    assert!(lost.as_ref().is_err_and(|error| error.contains("is in no table")), "{lost:?}");
}

/// The stream loses its end. Then another message takes the place of a lost one, and the next one is appended
/// again byte for byte.
fn message_appended_again(mutant: Mutant) -> Result<(), String> {
    let mut codec = Codec::new();
    let mut world = World::new(1, mutant, &mut codec);
    world.join();
    let kept = world.end();
    (0..2).for_each(|node| world.record(node, Action::Page, node as u8));
    let first = world.send(0, 1).expect("a message");
    let second = world.send(1, 1).expect("a message");
    let (bytes, sender) = (second.bytes.clone(), second.sender.clone());
    let again = InTransit { bytes, sender, ..second };
    world.arrive(first);
    world.arrive(second);
    world.read(2);
    world.lose_after(kept);
    world.record(0, Action::Page, 3);
    world.read(0);
    let other = world.send(0, 2).expect("both records");
    world.arrive(other);
    world.arrive(again);
    world.finish().map(drop)
}

#[test]
fn the_chain_covers_the_time_of_a_message() {
    let run = message_appended_again;
    assert_eq!(run(Mutant::None), Ok(()));
    let unnoticed = run(Mutant::ChainOmitsTime);
    assert!(unnoticed.as_ref().is_err_and(|error| error.contains("differ")), "{unnoticed:?}");
}

/// The disk of node 1 is destroyed while its message is under way.
fn disk_replaced_under_way(mutant: Mutant) -> Result<(), String> {
    erased_under_way(mutant, |world| world.replace(1), |_| ())
}

#[test]
fn an_event_that_was_under_way_when_its_disk_was_replaced_gets_a_second_tombstone() {
    assert_eq!(disk_replaced_under_way(Mutant::None), Ok(()));
    assert!(is_back(&disk_replaced_under_way(Mutant::IgnoresEarlierDisk)));
}

/// A node is cut off, and the operator removes it. It has recorded an event meanwhile.
fn removed_member(mutant: Mutant) -> Result<(), String> {
    let mut codec = Codec::new();
    let mut world = World::new(1, mutant, &mut codec);
    world.join();
    world.disconnect(1);
    world.record(1, Action::Page, 0);
    world.wait(1);
    world.forget(1);
    world.connect(1);
    world.finish().map(drop)
}

#[test]
fn a_removed_member_returns_with_its_events() {
    assert_eq!(removed_member(Mutant::None), Ok(()));
    assert!(removed_member(Mutant::BansRemovedMembers).is_err());
}

/// Returns the name of a history that notices a mutant.
pub fn noticed_by(mutant: Mutant) -> Option<&'static str> {
    type Run = fn(Mutant) -> Result<(), String>;
    let histories: [(&str, Run); 6] = [
        ("a lost record of a predecessor", lost_record_of_a_predecessor),
        ("a damaged record that was under way", |mutant| {
            erased_under_way(mutant, |world| world.damage_record(1, 1), |_| ())
        }),
        ("a record that a restored disk has lost", |mutant| {
            erased_under_way(mutant, |world| world.restore(1, 0), |_| ())
        }),
        ("a message that is appended again", message_appended_again),
        ("a disk that is replaced while its record is under way", disk_replaced_under_way),
        ("a removed member", removed_member),
    ];
    histories.into_iter().find(|(_, run)| run(mutant).is_err()).map(|(name, _)| name)
}
