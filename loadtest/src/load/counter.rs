//! The number that makes a request unique.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Counter shared by connections, threads and windows. It begins at the nanoseconds since 1970. A run sends
/// far fewer requests than nanoseconds pass, so the next run begins above all numbers of this one.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    AtomicU64::new(since.map_or(0, |since| since.as_nanos() as u64))
});

/// Returns the next number.
pub fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Writes a number in decimal, zero-padded. If there is too little room, writes its last digits.
pub fn write_digits(number: u64, digits: &mut [u8]) {
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::{next_number, write_digits};

    #[test]
    fn numbers_increase() {
        let number = || {
            let mut digits = [b'x'; 20];
            write_digits(next_number(), &mut digits);
            std::str::from_utf8(&digits).expect("digits").parse::<u64>().expect("a number")
        };
        let numbers = [number(), number(), number()];
        assert!(numbers[0] > 1_600_000_000_000_000_000, "{numbers:?}");
        assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2], "{numbers:?}");
    }
}
