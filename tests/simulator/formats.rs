//! The formats: golden files, damage, and values at their bounds.

use std::path::PathBuf;

use parallax::testing::checksum::crc32c;
use parallax::testing::cluster::era::{Era, EraCheckpoint, EraId};
use parallax::testing::cluster::filter::{NoEffect, Step, step};
use parallax::testing::cluster::message::{
    Decoder, Encoder, Header, Kind, MessageError, RAW_BYTES_MAX, Sender, StreamMessage, dedup_key,
    push_record,
};
use parallax::testing::cluster::producer::{PREDECESSOR_MS, PREDECESSORS_MAX, Producer, ProducerId};
use parallax::testing::cluster::state::StreamState;
use parallax::testing::log::LogId;
use parallax::testing::record::{Record, RecordKind};

const NOW_MS: i64 = 1_767_607_200_000;

fn header(count: u32) -> Header {
    Header {
        kind: Kind::Run,
        era: EraId(*b"the era of tests"),
        producer_id: ProducerId(*b"a producer's ID."),
        base_seq: 1,
        first: 1,
        sent_ms: NOW_MS,
        count,
    }
}

fn page() -> Record<'static> {
    let record = Record {
        received_ms: NOW_MS,
        timestamp_ms: NOW_MS,
        site: Some("acme"),
        message_id: Some("m1"),
        anon_id: Some("v1"),
        path: Some("/"),
        payload: "{}",
        ..Record::new(RecordKind::Page)
    };
    Record { key: dedup_key(&record), ..record }
}

fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes).expect("a small record");
    bytes
}

fn run_of(records: &[Record<'_>]) -> Vec<u8> {
    let mut payload = Vec::new();
    records.iter().for_each(|record| assert!(push_record(&mut payload, &encoded(record))));
    Encoder::new().expect("memory").encode(&header(records.len() as u32), &payload).expect("memory")
}

fn decode(bytes: &[u8]) -> Result<parallax::testing::cluster::message::Message, MessageError> {
    Decoder::new().expect("memory").decode(bytes)
}

/// Returns a message of the node `a`.
fn message<B>(position: u64, bytes: B) -> StreamMessage<B> {
    StreamMessage { position, stream_ms: NOW_MS, sender: Sender::Node("a".to_owned()), bytes }
}

fn era() -> Era {
    Era {
        id: EraId(*b"the era of tests"),
        created_ms: NOW_MS,
        checkpoint: None,
        cost_max: u64::MAX,
        fold_version: 1,
        duplicates_max: 100,
        base_position: 0,
        secret_check: EraId([9; 16]),
    }
}

/// Compares bytes with a file of hex digits, 16 bytes in a line.
fn assert_golden(name: &str, bytes: &[u8]) {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
    let lines: Vec<String> = bytes.chunks(16).map(|bytes| line(bytes).trim_end().to_owned()).collect();
    let hex = lines.join("\n") + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../golden").join(name);
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        std::fs::write(&path, &hex).expect("a writable file");
    }
    let golden = std::fs::read_to_string(&path).expect("a golden file; PARALLAX_BLESS=1 writes it");
    assert_eq!(hex, golden, "{name}: another layout takes another format");
}

#[test]
fn the_smallest_message_matches_the_golden_file() {
    let bytes = run_of(&[page()]);
    assert_golden("smallest.message.hex", &bytes);
    let message = decode(&bytes).expect("a message");
    assert_eq!(message.header, header(1));
    let (record, length) = Record::decode(&message.payload).expect("a record");
    assert_eq!((record, length), (Record { key: 0, ..page() }, message.payload.len()));
    assert_eq!(dedup_key(&record), page().key, "the reader computes the key");
}

#[test]
fn the_smallest_producer_file_matches_the_golden_file() {
    let mut producer = Producer::first(LogId(*b"the ID of a log!"));
    producer.replace(ProducerId(*b"another ID here."), 41, NOW_MS);
    (producer.returned_seq, producer.returned_ms) = (40, NOW_MS + 1);
    let bytes = producer.to_bytes();
    assert_golden("smallest.producer.hex", &bytes);
    assert_eq!(Producer::from_bytes(&bytes).as_ref(), Some(&producer));
    for length in 0..bytes.len() {
        assert_eq!(Producer::from_bytes(&bytes[..length]), None, "cut at {length}");
        let mut damaged = bytes.clone();
        damaged[length] ^= 1;
        assert_eq!(Producer::from_bytes(&damaged), None, "damaged at {length}");
    }
}

#[test]
fn a_message_with_a_changed_byte_is_malformed() {
    let bytes = run_of(&[page(), Record { message_id: Some("m2"), ..page() }]);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(matches!(decode(&damaged), Err(MessageError::Malformed(_))), "at {at}");
        assert!(matches!(decode(&bytes[..at]), Err(MessageError::Malformed(_))), "cut at {at}");
    }
}

