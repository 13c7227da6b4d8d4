//! Varints, compared with a decoder that reads one byte after the other.

use parallax::testing::varint::{Decoder, put_number};

use crate::dice::Dice;

/// Returns the number at the start of `bytes` and the bytes after it. A number has at most 10 bytes.
fn naive_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let last = bytes.iter().take(10).position(|byte| *byte < 0x80)?;
    let groups = bytes[..=last].iter().enumerate();
    let number = groups.fold(0, |number, (at, byte)| number | u64::from(byte & 0x7F) << (7 * at));
    Some((number, &bytes[last + 1..]))
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut decoder = Decoder(bytes);
    decoder.number().map(|number| (number, decoder.0))
}

#[test]
fn a_number_of_each_length_is_read_back_before_any_number_of_bytes() {
    let edges = (0..u64::BITS).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
    for value in edges.chain([u64::MAX - 1, u64::MAX]) {
        let mut encoded = Vec::new();
        put_number(&mut encoded, value);
        for after in [&[][..], &[0x7F], &[0xFF; 12]] {
            let bytes = [&encoded, after].concat();
            assert_eq!(number(&bytes), Some((value, after)), "{bytes:02x?}");
        }
        for end in 0..encoded.len() {
            assert_eq!(number(&encoded[..end]), None, "{value} without its end");
        }
    }
}

#[test]
fn bytes_of_any_kind_decode_as_one_after_the_other() {
    let mut dice = Dice(5);
    let mut long = 0;
    for _ in 0..200_000 {
        let length = dice.below(14);
        let bytes: Vec<u8> =
            (0..length).map(|_| dice.next_u64() as u8 | if dice.below(4) > 0 { 0x80 } else { 0 }).collect();
        assert_eq!(number(&bytes), naive_number(&bytes), "{bytes:02x?}");
        long += usize::from(naive_number(&bytes).is_some_and(|(_, rest)| bytes.len() - rest.len() > 4));
    }
    assert!(long > 10_000, "{long} of the numbers have more than 4 bytes");
}
