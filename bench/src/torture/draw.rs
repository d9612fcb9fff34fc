//! Chance, from a seed: what is drawn is the same in every run of it.

/// SplitMix64: small, and even enough. It need not be unpredictable.
#[derive(Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// What is drawn for one part of a run. Parts do not share their draws: what one does changes nothing for the others.
    pub(crate) fn of(seed: u64, part: u64) -> Self {
        let mut draw = Self(seed);
        Self(draw.next() ^ Self(part).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        (self.next() % length as u64) as usize
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.index(from.len())]
    }
}
