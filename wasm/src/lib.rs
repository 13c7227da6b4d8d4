//! The core of Parallax as a module of WebAssembly.
//!
//! Values cross the border as bytes. The host calls `input` for the address of a buffer, and writes a list of byte strings there, each
//! after its length as a little-endian u32. Then it calls a function, which returns the address of the output: a status (0: success,
//! 1: failure with a text for people), a length, and as many bytes. It is valid until the next call.
//!
//! A panic traps. The host reads `last_panic` and makes a new instance.
//!
//! `#[unsafe(no_mangle)]` names each export. No other item of the module has such a name.

#![cfg(any(target_family = "wasm", feature = "check"))]

#[cfg(feature = "author")]
mod author;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "fold")]
mod fold;
#[cfg(feature = "decide")]
mod rules;
#[cfg(feature = "http")]
mod server;

use std::cell::RefCell;
use std::panic;

use parallax::hosted;

/// Bytes of the output before its content: status and length.
const OUTPUT_HEAD_BYTES: usize = 8;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static PANIC: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Prepares the module. `seed` is random, and a number of 53 bits, as the host has them.
#[unsafe(no_mangle)]
pub extern "C" fn start(seed: f64) {
    hosted::seed(seed as u64);
    panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        PANIC.with_borrow_mut(|message| *message = framed(1, text.as_bytes()));
    }));
}

/// Sets the time, in milliseconds since 1970, UTC.
#[unsafe(no_mangle)]
pub extern "C" fn set_now_ms(now_ms: f64) {
    hosted::set_now_ms(now_ms as i64);
}

/// Returns the address of an input buffer of `length` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Returns the address of the text of the last panic, as an output.
#[unsafe(no_mangle)]
pub extern "C" fn last_panic() -> *const u8 {
    PANIC.with_borrow(|message| message.as_ptr())
}

/// Calls a function with the byte strings of the input. Returns the address of the output.
fn reply(function: impl FnOnce(&[&[u8]]) -> Result<Vec<u8>, String>) -> *const u8 {
    let result = INPUT.with_borrow(|input| function(&strings(input)?));
    let output = match &result {
        Ok(bytes) => framed(0, bytes),
        Err(text) => framed(1, text.as_bytes()),
    };
    OUTPUT.with_borrow_mut(|last| {
        *last = output;
        last.as_ptr()
    })
}

/// Returns an output.
fn framed(status: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(OUTPUT_HEAD_BYTES + content.len());
    bytes.extend_from_slice(&status.to_le_bytes());
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// Returns the byte strings of an input.
fn strings(mut input: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut strings = Vec::new();
    while let Some((length, rest)) = input.split_first_chunk() {
        let split = rest.split_at_checked(u32::from_le_bytes(*length) as usize);
        let (string, rest) = split.ok_or("the input ends within a byte string")?;
        strings.push(string);
        input = rest;
    }
    if input.is_empty() { Ok(strings) } else { Err("the input ends within a length".to_owned()) }
}

/// Returns a byte string as text.
#[cfg(any(feature = "author", feature = "decide", feature = "http"))]
fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| format!("the input is not UTF-8: {error}"))
}
