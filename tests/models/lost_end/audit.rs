//! The promises, checked after each step and at the end.

use crate::facts::{Answer, Facts};
use crate::node::{Node, Phase, is_equal};
use crate::record::{Keys, Kind, Table, VISITORS, fold};
use crate::rules::Rule;
use crate::state::State;
use crate::world::World;

/// The keys that each directory has had on disk.
pub struct Audited {
    durable: Vec<Keys>,
}

impl Audited {
    pub fn new(nodes: usize) -> Self {
        Self { durable: vec![0; nodes] }
    }

    pub fn forget(&mut self, node: usize) {
        self.durable[node] = 0;
    }
}

fn keys(set: Keys) -> impl Iterator<Item = u8> {
    (0..128).filter(move |key| set >> key & 1 == 1)
}

/// Checks what holds at every moment.
pub fn check_step(world: &mut World<'_>) {
    for index in 0..world.nodes.len() {
        let (node, facts) = (&world.nodes[index], &mut world.facts);
        let durable = node.disk.durable_keys();
        let missing = world.audited.durable[index] & !durable;
        for key in keys(missing).filter(|key| !facts.may_be_erased(*key)).collect::<Vec<_>>() {
            facts.fail(format!("node {index}: record {key} is in no file any more"));
        }
        world.audited.durable[index] |= durable;
        if let Some(running) = node.running.as_ref().filter(|running| running.phase == Phase::Follows) {
            facts.check(is_table_of_log(node, &running.table, facts), || {
                format!("node {index}: the table is not the fold of the log")
            });
            facts.check(is_window_of_log(node, &running.state, world.rules.window_max), || {
                format!("node {index}: other window")
            });
            let is_split = running.state.overlaps > 0 && !world.rules.breaks(Rule::MovesRunBorders);
            facts.check(!is_split, || format!("node {index}: a run was accepted in parts"));
        }
    }
    check_acknowledged(world);
    check_answers(world);
}

/// True if the table is the fold of the log. The table can still have visitors, or lack them already, whose erasure was interrupted
/// because the stream has lost the tombstone.
fn is_table_of_log(node: &Node, table: &Table, facts: &Facts) -> bool {
    let mut complete = [0; VISITORS];
    node.disk.log.iter().for_each(|batch| fold(&mut complete, &facts.batches[&batch.chain]));
    let least = node.folded();
    (0..VISITORS).all(|visitor| (least[visitor]..=complete[visitor]).contains(&table[visitor]))
}

/// True if the window is the end of the log up to the state.
fn is_window_of_log(node: &Node, state: &State, window_max: usize) -> bool {
    let log = &node.disk.log[..state.batches.min(node.disk.log.len())];
    let records = log.iter().flat_map(|batch| &batch.records).map(|record| record.key);
    let count = records.clone().count();
    records.skip(count.saturating_sub(window_max)).eq(state.window.iter().copied())
}

/// Checks that faults alone have removed the last copy of an acknowledged record.
fn check_acknowledged(world: &mut World<'_>) {
    let everywhere = copies(world);
    for key in 0..world.facts.facts.len() as u8 {
        let fact = &world.facts.facts[usize::from(key)];
        let exists = everywhere >> key & 1 == 1 || fact.is_destroyed || world.facts.may_be_erased(key);
        if fact.is_acknowledged && !exists {
            world.facts.fail(format!("acknowledged record {key} is nowhere"));
        }
    }
}

/// Returns the keys of the records that the stream or any file has.
fn copies(world: &World<'_>) -> Keys {
    world.nodes.iter().fold(world.stream.keys(), |keys, node| keys | node.disk.durable_keys())
}

/// Notes after a fault the records that it has removed. A replicated record survives the loss of a disk.
pub fn note_destroyed(world: &mut World<'_>) {
    let everywhere = copies(world);
    for key in 0..world.facts.facts.len() {
        let is_erased = world.facts.may_be_erased(key as u8);
        let fact = &mut world.facts.facts[key];
        if everywhere >> key & 1 == 1 || !fact.is_acknowledged || fact.is_destroyed {
            continue;
        }
        fact.is_destroyed = true;
        world.facts.counts.destroyed += 1;
        if fact.is_replicated && !fact.is_lost && !is_erased {
            world.facts.fail(format!("replicated record {key} is lost with one disk"));
        }
    }
}

/// Checks that no file of a member has a record of an erased visitor from before a finished DELETE. After the stream has lost the
/// tombstone, this holds again when all members have erased again.
fn check_answers(world: &mut World<'_>) {
    for Answer { key, position, chain } in world.facts.answers.clone() {
        if !world.stream.continues(position, chain) {
            continue;
        }
        let earlier = world.facts.earlier(key);
        let visitor = usize::from(world.facts.facts[usize::from(key)].record.visitor);
        for (index, node) in
            world.nodes.iter().enumerate().filter(|(_, node)| node.disk.has_joined && !node.disk.is_restored)
        {
            let found = node.disk.event_keys() & earlier;
            let is_clean = found == 0 && !has_visitor(node, chain, visitor);
            world
                .facts
                .check(is_clean, || format!("node {index}: records {found:x} of before DELETE {key} remain"));
        }
    }
}

/// True if a checkpoint from before a tombstone has its visitor.
fn has_visitor(node: &Node, chain: u64, visitor: usize) -> bool {
    let tombstone = node.disk.index_of(chain).unwrap_or(node.disk.log.len());
    let mut earlier = node.disk.checkpoints.iter().filter(|checkpoint| checkpoint.state.batches <= tombstone);
    earlier.any(|checkpoint| checkpoint.table[visitor] > 0)
}

