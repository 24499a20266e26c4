//! Many items packed into one byte string, and many answers packed into one bitmap.
//!
//! A server makes an object of every argument and a reply of every answer, which takes longer than looking up
//! an item. Packed, a whole batch is one argument and one reply.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;

use crate::chain::Allowance;
use crate::chain::batch::{BLOCK, BlockOutcome, Subset};
use crate::chain::demand::reserve;
use crate::error::Error;
use crate::filter::Filter;
use crate::params::Time;

/// Evaluates `$work` with an iterator over packed items, compiled for each form so that the filter's work is inlined.
macro_rules! for_each_form {
    ($packed:expr, $items:ident => $work:expr) => {{
        let Packed { form, data, .. } = $packed;
        match form {
            Form::Lines => {
                let ends = memchr::memchr_iter(b'\n', data);
                let $items = Lines { data, start: 0, ends };
                $work
            }
            Form::Width(width) => {
                let $items = data.chunks_exact(width.get());
                $work
            }
            Form::Prefixed => {
                let $items = Prefixed { rest: data };
                $work
            }
        }
    }};
}

/// How items are packed into a byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each item ends with a line feed, which the last one may lack. A carriage return at the end of a line is
    /// dropped. An empty line is the empty item.
    Lines,
    /// Each item has this many bytes.
    Width(NonZeroUsize),
    /// Each item follows its length, a little-endian u32.
    Prefixed,
}

/// Why a byte string cannot be split into items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The length of the data is not a multiple of the width.
    Width {
        /// Length of the data, in bytes.
        bytes: usize,
        /// The width, in bytes.
        width: NonZeroUsize,
    },
    /// A length prefix is cut short, or larger than the rest of the data.
    Length {
        /// Offset of the length prefix, in bytes.
        at: usize,
    },
}

/// Bytes of a length prefix in [`Form::Prefixed`].
const LENGTH_BYTES: usize = size_of::<u32>();

/// Packed items whose form has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    data: &'a [u8],
    form: Form,
    count: usize,
}

impl<'a> Packed<'a> {
    /// Checks `data` and counts its items, in one pass over the data or over its length prefixes.
    pub fn new(data: &'a [u8], form: Form) -> Result<Self, Malformed> {
        let count = match form {
            Form::Lines => {
                let ends = memchr::memchr_iter(b'\n', data).count();
                ends + usize::from(data.last().is_some_and(|&last| last != b'\n'))
            }
            Form::Width(width) if data.len().is_multiple_of(width.get()) => data.len() / width,
            Form::Width(width) => {
                let bytes = data.len();
                return Err(Malformed::Width { bytes, width });
            }
            Form::Prefixed => {
                let mut items = Prefixed { rest: data };
                let count = items.by_ref().count();
                if !items.rest.is_empty() {
                    let at = data.len() - items.rest.len();
                    return Err(Malformed::Length { at });
                }
                count
            }
        };
        Ok(Self { data, form, count })
    }

    /// Number of items.
    pub fn count(self) -> usize {
        self.count
    }

    /// How the items are packed.
    pub fn form(self) -> Form {
        self.form
    }

    /// Calls `each` for every item, in order.
    pub fn for_each(self, each: impl FnMut(&'a [u8])) {
        for_each_form!(self, items => items.for_each(each));
    }

    /// The data to send to an equal filter so that it changes as this filter did. `changed` marks the items
    /// that changed this filter, at least one. The result holds only those items or, if there is no memory
    /// for a copy, all items that were processed. `None` means the whole data.
    pub fn to_repeat(self, changed: &Answers) -> Option<Cow<'a, [u8]>> {
        if changed.ones() == self.count as u64 {
            return None;
        }
        match self.only(changed) {
            Some(data) => Some(Cow::Owned(data)),
            // Items that were already there change nothing in the other filter either.
            None if changed.count() == self.count => None,
            None => Some(Cow::Borrowed(self.first(changed.count()))),
        }
    }

