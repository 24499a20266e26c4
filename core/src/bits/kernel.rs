//! The innermost loops: testing and setting an item's probes in a line.
//!
//! An item has a probe in each of the `k` words of the line from number `w >> 61` on (mod 8), where `w` is the line's
//! word of probes: in word `i` at bit `(w >> (55 - 6 i)) & 63`. So one vector compare tests all probes, and the shifts
//! are the same for all items.
//!
//! The unsafe code of this file is vector instructions, used after checking that the processor has them, and
//! prefetching. [`Portable`] does the same work on every processor and is the oracle for the
//! kernels with vector instructions: `Avx2` on x86-64, `Neon` on arm64.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(
        unsafe_code,
        reason = "vector instructions and prefetching have no other form"
    )
)]

use std::hint::select_unpredictable;

/// Words of a line.
pub const LINE_WORDS: usize = 8;
/// Bytes of a line: a cache line on most processors.
pub const LINE_BYTES: u64 = 64;

/// A line: 512 bits, on a cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
pub struct Line(pub [u64; LINE_WORDS]);

/// Entries of a table by number of probes. They are as many as four bits can express, so that indexing the
/// table needs no bounds check.
const COUNTS: u8 = 16;

/// A way to test and set an item's probes in a line. All kernels agree on every bit.
pub trait Kernel: Copy {
    /// A number of probes, prepared for [`Self::mask`].
    type Count: Copy;
    /// The bits that an item sets in a line.
    type Mask: Copy;

    /// Prepares a number of probes for [`Self::mask`]. It is taken modulo 16, and a result above 8 counts as
    /// 8.
    fn count(self, probes: u8) -> Self::Count;

    /// The bits of the first `count` probes of `word_of_probes`.
    fn mask(self, word_of_probes: u64, count: Self::Count) -> Self::Mask;

    /// Whether all bits of `mask` are set in `line`.
    fn covers(self, line: &Line, mask: Self::Mask) -> bool;

    /// Whether all bits of [`Self::mask`] are set in `line`. For one test this can be faster than making the mask.
    #[inline(always)]
    fn has(self, line: &Line, word_of_probes: u64, count: Self::Count) -> bool {
        self.covers(line, self.mask(word_of_probes, count))
    }

    /// Sets all bits of [`Self::mask`] and returns how many of them were unset. It may take long to read from memory
    /// whether any is. With a branch the processor can guess and go on, while a store to an address that is not yet known
    /// would hold up what follows.
    #[inline(always)]
    fn set_one(self, line: &mut Line, word_of_probes: u64, count: Self::Count) -> u32 {
        let mask = self.mask(word_of_probes, count);
        if self.covers(line, mask) {
            return 0;
        }
        let missing = self.missing(line, mask);
        *line = self.union(line, mask);
        missing
    }

    /// How many bits of `mask` are unset in `line`.
    fn missing(self, line: &Line, mask: Self::Mask) -> u32;

    /// `line` with all bits of `mask` set.
    fn union(self, line: &Line, mask: Self::Mask) -> Line;

    /// Sets the bits of `mask` and returns how many of them were unset.
    ///
    /// A line that has them all is not written to, so that its page stays shared with a forked child that
    /// saves the filter. That case cannot be predicted, so there is no branch: `spare` is written to instead.
    #[inline(always)]
    fn set(self, line: &mut Line, mask: Self::Mask, spare: &mut Line) -> u32 {
        let (missing, union) = (self.missing(line, mask), self.union(line, mask));
        *select_unpredictable(missing > 0, line, spare) = union;
        missing
    }
}

/// Work that is written once for all kernels, and compiled for each of them.
pub trait Work {
    /// Result of the work.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, so that their loops are compiled with the
    /// kernel's instructions.
    fn run<K: Kernel>(self, kernel: K) -> Self::Output;
}

/// Does the same work on one item with one of two functions, which are `#[inline(always)]`: `by_vector` if this processor
/// has vector instructions. Its arguments are not fields of a value as those of [`Work`] are, so that they travel in
/// registers.
#[inline]
pub fn run_on_one<L, H>(
    by_vector: impl FnOnce(L, Vector, H) -> bool,
    portably: impl FnOnce(L, Portable, H) -> bool,
    layers: L,
    hash: H,
) -> bool {
    match Vector::detected() {
        Some(kernel) => kernel.run_on_one(by_vector, layers, hash),
        None => run_on_one_portably(portably, layers, hash),
    }
}

