//! Many items in one run of bytes, and many answers in one bitmap.
//!
//! A server makes an object of every argument and a reply of every answer, which takes longer than to look an
//! item up. Packed, a whole batch is one argument and one reply.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;

use crate::bloom::chain::Allowance;
use crate::bloom::chain::batch::{Added, BLOCK, Items};
use crate::bloom::error::Error;
use crate::bloom::filter::Filter;

/// How items stand in a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each ends with a line feed, which the last one may lack. Nothing else is stripped, and an empty line is the
    /// empty item.
    Lines,
    /// Each has that many bytes.
    Width(NonZeroUsize),
    /// Each has its length before it, a little-endian u32.
    Prefixed,
}

/// Bytes that are no items in their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes are no multiple of the width.
    Width {
        /// How many bytes there are.
        bytes: usize,
        /// The width.
        width: NonZeroUsize,
    },
    /// A length says more than what is left, or is cut short.
    Length {
        /// Where it starts, in bytes from the first one.
        at: usize,
    },
}

/// Bytes of a length in [`Form::Prefixed`].
const LENGTH_BYTES: usize = size_of::<u32>();

/// Items in a run of bytes, all of which were found to be there.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    data: &'a [u8],
    form: Form,
    count: usize,
}

impl<'a> Packed<'a> {
    /// The items that `data` has in this form, counted: one pass over the data, or over its lengths.
    ///
    /// # Errors
    /// [`Malformed`].
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

    /// How many items there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// The form.
    pub fn form(self) -> Form {
        self.form
    }

    /// The items in their order.
    pub fn for_each(self, mut each: impl FnMut(&'a [u8])) {
        struct Each<F>(F);
        impl<'a, F: FnMut(&'a [u8])> Visitor<'a> for Each<&mut F> {
            type Output = ();

            fn visit(self, items: impl Iterator<Item = &'a [u8]>) {
                items.for_each(self.0);
            }
        }
        self.visit(Each(&mut each));
    }

    /// Gives the items to `visitor`, which is compiled for each form.
    #[inline]
    fn visit<V: Visitor<'a>>(self, visitor: V) -> V::Output {
        match self.form {
            Form::Lines => visitor.visit(Lines {
                data: self.data,
                start: 0,
                ends: memchr::memchr_iter(b'\n', self.data),
            }),
            Form::Width(width) => visitor.visit(self.data.chunks_exact(width.get())),
            Form::Prefixed => visitor.visit(Prefixed { rest: self.data }),
        }
    }

    /// What makes of an equal filter what all of the data made of this one, of which at least one item changed it: the
    /// items that did or, where there is no memory for a copy of them, all that were looked at. `None` if that is all
    /// of the data.
    pub fn to_repeat(self, changed: &Answers) -> Option<Cow<'a, [u8]>> {
        if changed.ones() == self.count as u64 {
            return None;
        }
        match self.only(changed) {
            Some(data) => Some(Cow::Owned(data)),
            // What was there changes nothing in the other filter either.
            None if changed.count() == self.count => None,
            None => Some(Cow::Borrowed(self.first(changed.count()))),
        }
    }

    /// Those of the items that are told by `kept`, in the same form; `None` when there is no memory for them.
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
        // As much as items of one length would need. Of millions of items only one may be kept.
        let share = self.data.len() as u128 * u128::from(kept.ones()) / self.count.max(1) as u128;
        data.try_reserve_exact(usize::try_from(share).ok()?).ok()?;
        let (mut answers, mut start, mut has_room) = (kept.iter(), 0, true);
        self.for_each(|item| {
            let end = self.data.len().min(start + self.form.bytes(item));
            if answers.next() == Some(true) && has_room {
                let bytes = &self.data[start..end];
                has_room = data.try_reserve(bytes.len()).is_ok();
                if has_room {
                    data.extend_from_slice(bytes);
                }
            }
            start = end;
        });
        has_room.then_some(data)
    }

    /// The bytes of the first `count` items.
    pub fn first(self, count: usize) -> &'a [u8] {
        let (mut items, mut bytes) = (0, 0);
        self.for_each(|item| {
            if items < count {
                bytes += self.form.bytes(item);
            }
            items += 1;
        });
        &self.data[..bytes.min(self.data.len())]
    }
}

impl Form {
    /// Bytes of an item in this form.
    fn bytes(self, item: &[u8]) -> usize {
        item.len()
            + match self {
                Self::Lines => 1,
                Self::Width(_) => 0,
                Self::Prefixed => LENGTH_BYTES,
            }
    }

