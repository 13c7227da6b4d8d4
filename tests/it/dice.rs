//! Numbers that a seed decides, so that what they led to can be had again.

/// SplitMix64 (Steele, Lea and Flood 2014): any seed is good, neighbours included.
pub struct Dice(pub u64);

impl Dice {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 to `end`, without it; 0 where `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// One of some.
    pub fn of<'s, T>(&mut self, some: &'s [T]) -> &'s T {
        &some[self.below(some.len())]
    }

    pub fn byte(&mut self) -> u8 {
        self.number() as u8
    }
}