/// A function of its own, so that [`run_on_one`] stays short.
#[inline(never)]
fn run_on_one_portably<L, H>(work: impl FnOnce(L, Portable, H) -> bool, layers: L, hash: H) -> bool {
    work(layers, Portable, hash)
}

/// Runs `work` with the fastest kernel that this processor supports, at the cost of one branch.
#[inline]
pub fn run<W: Work>(work: W) -> W::Output {
    if let Some(kernel) = Vector::detected() {
        return kernel.run(work);
    }
    run_portably(work)
}

/// A function of its own, so that [`run`] stays short.
#[inline(never)]
fn run_portably<W: Work>(work: W) -> W::Output {
    work.run(Portable)
}

/// Counts the set bits of a byte slice, with the processor's own instruction if it has one.
#[derive(Clone, Copy, Debug)]
pub struct CountOnes<'a>(pub &'a [u8]);

impl Work for CountOnes<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<K: Kernel>(self, _: K) -> u64 {
        let (words, rest) = self.0.as_chunks::<8>();
        let words: u64 = words
            .iter()
            .map(|word| u64::from(u64::from_le_bytes(*word).count_ones()))
            .sum();
        words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
    }
}

/// Sets the bits of one byte slice in another and returns how many of them were unset.
#[derive(Debug)]
pub struct SetOnes<'a> {
    /// Where bits are set.
    pub place: &'a mut [u8],
    /// The bits to set; as long as `place`.
    pub bytes: &'a [u8],
}

impl Work for SetOnes<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<K: Kernel>(self, _: K) -> u64 {
        let (words, rest) = self.place.as_chunks_mut::<8>();
        let (new_words, new_rest) = self.bytes.as_chunks::<8>();
        let mut newly_set = 0;
        for (word, new) in words.iter_mut().zip(new_words) {
            let (before, new) = (u64::from_le_bytes(*word), u64::from_le_bytes(*new));
            newly_set += u64::from((new & !before).count_ones());
            *word = (before | new).to_le_bytes();
        }
        for (byte, new) in rest.iter_mut().zip(new_rest) {
            newly_set += u64::from((new & !*byte).count_ones());
            *byte |= new;
        }
        newly_set
    }
}

/// Prefetches the memory at an address, which may be invalid.
#[inline(always)]
pub fn prefetch_address<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that never faults, whatever the address, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    // The standard library has no stable function for it.
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch is a hint that never faults, whatever the address, and changes no register or flag.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) place, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}

/// The index of the first word of the line that has a probe. The others are in the words after it, modulo 8.
#[inline(always)]
fn start(word_of_probes: u64) -> usize {
    (word_of_probes >> 61) as usize
}

/// The kernel for every processor, in plain 64-bit words.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

/// A word of probes and the number of probes to use of it.
#[derive(Clone, Copy, Debug)]
pub struct LineProbes {
    word: u64,
    count: u8,
}

impl LineProbes {
    /// For each probe: the index of its word in the line, and its bit in that word.
    #[inline(always)]
    fn bits(self) -> impl Iterator<Item = (usize, u64)> {
        (0..usize::from(self.count)).map(move |probe| {
            let word = (start(self.word) + probe) % LINE_WORDS;
            (word, 1 << (self.word >> (55 - 6 * word) & 63))
        })
    }
}

impl Kernel for Portable {
    type Count = u8;
    type Mask = LineProbes;

    #[inline(always)]
    fn count(self, probes: u8) -> u8 {
        (probes % COUNTS).min(LINE_WORDS as u8)
    }

    #[inline(always)]
    fn mask(self, word_of_probes: u64, count: u8) -> LineProbes {
        LineProbes {
            word: word_of_probes,
            count,
        }
    }

    #[inline(always)]
    fn covers(self, line: &Line, mask: LineProbes) -> bool {
        let missing = mask
            .bits()
            .fold(0, |missing, (word, bit)| missing | (!line.0[word] & bit));
        missing == 0
    }

    #[inline(always)]
    fn missing(self, line: &Line, mask: LineProbes) -> u32 {
        mask.bits().fold(0, |missing, (word, bit)| {
            missing + u32::from(line.0[word] & bit == 0)
        })
    }

    #[inline(always)]
    fn union(self, line: &Line, mask: LineProbes) -> Line {
        mask.bits().fold(*line, |mut union, (word, bit)| {
            union.0[word] |= bit;
            union
        })
    }
}