/// True if each checkpoint is the fold of the log.
fn are_tables_folded(node: &Node) -> bool {
    let mut table: Table = [0; VISITORS];
    let mut tables = vec![table];
    for batch in &node.disk.log {
        fold(&mut table, batch);
        tables.push(table);
    }
    let is_folded = |batches: usize, table: &Table| tables.get(batches).is_none_or(|folded| folded == table);
    let is_cut = node.running.as_ref().is_none_or(|running| running.phase != Phase::Follows);
    is_cut
        || node
            .disk
            .checkpoints
            .iter()
            .all(|checkpoint| is_folded(checkpoint.state.batches, &checkpoint.table))
}

fn is_stopped(node: &Node) -> bool {
    node.running.as_ref().is_some_and(|running| running.phase == Phase::Stopped)
}

/// True if a node waits for a copy and all others are stopped or wait too.
fn is_waiting(world: &World<'_>, node: &Node) -> bool {
    let can_serve = |other: &Node| other.running.is_some() && !is_stopped(other);
    node.running.is_none() && node.disk.checkpoints.is_empty() && !world.nodes.iter().any(can_serve)
}

/// Returns the first reason why the nodes are not done.
fn obstacle(world: &World<'_>, node: &Node) -> Option<&'static str> {
    if is_stopped(node) || is_waiting(world, node) {
        return None;
    }
    let Some(running) = &node.running else { return Some("does not run") };
    let head = (running.state.position, running.is_caught_up);
    let has_stopped = world.nodes.iter().any(|node| is_stopped(node) || is_waiting(world, node));
    let checks = [
        (head != (world.stream.len(), true), "has not caught up"),
        (!node.disk.lost.is_empty(), "has lost files"),
        (!node.disk.outbox.is_empty(), "has outbox records"),
        (!node.disk.has_joined, "has not joined"),
        (running.state.erasures.last().is_some_and(|last| last.seq > node.disk.erased), "has not erased"),
        (!has_stopped && !is_confirmed(world, node, &running.state), "misses confirmations"),
    ];
    checks.into_iter().find(|(is_open, _)| *is_open).map(|(_, text)| text)
}

fn is_confirmed(world: &World<'_>, node: &Node, state: &State) -> bool {
    (0..state.erasures.len()).all(|index| state.is_confirmed(index, &node.disk.members, world.rules))
}

pub fn is_quiet(world: &World<'_>) -> bool {
    world.nodes.iter().all(|node| obstacle(world, node).is_none())
}

pub fn obstacles(world: &World<'_>) -> String {
    let describe = |node: &Node| obstacle(world, node).map(|text| format!("node {} {text}", node.name));
    world.nodes.iter().filter_map(describe).collect::<Vec<_>>().join(", ")
}

/// Checks the result after all faults have ended.
pub fn check_end(world: &World<'_>) -> Result<(), String> {
    let mut state = State::default();
    let mut log = Vec::new();
    while let Some((message, chain)) = world.stream.after(state.position) {
        log.extend(state.apply(&message, chain, world.rules));
    }
    if world.rules.breaks(Rule::SkipsEmptyBatches) {
        log.retain(|batch| !batch.records.is_empty());
    }
    let done: Vec<&Node> =
        world.nodes.iter().filter(|node| node.running.is_some() && !is_stopped(node)).collect();
    for node in &done {
        let name = node.name;
        let equal = node.disk.log.iter().zip(&log).all(|(one, other)| is_equal(one, other));
        if !equal || node.disk.log.len() != log.len() {
            return Err(format!("node {name}: the log is not the list of effective records"));
        }
        if node.disk.log != done[0].disk.log {
            return Err(format!("node {name}: another log than node {}", done[0].name));
        }
        if !are_tables_folded(node) {
            return Err(format!("node {name}: a checkpoint is not the fold of the log"));
        }
    }
    done.first().map_or(Ok(()), |node| check_records(world, node))
}

/// Checks that each acknowledged event is in the log once, and that exactly the erased ones are void.
fn check_records(world: &World<'_>, node: &Node) -> Result<(), String> {
    let records = || node.disk.log.iter().flat_map(|batch| &batch.records);
    let tombstones =
        records().filter(|record| record.kind == Kind::Tombstone).fold(0, |keys, one| keys | 1 << one.key);
    let stopped = world
        .nodes
        .iter()
        .filter(|node| is_stopped(node))
        .fold(0, |keys, node| keys | node.disk.durable_keys());
    for fact in &world.facts.facts {
        let key = fact.record.key;
        let of_key: Vec<Kind> =
            records().filter(|record| record.key == key).map(|record| record.kind).collect();
        let may_repeat = fact.is_retried && world.rules.window_max < 128;
        if of_key.len() > 1 && !may_repeat {
            return Err(format!("record {key} is in the log {} times", of_key.len()));
        }
        let is_excused = fact.is_destroyed || !fact.is_acknowledged || stopped >> key & 1 == 1;
        let may_be_erased = world.facts.may_be_erased(key);
        let is_elsewhere = has_stopped(world) && may_be_erased;
        if of_key.is_empty() && !is_excused && !is_elsewhere {
            return Err(format!("acknowledged record {key} is in no log"));
        }
        if of_key.contains(&Kind::Void) && !may_be_erased {
            return Err(format!("record {key} is void, and was recorded after the DELETE"));
        }
        let remains = of_key.contains(&Kind::Event);
        if remains && world.facts.must_be_erased(key, tombstones) {
            return Err(format!("record {key} of an erased visitor is in the log"));
        }
    }
    Ok(())
}

/// True if no node follows the stream any more.
pub fn has_ended(world: &World<'_>) -> bool {
    world.nodes.iter().all(|node| is_stopped(node) || is_waiting(world, node))
}

fn has_stopped(world: &World<'_>) -> bool {
    world.nodes.iter().any(|node| is_stopped(node) || is_waiting(world, node))
}
