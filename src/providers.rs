//! The domains of payment providers and of identity providers, which visitors pass on the way and do not come from.
//!
//! [`contains`] runs for each page event with an external referrer, so it neither allocates nor compares the host with
//! each domain: it looks up each suffix of the host in a hash table.

use std::sync::LazyLock;

/// Bits of a slot's index.
const SLOT_BITS: u32 = 10;
/// Slots of the hash table: more than twice the number of domains, so that a search ends after few slots. A test counts the domains.
pub const SLOTS: usize = 1 << SLOT_BITS;

static PROVIDERS: LazyLock<DomainTable> = LazyLock::new(|| DomainTable::new(domains()));

/// A set of domains: open addressing. A free slot ends a search.
struct DomainTable {
    slots: Box<[Option<&'static str>; SLOTS]>,
}

impl DomainTable {
    fn new(domains: impl Iterator<Item = &'static str>) -> Self {
        let mut slots = Box::new([None; SLOTS]);
        for domain in domains {
            let Some(mut slot) = first_slot(domain.as_bytes()) else { continue };
            while slots[slot].is_some() {
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = Some(domain);
        }
        Self { slots }
    }

    /// Returns whether the table has the domain `suffix`, whose search begins at `slot`.
    fn has(&self, mut slot: usize, suffix: &[u8]) -> bool {
        while let Some(domain) = self.slots[slot] {
            if domain.as_bytes().eq_ignore_ascii_case(suffix) {
                return true;
            }
            slot = (slot + 1) % SLOTS;
        }
        false
    }
}

/// Iterates over the domains, in the order of the list.
pub fn domains() -> impl Iterator<Item = &'static str> {
    include_str!("providers.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns whether a host without a final dot is a domain of the list or one of its subdomains. The case does not count.
pub fn contains(host: &str) -> bool {
    let mut suffix = host.as_bytes();
    let table = &*PROVIDERS;
    while let Some(slot) = first_slot(suffix) {
        if table.has(slot, suffix) {
            return true;
        }
        let Some(dot) = suffix.iter().position(|byte| *byte == b'.') else { return false };
        suffix = &suffix[dot + 1..];
    }
    false
}

/// Returns the slot at which the search for a domain begins, from its first and last four bytes. A shorter text is no domain.
fn first_slot(domain: &[u8]) -> Option<usize> {
    // Sets the bit by which lower case differs from upper case. It merges some other bytes too, which costs a comparison at most.
    let lower = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes) | 0x2020_2020);
    let first = domain.first_chunk()?;
    let last = domain.last_chunk()?;
    let key = lower(first) << 32 | lower(last);
    // Multiplicative hashing with 2^64 divided by the golden ratio. The highest bits depend on all bytes.
    Some((key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOT_BITS)) as usize)
}