/// No vector instructions of this processor are used.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use Portable as Vector;
/// The kernel with this processor's vector instructions.
#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2 as Vector;
/// The kernel with this processor's vector instructions.
#[cfg(target_arch = "aarch64")]
pub use neon::Neon as Vector;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Portable {
    /// This kernel, which every processor supports.
    #[inline(always)]
    pub fn detected() -> Option<Self> {
        Some(Self)
    }

    /// Runs `work`.
    #[inline(always)]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        work.run(self)
    }

    /// Does the `work` on one item.
    #[inline(always)]
    pub fn run_on_one<L, H>(self, work: impl FnOnce(L, Self, H) -> bool, layers: L, hash: H) -> bool {
        work(layers, self, hash)
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables {
    use super::{COUNTS, LINE_WORDS};

    /// One value for each word of a line, loaded as vectors.
    pub type Words = [u64; LINE_WORDS];

    /// For each word that may have the first probe: 1 in the words that have a probe, 0 in the others.
    pub type Used = [Words; LINE_WORDS];

    /// The shifts to the left that bring the bit number of each word's probe to the high end.
    pub const SHIFTS: Words = [3, 9, 15, 21, 27, 33, 39, 45];

    /// By number of probes.
    pub static USED: [Used; COUNTS as usize] = {
        let mut table = [[[0; LINE_WORDS]; LINE_WORDS]; COUNTS as usize];
        let mut i = 0;
        while i < COUNTS as usize * LINE_WORDS * LINE_WORDS {
            let (probes, start, word) = (
                i / (LINE_WORDS * LINE_WORDS),
                i / LINE_WORDS % LINE_WORDS,
                i % LINE_WORDS,
            );
            let probe = (word + LINE_WORDS - start) % LINE_WORDS;
            table[probes][start][word] = (probe < probes) as u64;
            i += 1;
        }
        table
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_extract_epi64, _mm256_add_epi64, _mm256_andnot_si256,
        _mm256_castsi256_pd, _mm256_castsi256_si128, _mm256_cmpeq_epi64, _mm256_extracti128_si256,
        _mm256_movemask_pd, _mm256_or_si256, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_sllv_epi64,
        _mm256_srli_epi64, _mm256_srlv_epi64, _mm256_testz_si256,
    };

    use std::sync::atomic::{AtomicU8, Ordering};

    use super::tables::{SHIFTS, USED, Used, Words};
    use super::{COUNTS, Kernel, LINE_WORDS, Line, Work, start};

    /// The kernel for AVX2, which handles four words at a time.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx2(());

    /// Whether the processor has AVX2: one of the values below, or 0 as long as nobody has looked.
    static DETECTED: AtomicU8 = AtomicU8::new(0);
    const ABSENT: u8 = 1;
    const PRESENT: u8 = 2;

    impl Avx2 {
        /// The kernel, if the processor has AVX2 (and BMI2, which came with it, and POPCNT, which is older).
        #[inline(always)]
        pub fn detected() -> Option<Self> {
            if DETECTED.load(Ordering::Relaxed) == PRESENT {
                return Some(Self(()));
            }
            Self::detect()
        }

        #[cold]
        fn detect() -> Option<Self> {
            if DETECTED.load(Ordering::Relaxed) == ABSENT {
                return None;
            }
            let is_present = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt");
            DETECTED.store(if is_present { PRESENT } else { ABSENT }, Ordering::Relaxed);
            is_present.then_some(Self(()))
        }

        /// Runs `work` in a function that is compiled for AVX2.
        #[inline]
        pub(super) fn run<W: Work>(self, work: W) -> W::Output {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { run_with_avx2(self, work) }
        }

        /// Does the `work` on one item in a function that is compiled for AVX2.
        #[inline(always)]
        pub fn run_on_one<L, H>(self, work: impl FnOnce(L, Self, H) -> bool, layers: L, hash: H) -> bool {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { run_on_one_with_avx2(self, work, layers, hash) }
        }
    }

    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn run_with_avx2<W: Work>(kernel: Avx2, work: W) -> W::Output {
        work.run(kernel)
    }

    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn run_on_one_with_avx2<L, H>(
        kernel: Avx2,
        work: impl FnOnce(L, Avx2, H) -> bool,
        layers: L,
        hash: H,
    ) -> bool {
        work(layers, kernel, hash)
    }

    impl Kernel for Avx2 {
        type Count = &'static Used;
        type Mask = [__m256i; 2];

        #[inline(always)]
        fn count(self, probes: u8) -> Self::Count {
            &USED[usize::from(probes % COUNTS)]
        }

        #[inline(always)]
        fn mask(self, word_of_probes: u64, count: Self::Count) -> [__m256i; 2] {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { mask(word_of_probes, count) }
        }

        #[inline(always)]
        fn covers(self, line: &Line, mask: [__m256i; 2]) -> bool {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { covers(line, mask) }
        }

        #[inline(always)]
        fn has(self, line: &Line, word_of_probes: u64, count: Self::Count) -> bool {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { has(line, word_of_probes, count) }
        }

        #[inline(always)]
        fn set_one(self, line: &mut Line, word_of_probes: u64, count: Self::Count) -> u32 {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { set_one(line, word_of_probes, count) }
        }

        #[inline(always)]
        fn missing(self, line: &Line, mask: [__m256i; 2]) -> u32 {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { missing(line, mask) }
        }

        #[inline(always)]
        fn union(self, line: &Line, mask: [__m256i; 2]) -> Line {
            // SAFETY: an `Avx2` exists only where the processor has AVX2, BMI2 and POPCNT.
            unsafe { union(line, mask) }
        }
    }

    /// Loads eight words as two vectors.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn vectors(words: &Words) -> [__m256i; 2] {
        bytemuck::cast(*words)
    }

    /// The number of the bit of each word that has a probe.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn bit_numbers(word_of_probes: u64) -> [__m256i; 2] {
        let word = _mm256_set1_epi64x(word_of_probes.cast_signed());
        vectors(&SHIFTS).map(|shift| _mm256_srli_epi64::<58>(_mm256_sllv_epi64(word, shift)))
    }

    /// The line in which only the item's probes are set.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn mask(word_of_probes: u64, count: &Used) -> [__m256i; 2] {
        let (numbers, used) = (
            bit_numbers(word_of_probes),
            vectors(&count[start(word_of_probes)]),
        );
        [0, 1].map(|half| _mm256_sllv_epi64(used[half], numbers[half]))
    }

    /// 1 in each word that misses its bit, 0 in the others. The bits are brought to the low ends of their words, where
    /// those are that say which words are used.
    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn missing_ones(line: [__m256i; 2], numbers: [__m256i; 2], used: [__m256i; 2]) -> [__m256i; 2] {
        [0, 1].map(|half| _mm256_andnot_si256(_mm256_srlv_epi64(line[half], numbers[half]), used[half]))
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn has(line: &Line, word_of_probes: u64, count: &Used) -> bool {
        let used = vectors(&count[start(word_of_probes)]);
        let [a, b] = missing_ones(vectors(&line.0), bit_numbers(word_of_probes), used);
        let missing = _mm256_or_si256(a, b);
        _mm256_testz_si256(missing, missing) == 1
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn set_one(line: &mut Line, word_of_probes: u64, count: &Used) -> u32 {
        let (words, used) = (vectors(&line.0), vectors(&count[start(word_of_probes)]));
        let numbers = bit_numbers(word_of_probes);
        let missing = missing_ones(words, numbers, used);
        let any = _mm256_or_si256(missing[0], missing[1]);
        if _mm256_testz_si256(any, any) == 1 {
            return 0;
        }
        *line = Line(bytemuck::cast([0, 1].map(|half| {
            _mm256_or_si256(words[half], _mm256_sllv_epi64(missing[half], numbers[half]))
        })));
        let sum = _mm256_add_epi64(missing[0], missing[1]);
        let sum = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        (_mm_cvtsi128_si64(sum) + _mm_extract_epi64::<1>(sum)) as u32
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn covers(line: &Line, mask: [__m256i; 2]) -> bool {
        let line = vectors(&line.0);
        let missing = _mm256_or_si256(
            _mm256_andnot_si256(line[0], mask[0]),
            _mm256_andnot_si256(line[1], mask[1]),
        );
        _mm256_testz_si256(missing, missing) == 1
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn missing(line: &Line, mask: [__m256i; 2]) -> u32 {
        let line = vectors(&line.0);
        // A word has at most one probe, so the words that miss a bit are as many as the missing bits.
        let complete = [0, 1].map(|half| {
            let missing = _mm256_andnot_si256(line[half], mask[half]);
            let complete = _mm256_cmpeq_epi64(missing, _mm256_setzero_si256());
            _mm256_movemask_pd(_mm256_castsi256_pd(complete)).cast_unsigned()
        });
        LINE_WORDS as u32 - (complete[0] | complete[1] << 4).count_ones()
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi2,popcnt")]
    fn union(line: &Line, mask: [__m256i; 2]) -> Line {
        let line = vectors(&line.0);
        Line(bytemuck::cast(
            [0, 1].map(|half| _mm256_or_si256(line[half], mask[half])),
        ))
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::{
        uint64x2_t, vaddq_u64, vaddvq_u64, vbicq_u64, vdupq_n_u64, vgetq_lane_u64, vorrq_u64, vpmaxq_u32,
        vreinterpretq_s64_u64, vreinterpretq_u32_u64, vreinterpretq_u64_u32, vshlq_u64, vshrq_n_u64,
        vtstq_u64,
    };

    use super::tables::{SHIFTS, USED, Used};
    use super::{COUNTS, Kernel, Line, Work, start};

    /// The kernel for NEON, which handles two words at a time.
    #[derive(Clone, Copy, Debug)]
    pub struct Neon(());

    /// Eight words as four vectors.
    type Vectors = [uint64x2_t; 4];

    impl Neon {
        /// The kernel, if the code is compiled for NEON, as Rust's targets for arm64 are: an operating system for
        /// them runs on no processor without it.
        #[inline]
        pub fn detected() -> Option<Self> {
            cfg!(target_feature = "neon").then_some(Self(()))
        }

        /// Runs `work`, which is compiled for NEON anyway.
        #[inline(always)]
        pub(super) fn run<W: Work>(self, work: W) -> W::Output {
            work.run(self)
        }

        /// Does the `work` on one item.
        #[inline(always)]
        pub fn run_on_one<L, H>(self, work: impl FnOnce(L, Self, H) -> bool, layers: L, hash: H) -> bool {
            work(layers, self, hash)
        }
    }

    impl Kernel for Neon {
        type Count = &'static Used;
        type Mask = Vectors;

        #[inline(always)]
        fn count(self, probes: u8) -> Self::Count {
            &USED[usize::from(probes % COUNTS)]
        }

        #[inline(always)]
        fn mask(self, word_of_probes: u64, count: Self::Count) -> Vectors {
            // SAFETY: a `Neon` exists only where the processor has NEON.
            unsafe { mask(word_of_probes, count) }
        }

        #[inline(always)]
        fn covers(self, line: &Line, mask: Vectors) -> bool {
            // SAFETY: a `Neon` exists only where the processor has NEON.
            unsafe { covers(line, mask) }
        }

        #[inline(always)]
        fn missing(self, line: &Line, mask: Vectors) -> u32 {
            // SAFETY: a `Neon` exists only where the processor has NEON.
            unsafe { missing(line, mask) }
        }

        #[inline(always)]
        fn union(self, line: &Line, mask: Vectors) -> Line {
            // SAFETY: a `Neon` exists only where the processor has NEON.
            unsafe { union(line, mask) }
        }
    }

    /// The line in which only the item's probes are set.
    #[inline]
    #[target_feature(enable = "neon")]
    fn mask(word_of_probes: u64, count: &Used) -> Vectors {
        let used: Vectors = bytemuck::cast(count[start(word_of_probes)]);
        let (shifts, word): (Vectors, _) = (bytemuck::cast(SHIFTS), vdupq_n_u64(word_of_probes));
        [0, 1, 2, 3].map(|pair| {
            let bit = vshrq_n_u64::<58>(vshlq_u64(word, vreinterpretq_s64_u64(shifts[pair])));
            vshlq_u64(used[pair], vreinterpretq_s64_u64(bit))
        })
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn covers(line: &Line, mask: Vectors) -> bool {
        let line: Vectors = bytemuck::cast(line.0);
        let [a, b, c, d] = [0, 1, 2, 3].map(|pair| vbicq_u64(mask[pair], line[pair]));
        let missing = vreinterpretq_u32_u64(vorrq_u64(vorrq_u64(a, b), vorrq_u64(c, d)));
        // Folded once more, it fits into a general register.
        vgetq_lane_u64::<0>(vreinterpretq_u64_u32(vpmaxq_u32(missing, missing))) == 0
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn missing(line: &Line, mask: Vectors) -> u32 {
        let line: Vectors = bytemuck::cast(line.0);
        // A word has at most one probe, so the words that miss a bit are as many as the missing bits. A comparison
        // gives all ones for each of them, which is -1.
        let [a, b, c, d] = [0, 1, 2, 3].map(|pair| {
            let missing = vbicq_u64(mask[pair], line[pair]);
            vtstq_u64(missing, missing)
        });
        let sum = vaddvq_u64(vaddq_u64(vaddq_u64(a, b), vaddq_u64(c, d)));
        sum.wrapping_neg() as u32
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn union(line: &Line, mask: Vectors) -> Line {
        let line: Vectors = bytemuck::cast(line.0);
        Line(bytemuck::cast(
            [0, 1, 2, 3].map(|pair| vorrq_u64(line[pair], mask[pair])),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The line that the layout's description gives, bit by bit.
    fn described(word_of_probes: u64, probes: u8) -> [u64; LINE_WORDS] {
        let mut line = [0; LINE_WORDS];
        for t in 0..u32::from(probes % 16).min(8) {
            let word = ((word_of_probes >> 61) as u32 + t) % 8;
            line[word as usize] |= 1 << ((word_of_probes >> (55 - 6 * word)) & 63);
        }
        line
    }

    fn behaves_as_described(kernel: impl Kernel, line: Line, word: u64, probes: u8) {
        let (mask, bits) = (described(word, probes), kernel.mask(word, kernel.count(probes)));
        let missing: u32 = (0..LINE_WORDS).map(|i| (mask[i] & !line.0[i]).count_ones()).sum();
        assert_eq!(kernel.covers(&line, bits), missing == 0);
        assert_eq!(kernel.has(&line, word, kernel.count(probes)), missing == 0);
        let mut one = line;
        assert_eq!(kernel.set_one(&mut one, word, kernel.count(probes)), missing);
        let (mut after, mut spare) = (line, Line([0; LINE_WORDS]));
        assert_eq!(kernel.set(&mut after, bits, &mut spare), missing);
        assert!(missing == 0 || spare == Line([0; LINE_WORDS]));
        assert_eq!(after.0, std::array::from_fn(|i| line.0[i] | mask[i]));
        assert_eq!(one, after);
        assert!(kernel.covers(&after, bits));
        // Setting the bits again changes nothing in the line; the write goes to the spare line.
        let (before, mut spare) = (after, Line([0; LINE_WORDS]));
        assert_eq!(kernel.set(&mut after, bits, &mut spare), 0);
        assert_eq!(after, before);
        assert!(kernel.covers(&spare, bits));
    }

    proptest! {
        /// A stored filter loads, and is counted alike, on every processor.
        #[test]
        fn bits_are_counted_and_set_as_one_by_one(
            pairs in proptest::collection::vec(any::<(u8, u8)>(), 0..300),
        ) {
            let (before, new): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let after: Vec<_> = before.iter().zip(&new).map(|(before, new)| before | new).collect();
            let ones = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
            prop_assert_eq!(CountOnes(&before).run(Portable), ones(&before));
            prop_assert_eq!(run(CountOnes(&before)), ones(&before));
            let in_place = |set: &dyn Fn(SetOnes<'_>) -> u64| {
                let mut place = before.clone();
                let newly_set = set(SetOnes { place: &mut place, bytes: &new });
                (place, newly_set)
            };
            let expected = (after.clone(), ones(&after) - ones(&before));
            prop_assert_eq!(in_place(&|work| work.run(Portable)), expected.clone());
            prop_assert_eq!(in_place(&|work| run(work)), expected);
        }

        /// A filter that moves to another processor finds its items there.
        #[test]
        fn kernels_agree_with_the_description(words: [u64; 8], fill in 0u32..4, word: u64, probes: u8) {
            // Each round of ORs makes it likelier that the line covers the item.
            let line = Line(words.map(|w| (0..fill).fold(w, |w, turn| w | w.rotate_left(7 * turn + 3))));
            behaves_as_described(Portable, line, word, probes);
            behaves_as_described(Portable, Line([u64::MAX; 8]), word, probes);
            if let Some(vector) = Vector::detected() {
                behaves_as_described(vector, line, word, probes);
                behaves_as_described(vector, Line([u64::MAX; 8]), word, probes);
            }
        }
    }
}
