//! The number in a request that must never have been sent before.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Counted on across connections, threads and windows. It begins at the nanoseconds since 1970, which a run of the program is far
/// from using up, so that the next run begins above all that this one sent.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    AtomicU64::new(since.map_or(0, |since| since.as_nanos() as u64))
});

/// The next number.
pub fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Writes a number's decimal digits, the last of them where there is not room for all, with zeros in front.
pub fn write(number: u64, place: &mut [u8]) {
    let mut rest = number;
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::{next, write};

    #[test]
    fn every_number_is_the_one_before_and_one() {
        let number = || {
            let mut digits = [b'x'; 20];
            write(next(), &mut digits);
            std::str::from_utf8(&digits).expect("digits").parse::<u64>().expect("a number")
        };
        let numbers = [number(), number(), number()];
        assert!(numbers[0] > 1_600_000_000_000_000_000, "{numbers:?}");
        assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2], "{numbers:?}");
    }
}
