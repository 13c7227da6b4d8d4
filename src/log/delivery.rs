//! The delivery of recovered records to the log consumer.
//!
//! The consumer works on a thread of its own. So the next batches are read and checked while it folds the ones before.
//! It gets all batches, one by one and in order. Only their bytes are copied in groups.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::{io, mem};

use super::LogConsumer;
use super::records::Records;
use crate::threads;

/// Bytes of a group above which it is sent. A larger batch is a group of its own.
const GROUP_BYTES: usize = 256 * 1024;
/// Groups that wait for the consumer. With a few groups it never waits for the disk between two of them.
const GROUPS_QUEUED: usize = 4;

/// Copies of consecutive batches, and the progress after them.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    /// First seq, number of records and length of each batch.
    batches: Vec<(u64, u32, usize)>,
    /// Recovered segments, and all segments.
    progress: Option<(usize, usize)>,
}

/// The sender of records to the consumer.
pub(super) struct Delivery {
    group: Group,
    sender: SyncSender<Group>,
    /// Groups that the consumer has got, with their memory.
    used: Receiver<Group>,
}

/// Runs `recover`, and the consumer in another thread. Returns its result when the consumer has got
/// everything that was sent.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn run_with_consumer<T>(
    consumer: &mut dyn LogConsumer,
    recover: impl FnOnce(&mut Delivery) -> T,
) -> io::Result<T> {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Group>(GROUPS_QUEUED);
        let (used_sender, used) = sync_channel(GROUPS_QUEUED);
        let consuming = threads::spawn_scoped(scope, "fold", move || {
            for mut group in receiver {
                group.pass_to(consumer);
                // A full channel has enough groups.
                let _ = used_sender.try_send(group);
            }
        })?;
        let mut delivery = Delivery { group: Group::default(), sender, used };
        let recovered = recover(&mut delivery);
        delivery.send_group();
        drop(delivery);
        consuming.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok(recovered)
    })
}

impl Delivery {
    /// Sends the records of one batch.
    pub(super) fn send(&mut self, records: Records<'_>) {
        let bytes = records.encoded();
        if self.group.bytes.len() + bytes.len() > GROUP_BYTES {
            self.send_group();
        }
        self.group.bytes.extend_from_slice(bytes);
        self.group.batches.push((records.first_seq, records.count, bytes.len()));
    }

    /// Reports that `done_count` of `segment_count` segments are recovered.
    pub(super) fn send_progress(&mut self, done_count: usize, segment_count: usize) {
        self.group.progress = Some((done_count, segment_count));
        self.send_group();
    }

    fn send_group(&mut self) {
        let next = self.used.try_recv().unwrap_or_default();
        // Without a receiver the consumer has panicked. `run_with_consumer` passes the panic on.
        let _ = self.sender.send(mem::replace(&mut self.group, next));
    }
}

impl Group {
    /// Passes everything to the consumer, and empties the group.
    fn pass_to(&mut self, consumer: &mut dyn LogConsumer) {
        let mut rest = &self.bytes[..];
        for (first_seq, count, length) in self.batches.drain(..) {
            let (bytes, after) = rest.split_at(length);
            consumer.consume(Records::new(first_seq, count, bytes));
            rest = after;
        }
        self.progress
            .take()
            .into_iter()
            .for_each(|(done_count, segment_count)| consumer.on_recovery_progress(done_count, segment_count));
        self.bytes.clear();
    }
}