/// Sets bytes of the header and corrects the checksum.
fn forged(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = run_of(&[page()]);
    bytes[at..at + value.len()].copy_from_slice(value);
    let crc = crc32c(&[&bytes[..84], &bytes[88..]]);
    bytes[84..88].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_header_with_a_right_checksum_and_a_wrong_number_is_refused() {
    let malformed = |bytes: &[u8]| matches!(decode(bytes), Err(MessageError::Malformed(_)));
    for format in [1, 2, 4] {
        assert_eq!(decode(&forged(8, &[format, 0])), Err(MessageError::UnsupportedFormat(format.into())));
    }
    assert!(malformed(&forged(10, &[9, 0])), "unknown kind");
    assert!(malformed(&forged(10, &[4, 0])), "an era with records");
    assert!(malformed(&forged(12, &[0; 4])), "a run without records");
    assert!(malformed(&forged(56, &[0xff; 8])), "seqs beyond 64 bits");
    assert!(malformed(&forged(72, &[0; 8])), "another payload hash");
    assert!(malformed(&forged(80, &(RAW_BYTES_MAX as u32 + 1).to_le_bytes())), "too large");
    assert!(malformed(&forged(80, &1u32.to_le_bytes())), "larger than it says");
    assert!(malformed(&forged(80, &4_096u32.to_le_bytes())), "smaller than it says");
}

#[test]
fn a_run_with_another_number_of_records_has_no_effect() {
    let mut state = StreamState::founded(era(), &message(1, [0; 0]), 0);
    let chain = state.chain;
    let message = message(2, forged(12, &2u32.to_le_bytes()));
    let stepped = step(&mut state, &mut Decoder::new().expect("memory"), &message);
    assert!(matches!(stepped, Step::NoEffect(NoEffect::Malformed)), "{stepped:?}");
    assert_eq!((state.position, state.producers.len()), (2, 0));
    assert_ne!(state.chain, chain, "every message enters the chain");
}

#[test]
fn a_message_in_an_unknown_format_has_no_effect() {
    let mut state = StreamState::founded(era(), &message(1, [0; 0]), 0);
    let mut decoder = Decoder::new().expect("memory");
    let stepped = step(&mut state, &mut decoder, &message(2, forged(8, &[4, 0])));
    assert!(matches!(stepped, Step::NoEffect(NoEffect::UnsupportedFormat(4))), "{stepped:?}");
    assert!(matches!(step(&mut state, &mut decoder, &message(3, run_of(&[page()]))), Step::Accepted(_)));
    let skipped = step(&mut state, &mut decoder, &message(5, run_of(&[page()])));
    assert!(matches!(skipped, Step::WrongPosition));
    assert_eq!(state.position, 3);
}

#[test]
fn an_era_is_read_from_its_message() {
    let checkpoint = EraCheckpoint { name: "a".to_owned(), hash: "b".to_owned() };
    let era = Era { checkpoint: Some(checkpoint), ..era() };
    let (header, payload) = era.to_message(NOW_MS);
    let text = String::from_utf8(payload.clone()).expect("JSON");
    assert!(text.contains(&format!("\"costMax\":\"{}\"", u64::MAX)), "{text}");
    let bytes = Encoder::new().expect("memory").encode(&header, &payload).expect("memory");
    let message = decode(&bytes).expect("a message");
    assert_eq!(Era::from_message(&message), Some(era.clone()));
    let run = decode(&run_of(&[page()])).expect("a message");
    assert_eq!(Era::from_message(&run), None);
    let other = Header { era: EraId([0; 16]), ..header };
    let bytes = Encoder::new().expect("memory").encode(&other, &payload).expect("memory");
    assert_eq!(Era::from_message(&decode(&bytes).expect("a message")), None, "the header names another era");
}

#[test]
fn predecessors_leave_after_29_days_and_beyond_their_limit() {
    let mut producer = Producer::first(LogId([0; 16]));
    for number in 0..PREDECESSORS_MAX as u8 + 5 {
        producer.replace(ProducerId([number + 1; 16]), 10, NOW_MS);
    }
    assert_eq!(producer.predecessors.len(), PREDECESSORS_MAX);
    assert_eq!(producer.predecessors[0].id, ProducerId([5; 16]), "the oldest is dropped");
    assert_eq!(Producer::from_bytes(&producer.to_bytes()).as_ref(), Some(&producer));
    producer.replace(ProducerId([200; 16]), 10, NOW_MS + PREDECESSOR_MS);
    assert_eq!(producer.predecessors.len(), 1, "all others are too old");
}
