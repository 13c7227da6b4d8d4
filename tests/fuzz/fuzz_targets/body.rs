//! See `parallax_fuzz::body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::body::body(bytes));
