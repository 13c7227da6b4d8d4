//! See `parallax_fuzz::columns`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::columns::columns(bytes));
