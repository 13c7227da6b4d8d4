//! Each bound of a checkpoint file, at it and one past it.

use parallax::testing::limits::{CHECKPOINT_BLOCK_BYTES, CHECKPOINT_RUNS_MAX, PROFILE_BYTES_MAX};
use parallax::testing::log::LogId;
use parallax::testing::visitors::checkpoint::format::{
    BLOCK_HEADER_BYTES, CheckpointEntry, HEADER_BYTES, Header, Parts, Run, begin_block, block_length,
    end_block, trailer_from_bytes, trailer_to_bytes,
};
use parallax::testing::visitors::store::table::{EvictionClass, Key};

fn block(bytes: usize) -> Vec<u8> {
    let mut block = Vec::new();
    begin_block(&mut block);
    block.resize(bytes, 0);
    end_block(&mut block, 1);
    block
}

#[test]
fn a_block_holds_at_least_one_byte_and_at_most_its_bound() {
    let least = BLOCK_HEADER_BYTES + 1;
    for (bytes, is_valid) in [
        (least - 1, false),
        (least, true),
        (CHECKPOINT_BLOCK_BYTES, true),
        (CHECKPOINT_BLOCK_BYTES + 1, false),
    ] {
        assert_eq!(block_length(&block(bytes)), is_valid.then_some(bytes), "{bytes} bytes");
    }
}

#[test]
fn a_value_is_at_most_as_large_as_the_largest_profile() {
    for (bytes, is_valid) in [(0, true), (PROFILE_BYTES_MAX, true), (PROFILE_BYTES_MAX + 1, false)] {
        let (mut out, value) = (Vec::new(), vec![7; bytes]);
        let entry =
            CheckpointEntry { key: Key([1, 2]), order: 3, class: EvictionClass::Returning, value: &value };
        entry.encode(&mut out);
        assert_eq!(out.len(), entry.encoded_len());
        assert_eq!(
            CheckpointEntry::decode(&out).is_some_and(|decoded| decoded == entry),
            is_valid,
            "{bytes} bytes"
        );
    }
}

#[test]
fn a_file_has_a_limited_number_of_runs() {
    let log_id = LogId([5; 16]);
    let header = Header {
        seq: 1,
        created_ms: 2,
        secret: [3; 16],
        cost_max: 4,
        entries: 0,
        log_id,
        evicted: 0,
        key_check: 0,
    }
    .to_bytes();
    for (runs, is_valid) in
        [(0, true), (1, true), (CHECKPOINT_RUNS_MAX, true), (CHECKPOINT_RUNS_MAX + 1, false)]
    {
        let empty = Run { offset: HEADER_BYTES as u64, ..Run::default() };
        let runs = Parts { runs: vec![empty; runs], ties: empty, lost: empty, sites: empty, stream: empty };
        let trailer = trailer_to_bytes(&runs, &header, HEADER_BYTES as u64);
        let read = trailer_from_bytes(&trailer, &header, HEADER_BYTES as u64);
        assert_eq!(read.is_some_and(|read| read == runs), is_valid, "{} runs", runs.runs.len());
    }
}