    /// Appends an item, which must be one that this form can hold.
    pub fn push(self, item: &[u8], data: &mut Vec<u8>) {
        if self == Self::Prefixed {
            // An item of this form has its length from there.
            data.extend((item.len() as u32).to_le_bytes());
        }
        data.extend_from_slice(item);
        if self == Self::Lines {
            data.push(b'\n');
        }
    }
}

/// Work on the items of any form. The loop over them is compiled for each form, as the filter's work is for each
/// kernel.
trait Visitor<'a> {
    /// What it gives.
    type Output;

    /// Does it.
    fn visit(self, items: impl Iterator<Item = &'a [u8]>) -> Self::Output;
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
        let item = self.data.get(self.start..end);
        self.start = end + 1;
        item
    }
}

/// The items of [`Form::Prefixed`], up to one that is not there.
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

impl Filter {
    /// [`Self::contains`] for each of some packed items.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for the answers.
    pub fn contains_packed(&self, items: Packed<'_>) -> Result<Answers, Error> {
        struct Contains<'f>(&'f Filter, Answers);
        impl<'a> Visitor<'a> for Contains<'_> {
            type Output = Answers;

            #[inline(always)]
            fn visit(self, items: impl Iterator<Item = &'a [u8]>) -> Answers {
                let Self(filter, mut answers) = self;
                filter.contains_blocks(items, |found, count| answers.push(found, count));
                answers
            }
        }
        Ok(items.visit(Contains(self, Answers::with_room_for(items.count)?)))
    }

    /// How many of some packed items are (probably) in the filter.
    pub fn count_packed(&self, items: Packed<'_>) -> u64 {
        struct Count<'f>(&'f Filter);
        impl<'a> Visitor<'a> for Count<'_> {
            type Output = u64;

            #[inline(always)]
            fn visit(self, items: impl Iterator<Item = &'a [u8]>) -> u64 {
                let mut count = 0;
                self.0
                    .contains_blocks(items, |found, _| count += found.count_ones());
                count
            }
        }
        items.visit(Count(self))
    }

    /// [`Self::add_blocks`] of packed items.
    ///
    /// # Errors
    /// As there.
    pub fn add_packed(
        &mut self,
        items: Packed<'_>,
        allowance: Allowance<'_>,
        added: impl FnMut(Added),
    ) -> Result<(), Error> {
        struct Add<'f, 'l, F>(&'f mut Filter, Allowance<'l>, F);
        impl<'a, F: FnMut(Added)> Visitor<'a> for Add<'_, '_, F> {
            type Output = Result<(), Error>;

            #[inline(always)]
            fn visit(self, items: impl Iterator<Item = &'a [u8]>) -> Result<(), Error> {
                let Self(filter, allowance, added) = self;
                filter.add_blocks(items, allowance, added)
            }
        }
        items.visit(Add(self, allowance, added))
    }
}

/// Answers to the items of a batch, a bit for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Of each block of items those whose answer is yes, the first item lowest.
    blocks: Vec<u64>,
    count: usize,
}

