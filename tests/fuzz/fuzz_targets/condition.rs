//! See `parallax_fuzz::condition`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::condition::condition(bytes));
