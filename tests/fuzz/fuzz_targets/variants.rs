//! See `parallax_fuzz::variants`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::variants::variants(bytes));