impl Answers {
    /// No answers yet, and room for `count` of them.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_room_for(count: usize) -> Result<Self, Error> {
        let mut answers = Self::default();
        let blocks = count.div_ceil(BLOCK);
        let room = answers.blocks.try_reserve_exact(blocks);
        room.map_err(|_| Error::OutOfMemory {
            bytes: (blocks * size_of::<u64>()) as u64,
        })?;
        Ok(answers)
    }

    /// So many times no.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn none_of(count: usize) -> Result<Self, Error> {
        let mut answers = Self::with_room_for(count)?;
        answers.blocks.resize(count.div_ceil(BLOCK), 0);
        answers.count = count;
        Ok(answers)
    }

    /// Appends the answers to a block of `count` items, all of whose predecessors had [`BLOCK`].
    #[inline(always)]
    pub fn push(&mut self, yes: Items, count: usize) {
        debug_assert!(self.count.is_multiple_of(BLOCK), "a block before it was short");
        self.blocks.push(yes.word());
        self.count += count;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them are yes.
    pub fn ones(&self) -> u64 {
        self.blocks.iter().map(|yes| u64::from(yes.count_ones())).sum()
    }

    /// The answers in their order.
    pub fn iter(&self) -> impl Iterator<Item = bool> {
        (0..self.count).map(|at| self.blocks[at / BLOCK] >> (at % BLOCK) & 1 == 1)
    }

    /// The yeses that follow each other, as the numbers of the first one and of the one behind the last.
    fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        self.blocks.iter().enumerate().flat_map(|(block, &yes)| {
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

    /// The same as the server's own bitmaps are: the first answer is the highest bit of the first byte.
    pub fn into_bitmap(mut self) -> Bitmap {
        for yes in &mut self.blocks {
            *yes = yes.reverse_bits().to_be();
        }
        Bitmap(self)
    }
}

/// A bit for each of some answers, the first one highest.
#[derive(Clone, Debug)]
pub struct Bitmap(Answers);

impl Bitmap {
    /// One byte for eight answers; spare bits are 0.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0.blocks)[..self.0.count.div_ceil(8)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::bloom::UNLIMITED;
    use crate::bloom::params::{Expansion, Growth, Layout, Seed, Spec};
    use crate::bloom::tests::oracle::{self, VALKEY};
    use crate::server::alloc::failing;

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

    /// A form, and items that it can hold.
    fn batches() -> impl Strategy<Value = (Form, Vec<Vec<u8>>)> {
        // Few different bytes, so that items come again, and line feeds too.
        let bytes = |size| vec(prop_oneof![Just(b'\n'), Just(0), Just(b'a'), Just(0xff)], size);
        prop_oneof![
            vec(bytes(0..5usize), 0..300).prop_map(|mut items| {
                items
                    .iter_mut()
                    .flatten()
                    .filter(|byte| **byte == b'\n')
                    .for_each(|byte| *byte = b'b');
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
        let layouts = prop_oneof![
            Just(Layout::Blocked { seed: Seed(3) }),
            Just(Layout::Classic),
            Just(VALKEY)
        ];
        (1..100u64, growths, layouts).prop_map(|(capacity, growth, layout)| Spec {
            layout,
            ..oracle::spec(capacity, 0.01, growth, 3)
        })
    }

    proptest! {
        /// An item that was cut wrongly would be another item: it would never be found again.
        #[test]
        fn what_was_packed_is_unpacked((form, items) in batches()) {
            let data = pack(form, &items);
            prop_assert_eq!(unpacked(&data, form), Ok(items.clone()));
            if form == Form::Lines && items.last().is_some_and(|last| !last.is_empty()) {
                let open = &data[..data.len() - 1];
                prop_assert_eq!(unpacked(open, form), Ok(items));
            }
        }

        /// Packed commands are no other commands: the same bits, the same answers, the same end.
        #[test]
        fn packed_items_are_treated_as_others(
            (form, items) in batches(),
            spec in specs(),
            before in vec(vec(any::<u8>(), 0..3), 0..60),
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
            let packed_end = other.add_packed(packed, UNLIMITED, |block| together.push(block.new, block.count));
            prop_assert_eq!(end, packed_end);
            prop_assert_eq!(together.iter().collect::<Vec<_>>(), one_by_one.clone());
            prop_assert_eq!(oracle::stored(&filter), oracle::stored(&other));

            // What is told to a replica, and what is told where there is no memory to say it shortly.
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
            let answers = other.contains_packed(packed).unwrap();
            prop_assert_eq!(answers.iter().collect::<Vec<_>>(), found.clone());
            prop_assert_eq!(other.count_packed(packed), answers.ones());
            prop_assert_eq!(answers.ones(), found.iter().filter(|is_there| **is_there).count() as u64);
        }

        /// A client reads the bitmap with GETBIT, or with numpy: another order would be another item's answer.
        #[test]
        fn answers_are_bits_from_the_highest_on(answers in vec(any::<bool>(), 0..300)) {
            let mut told = Answers::with_room_for(answers.len()).unwrap();
            for block in answers.chunks(BLOCK) {
                let mut yes = Items::NONE;
                block.iter().enumerate().for_each(|(at, &answer)| yes.put_if(at, answer));
                told.push(yes, block.len());
            }
            prop_assert_eq!(told.count(), answers.len());
            prop_assert_eq!(told.iter().collect::<Vec<_>>(), answers.clone());
            prop_assert_eq!(told.ones(), answers.iter().filter(|yes| **yes).count() as u64);
            let mut bytes = vec![0u8; answers.len().div_ceil(8)];
            for (at, _) in answers.iter().enumerate().filter(|(_, answer)| **answer) {
                bytes[at / 8] |= 0x80 >> (at % 8);
            }
            prop_assert_eq!(told.into_bitmap().bytes().to_vec(), bytes);
            let none = Answers::none_of(answers.len()).unwrap();
            prop_assert_eq!((none.count(), none.ones()), (answers.len(), 0));
            prop_assert_eq!(none.into_bitmap().bytes().to_vec(), vec![0; answers.len().div_ceil(8)]);
        }

        /// Any bytes may come: they are items, or it is said where they stop to be some.
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

    /// An item that nobody sent would be added, or one that was sent would not.
    #[test]
    fn lines_are_taken_as_they_stand() {
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
        assert_eq!(lines(" a\t\r\n\0\nb"), texts(&[" a\t\r", "\0", "b"]));
    }
}
