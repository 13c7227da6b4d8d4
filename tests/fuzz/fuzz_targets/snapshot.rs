//! See `parallax_fuzz::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::snapshot::snapshot(bytes));
