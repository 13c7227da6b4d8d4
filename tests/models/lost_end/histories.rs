//! Fixed histories: the shortest ones in which a rule is needed.

use crate::record::{KEYS_MAX, Kind};
use crate::rules::Rule;
use crate::world::World;
use crate::world::script::run_script;

/// A rule, and the history that notices when it is broken.
struct History {
    rule: Rule,
    window_max: usize,
    script: fn(&mut World<'_>),
}

const fn history(rule: Rule, script: fn(&mut World<'_>)) -> History {
    History { rule, window_max: KEYS_MAX, script }
}

const HISTORIES: [History; 13] = [
    history(Rule::SeenIsPosition, an_event_waits_while_heartbeats_are_lost),
    history(Rule::RecoversUnderR, two_lost_ends_begin_with_one_batch),
    history(Rule::AcceptsUnknownErasures, a_run_arrives_after_a_second_loss),
    history(Rule::CopiesWithLostFiles, a_directory_with_a_lost_erasure_is_copied),
    history(Rule::RecoversInAnyOrder, a_lost_repetition_arrives_before_its_first_copy),
    history(Rule::KeepsUnfinishedFile, an_unfinished_file_has_an_erased_event),
    history(Rule::SeenIsPosition, a_run_arrives_after_an_erasure_at_a_lost_position),
    history(Rule::ForgetsLostErasures, a_visitor_comes_back_while_the_tombstone_is_lost),
    history(Rule::ConfirmsWithLostFiles, a_lost_file_has_an_erased_event),
    history(Rule::LostBeforeSync, a_crash_tears_the_log_before_a_lost_file),
    history(Rule::CutsBeforeCheckpoints, a_checkpoint_of_the_lost_end_remains),
    history(Rule::OpensAtLostBatch, a_session_is_lost_with_its_first_batch),
    History { window_max: 2, ..history(Rule::RepeatsTombstones, a_delete_is_repeated_after_the_window) },
];

/// Returns the error of the history that notices a broken rule.
pub fn notices(rule: Rule) -> Option<String> {
    let history = HISTORIES.iter().find(|history| history.rule == rule)?;
    run_script(rule, history.window_max, history.script).err()
}

#[test]
fn each_fixed_history_notices_its_rule() {
    for history in HISTORIES {
        let result = run_script(history.rule, history.window_max, history.script);
        assert!(result.is_err(), "{:?}", history.rule);
    }
}

#[test]
fn all_promises_hold_in_the_fixed_histories() {
    for history in HISTORIES {
        let result = run_script(Rule::None, history.window_max, history.script);
        assert_eq!(result, Ok(()), "{:?}", history.rule);
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

/// All nodes have erased a visitor. The stream loses the tombstone. An empty directory becomes a copy of one that has it in
/// `lost/` only, and the visitor comes back there.
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

/// A node has read four heartbeats and records an event. The stream loses the heartbeats, and a tombstone gets the position of one of them.
/// Then the run arrives, which names a later position.
fn a_run_arrives_after_an_erasure_at_a_lost_position(world: &mut World<'_>) {
    let end = world.end();
    (0..4).for_each(|_| world.heartbeat(0));
    world.read(1);
    world.record(1, Kind::Event, 0);
    let run = world.take_messages(1);
    world.lose_after(end);
    world.record(0, Kind::Tombstone, 0);
    world.publish(0);
    run.into_iter().for_each(|message| world.arrive(message));
}

/// As before, but the run is sent after the tombstone. The lost end has no batch, so there is no lost file.
fn an_event_waits_while_heartbeats_are_lost(world: &mut World<'_>) {
    let end = world.end();
    (0..4).for_each(|_| world.heartbeat(0));
    world.read(1);
    world.record(1, Kind::Event, 0);
    world.lose_after(end);
    world.record(0, Kind::Tombstone, 0);
    world.publish(0);
    world.publish(1);
}

/// All nodes have erased a visitor. The stream loses the tombstone. The visitor comes back on a node that has it in `lost/` only.
fn a_visitor_comes_back_while_the_tombstone_is_lost(world: &mut World<'_>) {
    let end = world.end();
    world.record(0, Kind::Tombstone, 0);
    world.settle_all();
    world.lose_after(end);
    world.tidy(1);
    world.record(1, Kind::Event, 0);
}

/// A node has an event in `lost/`. Its own node sends the event again, and then the visitor is erased.
fn a_lost_file_has_an_erased_event(world: &mut World<'_>) {
    let end = world.end();
    world.record(1, Kind::Event, 0);
    world.publish(1);
    world.read(0);
    world.lose_after(end);
    world.read(0);
    world.record(1, Kind::Tombstone, 0);
    world.publish(1);
    world.tidy(1);
    for node in [0, 1, 2] {
        world.read(node);
        world.erase_all(node);
        world.heartbeat(node);
    }
    world.read(1);
}

/// A node has read a tombstone and an event, and its log is not synced. The stream loses the event. The node writes the lost file and
/// crashes. The stream loses the tombstone too, and the disk of its node is destroyed.
fn a_crash_tears_the_log_before_a_lost_file(world: &mut World<'_>) {
    let start = world.end();
    world.record(1, Kind::Tombstone, 0);
    world.publish(1);
    let end = world.end();
    world.record(1, Kind::Event, 0);
    world.publish(1);
    world.read(0);
    world.lose_after(end);
    while !world.nodes[0].disk.lost.iter().any(|lost| lost.is_durable) {
        world.read_one(0);
    }
    world.crash(0);
    world.lose_after(start);
    world.destroy_disk(1);
    world.start_node(0);
}

/// A node has a checkpoint of the lost end. It crashes when the log is cut and the checkpoint is not deleted. A batch of the new history
/// takes the place of the lost one, and the node starts again.
fn a_checkpoint_of_the_lost_end_remains(world: &mut World<'_>) {
    let end = world.end();
    world.record(1, Kind::Event, 0);
    world.publish(1);
    world.tidy(0);
    world.checkpoint(0);
    world.lose_after(end);
    while !world.nodes[0].disk.log.is_empty() {
        world.read_one(0);
    }
    world.crash(0);
    world.record(2, Kind::Event, 1);
    world.publish(2);
    world.start_node(0);
    world.tidy(0);
    world.crash(0);
    world.start_node(0);
}

/// A node has the lost file of an event. In the next history, a new session has one event before this one and one after it. The stream
/// loses all three and the heartbeat of the session. Of the lost batches, the second and the third arrive first.
fn a_session_is_lost_with_its_first_batch(world: &mut World<'_>) {
    let start = world.end();
    world.crash(2);
    world.start_node(2);
    world.read(2);
    world.heartbeat(2);
    let end = world.end();
    let other = world.record(1, Kind::Event, 0);
    world.publish(1);
    world.lose_after(end);
    world.read(1);
    world.record(2, Kind::Event, 0);
    world.publish(2);
    world.publish(1);
    let last = world.record(2, Kind::Event, 0);
    world.publish(2);
    world.read(1);
    world.lose_after(start);
    world.read(1);
    let batches = world.take_messages(1);
    for key in [other, last] {
        let of_key = batches.iter().find(|message| message.key() == Some(key));
        world.arrive(of_key.expect("the lost batch").clone());
    }
}

/// A visitor is erased and comes back. The client sends the DELETE again, to another node, when the window has no place for it any more.
fn a_delete_is_repeated_after_the_window(world: &mut World<'_>) {
    let tombstone = world.record(0, Kind::Tombstone, 0);
    world.settle_all();
    world.record(1, Kind::Event, 0);
    (0..3).for_each(|_| _ = world.record(1, Kind::Event, 1));
    world.settle_all();
    world.record_again(2, tombstone);
}

/// Node 2 has read the events x and y. The stream loses y, and the disk of its node is destroyed. Node 1 has read x, and then z of the new
/// history. The stream loses x and z. The lost ends of both nodes begin with x, and go on with y and with z.
fn two_lost_ends_begin_with_one_batch(world: &mut World<'_>) {
    let start = world.end();
    world.record(1, Kind::Event, 0);
    world.publish(1);
    let end = world.end();
    world.read(0);
    world.record(0, Kind::Event, 1);
    world.publish(0);
    world.tidy(2);
    world.lose_after(end);
    world.destroy_disk(0);
    world.record(1, Kind::Event, 2);
    world.publish(1);
    world.tidy(1);
    world.lose_after(start);
    world.publish(1);
    world.publish(2);
    world.tidy(2);
}
