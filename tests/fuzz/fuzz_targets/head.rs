//! See `parallax_fuzz::head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::head::head(bytes));
