//! See `parallax_fuzz::event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::event::event(bytes));
