//! Fixed histories: the shortest ones in which a rule is needed.

use crate::record::Kind;
use crate::rules::Rule;
use crate::world::World;
use crate::world::script::run_script;

/// A rule, and the history that notices when it is broken.
type History = (Rule, fn(&mut World<'_>));

const HISTORIES: [History; 4] = [
    (Rule::AcceptsUnknownErasures, a_run_arrives_after_a_second_loss),
    (Rule::CopiesWithLostFiles, a_directory_with_a_lost_erasure_is_copied),
    (Rule::RecoversInAnyOrder, a_lost_repetition_arrives_before_its_first_copy),
    (Rule::KeepsUnfinishedFile, an_unfinished_file_has_an_erased_event),
];

/// Returns the error of the history that notices a broken rule.
pub fn notices(rule: Rule) -> Option<String> {
    let (_, script) = HISTORIES.iter().find(|(broken, _)| *broken == rule)?;
    run_script(rule, *script).err()
}

#[test]
fn all_promises_hold_in_the_fixed_histories() {
    for (rule, script) in HISTORIES {
        assert_eq!(run_script(Rule::None, script), Ok(()), "{rule:?}");
    }
}

/// A visitor is erased on all nodes. The stream loses the tombstone. The visitor comes back. A node sends the lost tombstone again and then
/// the event. The stream loses the tombstone again, and the event arrives.
fn a_run_arrives_after_a_second_loss(world: &mut World<'_>) {
    world.record(0, Kind::Event, 0);
    world.settle_all();
    let end = world.end();
    world.record(0, Kind::Tombstone, 0);
    world.settle_all();
    world.lose_after(end);
    world.read(1);
    world.record(1, Kind::Event, 0);
    world.publish(1);
    world.lose_after(end);
    let lost = world.stream.lost.clone();
    for message in lost.into_iter().filter(|message| message.is_run()) {
        world.arrive(message);
    }
}

/// All nodes have erased a visitor. The stream loses the tombstone. An empty directory becomes a copy of one that has it in `lost/` only, and
/// the visitor comes back there.
fn a_directory_with_a_lost_erasure_is_copied(world: &mut World<'_>) {
    let end = world.end();
    world.record(0, Kind::Tombstone, 0);
    world.settle_all();
    world.lose_after(end);
    world.read(0);
    world.destroy_disk(2);
    world.start_node(2);
    world.read(2);
    world.heartbeat(2);
    world.read(2);
    world.record(2, Kind::Event, 0);
}

/// A client sends an event to node 2 and again to node 0. Node 1 has read both runs. The disk of node 2 is destroyed, and the stream loses
/// the runs. Of the two lost batches of node 1, only the second one arrives.
fn a_lost_repetition_arrives_before_its_first_copy(world: &mut World<'_>) {
    let end = world.end();
    let key = world.record(2, Kind::Event, 0);
    world.publish(2);
    world.record_again(0, key);
    let run = world.take_messages(0);
    run.into_iter().for_each(|message| world.arrive(message));
    world.read(1);
    world.destroy_disk(2);
    world.lose_after(end);
    world.read(1);
    let batches = world.take_messages(1);
    for message in batches.into_iter().filter(|message| !message.has_records()) {
        world.arrive(message);
    }
    world.tidy(0);
}

/// A node writes `R.new` and crashes. The stream loses more, so the next file has another name. Then the visitor is erased.
fn an_unfinished_file_has_an_erased_event(world: &mut World<'_>) {
    let start = world.end();
    world.record(1, Kind::Event, 1);
    world.publish(1);
    let end = world.end();
    world.record(1, Kind::Event, 0);
    world.publish(1);
    world.read(0);
    world.lose_after(end);
    // Back, to the common position, and to the end of the stream. Then three steps of the cut.
    while world.nodes[0].disk.lost_new.is_empty() {
        world.read_one(0);
    }
    world.crash(0);
    world.lose_after(start);
    world.start_node(0);
    world.settle_all();
    world.record(1, Kind::Tombstone, 0);
    world.settle_all();
}
