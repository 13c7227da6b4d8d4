//! Reads of a real disk past its page cache.

use std::path::Path;

use parallax::testing::storage::disk::{Disk, RealDisk};

use crate::dice::Dice;
use crate::harness::{temporary_directory, times};

/// Reads until the buffer is full or the file ends.
fn read(path: &Path, at: u64, length: usize) -> Vec<u8> {
    let file = RealDisk.open_uncached(path).expect("it opens");
    let (mut bytes, mut filled) = (vec![0; length], 0);
    while filled < length {
        match file.read_at(&mut bytes[filled..], at + filled as u64).expect("it reads") {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    bytes
}

#[test]
fn a_read_past_the_page_cache_returns_the_bytes_of_the_file_at_each_offset() {
    let mut dice = Dice(3);
    // The first directory may be in memory, where older kernels have no direct reads. The second one is on a disk.
    let directories =
        [temporary_directory(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")];
    for directory in &directories {
        for length in [0, 1, 511, 512, 4_095, 4_096, 4_097, 700_000] {
            let path = directory.path().join(length.to_string());
            let content: Vec<u8> = (0..length).map(|_| dice.next_u64() as u8).collect();
            std::fs::write(&path, &content).expect("written");
            for _ in 0..times(30, 300) {
                let (at, wanted) = (dice.below(length + 5), dice.below(length + 5_000));
                let expected = &content[at.min(length)..(at + wanted).min(length)];
                assert!(read(&path, at as u64, wanted) == *expected, "{wanted} bytes at {at} of {length}");
            }
            assert!(read(&path, 0, length + 1) == content);
        }
    }
    assert!(RealDisk.open_uncached(Path::new("/nowhere")).is_err());
}

#[test]
fn a_file_that_is_read_past_the_page_cache_cannot_be_written() {
    let directory = temporary_directory();
    let path = directory.path().join("file");
    std::fs::write(&path, b"content").expect("written");
    let mut file = RealDisk.open_uncached(&path).expect("it opens");
    assert!(file.append(b"x").is_err() && file.reserve(0..10).is_err());
    assert!(file.trim().is_err() && file.sync_data().is_err());
    assert_eq!(
        (file.length().expect("a length"), std::fs::read(&path).expect("readable")),
        (7, b"content".to_vec())
    );
    assert_eq!(file.identity().expect("it is open"), RealDisk.identity(&path).expect("it exists"));
}