    /// Copies the items marked in `kept`, packed in the same form. `None` if there is no memory for them.
    pub fn only(self, kept: &Answers) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        if let Form::Width(width) = self.form {
            let bytes = width.get().checked_mul(usize::try_from(kept.ones()).ok()?)?;
            data.try_reserve_exact(bytes).ok()?;
            for run in kept.runs() {
                data.extend_from_slice(&self.data[run.start * width.get()..run.end * width.get()]);
            }
            return Some(data);
        }
        // Enough if all items have the same length. Room for all data would be too much if one of millions is kept.
        let share = self.data.len() as u128 * u128::from(kept.ones()) / self.count.max(1) as u128;
        data.try_reserve_exact(usize::try_from(share).ok()?).ok()?;
        for (kept, piece) in kept.iter().zip(self.pieces()) {
            if kept {
                data.try_reserve(piece.len()).ok()?;
                data.extend_from_slice(piece);
            }
        }
        Some(data)
    }

    /// The data of the first `count` items.
    pub fn first(self, count: usize) -> &'a [u8] {
        let bytes = self.pieces().take(count).map(<[u8]>::len).sum();
        &self.data[..bytes]
    }

    /// Each item with the bytes that delimit it: the end of its line, or the length before it.
    fn pieces(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.data;
        std::iter::from_fn(move || {
            let end = match self.form {
                Form::Lines => memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1),
                Form::Width(width) => width.get(),
                Form::Prefixed => LENGTH_BYTES + u32::from_le_bytes(*rest.first_chunk()?) as usize,
            };
            let piece;
            (piece, rest) = rest
                .split_at_checked(end)
                .filter(|(piece, _)| !piece.is_empty())?;
            Some(piece)
        })
    }
}

impl Form {
    /// Appends an item, which must be valid in this form.
    pub fn push(self, item: &[u8], data: &mut Vec<u8>) {
        if self == Self::Prefixed {
            // A valid item's length fits into the prefix.
            data.extend((item.len() as u32).to_le_bytes());
        }
        data.extend_from_slice(item);
        if self == Self::Lines {
            // The carriage return that an item ends with is not the line's.
            data.extend_from_slice(if item.ends_with(b"\r") { b"\r\n" } else { b"\n" });
        }
    }
}

/// The items of [`Form::Lines`].
struct Lines<'a> {
    data: &'a [u8],
    start: usize,
    ends: memchr::Memchr<'a>,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = match self.ends.next() {
            Some(end) => end,
            None if self.start < self.data.len() => self.data.len(),
            None => return None,
        };
        let line = self.data.get(self.start..end)?;
        self.start = end + 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// The items of [`Form::Prefixed`]; ends before the first one that is incomplete.
struct Prefixed<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Prefixed<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (item, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = rest;
        Some(item)
    }
}

#[cfg_attr(docsrs, doc(hidden))]
impl Filter {
    /// Runs [`Self::contains_at`] for each packed item.
    pub fn contains_packed(&self, items: Packed<'_>, now: Time) -> Result<Answers, Error> {
        let mut answers = Answers::with_room_for(items.count)?;
        for_each_form!(items, items => self.contains_blocks(items, now, |found, count| answers.push(found, count)));
        Ok(answers)
    }

    /// Counts the packed items that are (probably) in the filter at `now`.
    pub fn count_packed(&self, items: Packed<'_>, now: Time) -> u64 {
        let mut count = 0;
        for_each_form!(items, items => self.contains_blocks(items, now, |found, _| count += found.count_ones()));
        count
    }

    /// Adds packed items, as [`Self::add_blocks`] does.
    pub fn add_packed(
        &mut self,
        items: Packed<'_>,
        now: Time,
        allowance: Allowance<'_>,
        added: impl FnMut(BlockOutcome),
    ) -> Result<(), Error> {
        for_each_form!(items, items => self.add_blocks(items, now, allowance, added))
    }
}

/// The answers for the items of a batch, one bit each.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// One word a block of items; bit 0 is the first, and set means yes. Empty while there is room for one block only.
    blocks: Vec<u64>,
    /// The only block of a short batch, which needs no memory of its own.
    only: [u64; 1],
    count: usize,
}

