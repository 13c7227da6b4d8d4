//! Mutations that turn a valid request into one of a broken, interrupted or malicious client.

use crate::dice::Dice;

/// Bytes with a meaning in HTTP, URLs or JSON.
const STRUCTURE: &[&str] = &[
    "\r",
    "\n",
    "\r\n",
    "\r\n\r\n",
    "\0",
    ":",
    " ",
    "\t",
    ";",
    ",",
    "%",
    "%00",
    "+",
    "&",
    "=",
    "?",
    "#",
    "/",
    "//",
    "\"",
    "{",
    "}",
    "[",
    "\\ud800",
    "\u{e9}",
    "\u{7f}",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "0\r\n\r\n",
];

/// Complete header lines and request lines.
const LINES: &[&str] = &[
    "Content-Length: 0\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Host: b\r\n",
    "Host:\r\n",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    " folded\r\n",
    "X : y\r\n",
    "\r\n",
    "GET / HTTP/1.1\r\n",
    "X-Request-Id: \u{1}\r\n",
    "Content-Encoding: gzip\r\n",
];

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "+1",
    "00000000000000001",
    "1e9",
    "0x10",
    "524288",
    "524289",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "ffffffffffffffff",
    "99999999999999999999999",
];

/// Mutates one request of `corpus`.
pub fn mutant(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = dice.pick(corpus).clone();
    let mutations = *dice.pick(&[1, 1, 1, 1, 2, 2, 3, 5]);
    for _ in 0..mutations {
        match dice.below(12) {
            0 => flip(&mut bytes, dice),
            1 => {
                let at = dice.below(bytes.len() + 1);
                let byte = dice.next_u64() as u8;
                bytes.insert(at, byte);
            }
            2 => remove(&mut bytes, dice),
            3 => duplicate(&mut bytes, dice),
            4 => {
                let end = dice.below(bytes.len() + 1);
                bytes.truncate(end);
            }
            5 => {
                let other = dice.pick(corpus);
                splice(&mut bytes, other, dice);
            }
            6 => number(&mut bytes, dice),
            7 | 8 => {
                let (at, text) = (dice.below(bytes.len() + 1), *dice.pick(STRUCTURE));
                bytes.splice(at..at, text.bytes());
            }
            9 => {
                let (at, text) = (line(&bytes, dice), *dice.pick(LINES));
                bytes.splice(at..at, text.bytes());
            }
            10 => repeat_line(&mut bytes, dice),
            _ => swap(&mut bytes, dice),
        }
    }
    bytes
}

fn flip(bytes: &mut [u8], dice: &mut Dice) {
    let at = dice.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << dice.below(8);
    }
}

/// Chooses a range of the bytes, mostly a short one.
fn part(bytes: &[u8], dice: &mut Dice) -> std::ops::Range<usize> {
    let longest = *dice.pick(&[1, 4, 16, bytes.len()]);
    let begin = dice.below(bytes.len());
    begin..(begin + 1 + dice.below(longest)).min(bytes.len())
}

fn remove(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let part = part(bytes, dice);
    bytes.drain(part);
}

fn duplicate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let part = part(bytes, dice);
    let again = bytes[part.clone()].to_vec();
    bytes.splice(part.end..part.end, again);
}

/// Joins the beginning of one request and the end of another.
fn splice(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    bytes.truncate(dice.below(bytes.len() + 1));
    bytes.extend_from_slice(&other[dice.below(other.len())..]);
}

/// Replaces one number in the bytes by another.
fn number(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let is_begin = |at: &usize| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit());
    let begins: Vec<usize> = (0..bytes.len()).filter(is_begin).collect();
    if begins.is_empty() {
        return;
    }
    let begin = *dice.pick(&begins);
    let digits = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(begin..begin + digits, dice.pick(NUMBERS).bytes());
}

/// Chooses the beginning of a line.
fn line(bytes: &[u8], dice: &mut Dice) -> usize {
    let begins: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    if begins.is_empty() { 0 } else { *dice.pick(&begins) }
}

/// Repeats a line once or up to 70 times: a head may have 64 fields.
fn repeat_line(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let (from, to) = (line(bytes, dice), line(bytes, dice));
    let end = from + bytes[from..].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let again = bytes[from..end].repeat(*dice.pick(&[1, 1, 2, 70]));
    bytes.splice(to..to, again);
}

fn swap(bytes: &mut [u8], dice: &mut Dice) {
    let (one, other) = (dice.below(bytes.len()), dice.below(bytes.len()));
    if !bytes.is_empty() {
        bytes.swap(one, other);
    }
}
