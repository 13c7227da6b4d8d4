//! See `parallax_fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::segment::segment(bytes));