impl Answers {
    /// No answers yet, with room for `count`.
    pub fn with_room_for(count: usize) -> Result<Self, Error> {
        let mut answers = Self::default();
        let blocks = count.div_ceil(BLOCK);
        if blocks > answers.only.len() {
            reserve(&mut answers.blocks, blocks)?;
        }
        Ok(answers)
    }

    /// The answer no, `count` times.
    pub fn none_of(count: usize) -> Result<Self, Error> {
        let mut answers = Self::with_room_for(count)?;
        let blocks = count.div_ceil(BLOCK);
        if blocks > answers.only.len() {
            #[expect(clippy::disallowed_methods, reason = "it has the room")]
            answers.blocks.resize(blocks, 0);
        }
        answers.count = count;
        Ok(answers)
    }

    /// Appends the answers for a block of `count` items. Every block before it must have had [`BLOCK`] items.
    #[inline(always)]
    pub fn push(&mut self, yes: Subset, count: usize) {
        debug_assert!(self.count.is_multiple_of(BLOCK), "a block before it was short");
        if self.blocks.capacity() > 0 {
            self.blocks.push(yes.word());
        } else if self.count == 0 {
            self.only = [yes.word()];
        } else {
            self.blocks.extend([self.only[0], yes.word()]);
        }
        self.count += count;
    }

    fn blocks(&self) -> &[u64] {
        if self.blocks.is_empty() {
            &self.only[..self.count.div_ceil(BLOCK)]
        } else {
            &self.blocks
        }
    }

    /// Number of answers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of answers that are yes.
    pub fn ones(&self) -> u64 {
        self.blocks().iter().map(|yes| u64::from(yes.count_ones())).sum()
    }

    /// The answers in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> {
        let blocks = self.blocks();
        (0..self.count).map(|at| blocks[at / BLOCK] >> (at % BLOCK) & 1 == 1)
    }

    /// The runs of consecutive yes answers, as ranges of item numbers.
    fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        self.blocks().iter().enumerate().flat_map(|(block, &yes)| {
            let mut rest = yes;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let start = rest.trailing_zeros();
                let end = start + (rest >> start).trailing_ones();
                rest &= u64::MAX.unbounded_shl(end);
                let run = start as usize..end as usize;
                Some(block * BLOCK + run.start..block * BLOCK + run.end)
            })
        })
    }

    /// Converts the answers to the bit order of the server's bitmaps: the first is the highest bit of the first byte.
    pub fn into_bitmap(mut self) -> Bitmap {
        for yes in self.blocks.iter_mut().chain(&mut self.only) {
            *yes = yes.reverse_bits().to_be();
        }
        Bitmap(self)
    }
}

/// Answers as a bitmap; the first answer is the highest bit of the first byte.
#[derive(Clone, Debug)]
pub struct Bitmap(Answers);

impl Bitmap {
    /// The bitmap, eight answers a byte; unused bits are 0.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(self.0.blocks())[..self.0.count.div_ceil(8)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::UNLIMITED;
    use crate::params::{Expansion, Growth, Layout};
    use crate::spec::Spec;
    use crate::tests::failing;
    use crate::tests::oracle;

    fn width(bytes: usize) -> Form {
        Form::Width(NonZeroUsize::new(bytes).unwrap())
    }

    fn pack(form: Form, items: &[Vec<u8>]) -> Vec<u8> {
        let mut data = Vec::new();
        items.iter().for_each(|item| form.push(item, &mut data));
        data
    }

