//! Each bound of a checkpoint: at it, and one past it.

use parallax::limits::{CHECKPOINT_BLOCK_BYTES, CHECKPOINT_RUNS_MAX, PROFILE_BYTES_MAX};
use parallax::visitors::checkpoint::format::{
    BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, HEADER_BYTES, Header, Kept, Run, begin_block, block_length,
    end_block, trailer_from_bytes, trailer_to_bytes,
};
use parallax::visitors::store::table::{Key, Rank};

fn block(bytes: usize) -> Vec<u8> {
    let mut block = Vec::new();
    begin_block(&mut block);
    block.resize(bytes, 0);
    end_block(&mut block, 1);
    block
}

#[test]
fn a_block_is_of_one_small_entry_at_least_and_of_its_bound_at_most() {
    let least = BLOCK_HEADER_BYTES + ENTRY_HEADER_BYTES;
    for (bytes, is_one) in [
        (least - 1, false),
        (least, true),
        (CHECKPOINT_BLOCK_BYTES, true),
        (CHECKPOINT_BLOCK_BYTES + 1, false),
    ] {
        assert_eq!(block_length(&block(bytes)), is_one.then_some(bytes), "{bytes} bytes");
    }
}

#[test]
fn a_value_is_of_the_largest_profile_at_most() {
    for (bytes, is_one) in [(0, true), (PROFILE_BYTES_MAX, true), (PROFILE_BYTES_MAX + 1, false)] {
        let (mut out, value) = (Vec::new(), vec![7; bytes]);
        let entry = Kept { key: Key([1, 2]), order: 3, rank: Rank::Known, value: &value };
        entry.encode(&mut out);
        assert_eq!(out.len(), entry.encoded_len());
        assert_eq!(Kept::decode(&out).is_some_and(|decoded| decoded == entry), is_one, "{bytes} bytes");
    }
}

#[test]
fn a_file_has_so_many_runs_at_most() {
    let header = Header { seq: 1, made_ms: 2, secret: [3; 16], cost_max: 4, entries: 0 }.to_bytes();
    for (runs, is_one) in
        [(0, true), (1, true), (CHECKPOINT_RUNS_MAX, true), (CHECKPOINT_RUNS_MAX + 1, false)]
    {
        let runs = vec![Run { at: HEADER_BYTES as u64, ..Run::default() }; runs];
        let trailer = trailer_to_bytes(&runs, &header, HEADER_BYTES as u64);
        let read = trailer_from_bytes(&trailer, &header, HEADER_BYTES as u64);
        assert_eq!(read.is_some_and(|read| read == runs), is_one, "{} runs", runs.len());
    }
}
