//! See `parallax_fuzz::query_string`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::query_string::query_string(bytes));