    fn unpacked(data: &[u8], form: Form) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut items = Vec::new();
        let packed = Packed::new(data, form)?;
        packed.for_each(|item| items.push(item.to_vec()));
        assert_eq!(packed.count(), items.len());
        Ok(items)
    }

    /// A form and items that are valid in it.
    fn batches() -> impl Strategy<Value = (Form, Vec<Vec<u8>>)> {
        // Few different bytes, so that items repeat and contain ends of lines.
        let bytes = |size| vec(select(&b"\n\r\0a\xff"[..]), size);
        prop_oneof![
            vec(bytes(0..5usize), 0..300).prop_map(|mut items| {
                items
                    .iter_mut()
                    .for_each(|item| item.retain(|byte| *byte != b'\n'));
                (Form::Lines, items)
            }),
            (1..9usize).prop_flat_map(move |size| {
                vec(bytes(size..size + 1), 0..300).prop_map(move |items| (width(size), items))
            }),
            vec(bytes(0..5usize), 0..300).prop_map(|items| (Form::Prefixed, items)),
        ]
    }

    fn specs() -> impl Strategy<Value = Spec> {
        let two = Expansion::new(2).unwrap();
        let growths = prop_oneof![Just(Growth::Fixed), Just(Growth::Growing(two))];
        let layouts = select(Layout::ALL);
        (1..100u64, growths, layouts).prop_map(|(capacity, growth, layout)| {
            oracle::spec(capacity, 0.01, growth, 3).in_layout(layout).unwrap()
        })
    }

    /// The answers of a batch that has more blocks than somebody expected would be lost, or stand in another order.
    #[test]
    fn answers_are_the_same_whatever_room_they_had() {
        let blocks = [0x8000_0000_0000_0001_u64, 5, 0];
        for count in [1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 3] {
            let answered = |room| {
                let mut answers = Answers::with_room_for(room).unwrap();
                for (at, &block) in blocks.iter().enumerate().take(count.div_ceil(BLOCK)) {
                    let mut yes = Subset::NONE;
                    (0..BLOCK).for_each(|item| yes.put_if(item, block >> item & 1 == 1));
                    answers.push(yes, (count - at * BLOCK).min(BLOCK));
                }
                answers
            };
            let roomy = answered(3 * BLOCK);
            let bits: Vec<_> = (0..count)
                .map(|at| blocks[at / BLOCK] >> (at % BLOCK) & 1 == 1)
                .collect();
            for answers in [answered(0), answered(count), roomy.clone()] {
                assert!(answers.iter().eq(roomy.iter()));
                assert_eq!(answers.iter().collect::<Vec<_>>(), bits);
                assert_eq!(answers.into_bitmap().bytes(), roomy.clone().into_bitmap().bytes());
            }
        }
    }

    proptest! {
        /// An item could be split wrongly, and would never be found again.
        #[test]
        fn what_was_packed_is_unpacked((form, items) in batches()) {
            let data = pack(form, &items);
            prop_assert_eq!(unpacked(&data, form), Ok(items.clone()));
            if form == Form::Lines && items.last().is_some_and(|last| !last.is_empty()) {
                let open = &data[..data.len() - 1];
                prop_assert_eq!(unpacked(open, form), Ok(items));
            }
        }

        /// Packed commands would give other answers, set other bits, or fail at another item
        /// than the same commands unpacked.
        #[test]
        fn packed_items_are_treated_as_others(
            (form, items) in batches(),
            spec in specs(),
            before in vec(vec(any::<u8>(), 0..3), 0..60),
            is_of_windows: bool,
        ) {
            let [mut filter, mut other] = [(), ()].map(|()| {
                let mut filter = oracle::filter(spec);
                let _full = oracle::add_batch(&mut filter, &before);
                filter
            });
            let data = pack(form, &items);
            let packed = Packed::new(&data, form).unwrap();

            let mut together = Answers::default();
            let (one_by_one, end) = oracle::add_batch(&mut filter, &items);
            let packed_end = other.add_packed(packed, 0, UNLIMITED, |block| together.push(block.new, block.count));
            prop_assert_eq!(end, packed_end);
            prop_assert_eq!(together.iter().collect::<Vec<_>>(), one_by_one.clone());
            prop_assert_eq!(oracle::stored(&filter), oracle::stored(&other));

            // What a replica receives, and what it receives if there is no memory for the short form.
            let new = items.iter().zip(&one_by_one).filter(|(_, new)| **new).map(|(item, _)| item.clone());
            let only = packed.only(&together).unwrap();
            prop_assert_eq!(unpacked(&only, form), Ok(new.collect()));
            let reached = items[..one_by_one.len()].to_vec();
            prop_assert_eq!(unpacked(packed.first(one_by_one.len()), form), Ok(reached));
            if together.ones() > 0 {
                let (count, reached) = (items.len(), one_by_one.len());
                let expected = (together.ones() < count as u64).then_some(&only[..]);
                let part = packed.to_repeat(&together);
                prop_assert_eq!(part.as_deref(), expected);
                let without_memory = failing::above(0, || packed.to_repeat(&together));
                let expected = (reached < count).then(|| packed.first(reached));
                prop_assert_eq!(without_memory.as_deref(), expected);
            }

            let found = oracle::contains_batch(&filter, &items);
            let answers = other.contains_packed(packed, 0).unwrap();
            prop_assert_eq!(answers.iter().collect::<Vec<_>>(), found.clone());
            prop_assert_eq!(other.count_packed(packed, 0), answers.ones());
            prop_assert_eq!(answers.ones(), found.iter().filter(|is_there| **is_there).count() as u64);
        }

        /// Clients that read the bitmap with GETBIT or numpy would get the answer for another
        /// item.
        #[test]
        fn answers_are_bits_from_the_highest_on(answers in vec(any::<bool>(), 0..300)) {
            let mut pushed = Answers::with_room_for(answers.len()).unwrap();
            for block in answers.chunks(BLOCK) {
                let mut yes = Subset::NONE;
                block.iter().enumerate().for_each(|(at, &answer)| yes.put_if(at, answer));
                pushed.push(yes, block.len());
            }
            prop_assert_eq!(pushed.count(), answers.len());
            prop_assert_eq!(pushed.iter().collect::<Vec<_>>(), answers.clone());
            prop_assert_eq!(pushed.ones(), answers.iter().filter(|yes| **yes).count() as u64);
            let mut bytes = vec![0u8; answers.len().div_ceil(8)];
            for (at, _) in answers.iter().enumerate().filter(|(_, answer)| **answer) {
                bytes[at / 8] |= 0x80 >> (at % 8);
            }
            prop_assert_eq!(pushed.into_bitmap().bytes().to_vec(), bytes);
            let none = Answers::none_of(answers.len()).unwrap();
            prop_assert_eq!((none.count(), none.ones()), (answers.len(), 0));
            prop_assert_eq!(none.into_bitmap().bytes().to_vec(), vec![0; answers.len().div_ceil(8)]);
        }

        /// Data that cannot be split into items would be accepted, or the error would name
        /// the wrong offset.
        #[test]
        fn bytes_that_do_not_add_up_are_refused(data in vec(0..4u8, 0..60), size in 1..70usize) {
            let multiple = data.len().is_multiple_of(size);
            let expected = Malformed::Width { bytes: data.len(), width: NonZeroUsize::new(size).unwrap() };
            prop_assert_eq!(unpacked(&data, width(size)).err(), (!multiple).then_some(expected));
            match unpacked(&data, Form::Prefixed) {
                Ok(items) => prop_assert_eq!(pack(Form::Prefixed, &items), data),
                Err(Malformed::Length { at }) => {
                    prop_assert!(unpacked(&data[..at], Form::Prefixed).is_ok());
                    let rest = &data[at..];
                    let whole = rest.first_chunk().is_some_and(|length| {
                        u32::from_le_bytes(*length) as usize <= rest.len() - LENGTH_BYTES
                    });
                    prop_assert!(!whole, "an item was there");
                }
                Err(other) => prop_assert!(false, "{:?}", other),
            }
        }
    }

    /// An item that nobody sent would be added, or one that was sent would be missing.
    #[test]
    fn lines_lose_their_ends_only() {
        let lines = |data: &str| unpacked(data.as_bytes(), Form::Lines).unwrap();
        let texts = |lines: &[&str]| {
            lines
                .iter()
                .map(|line| line.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(""), texts(&[]));
        assert_eq!(lines("\n"), texts(&[""]));
        assert_eq!(lines("a"), texts(&["a"]));
        assert_eq!(lines("a\n"), texts(&["a"]));
        assert_eq!(lines("a\n\n"), texts(&["a", ""]));
        assert_eq!(lines(" a\t\r\n\0\nb"), texts(&[" a\t", "\0", "b"]));
        assert_eq!(lines("\r\n\ra\r\r\n\r"), texts(&["", "\ra\r", ""]));
    }
}
