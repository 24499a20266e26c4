//! What clients do to a filter, in any order, compared with a set: an item that was added is found until it is
//! excepted, and one that is excepted is not, until it is added again.

use std::collections::HashSet;
use std::num::{NonZeroU8, NonZeroUsize};

use crate::check;
use crate::tape::Tape;
use libbloom::Filter;
use libbloom::chain::at_most;
use libbloom::checks::Invalid;
use libbloom::codec::chunks;
use libbloom::packed::{Answers, Form, Packed};
use libbloom::params::{Capacity, ErrorRate, Expansion, Growth, Layout, Seed, Tightening, Window};
use libbloom::spec::{BlockedSpec, Spec, ValkeySpec};

/// The most bytes that a filter may take: chains of some layers, and quick to compare.
const LIMIT: u64 = 1 << 15;

/// A filter, what is in it, and how often something was new.
struct Tried {
    filter: Filter,
    added: HashSet<Vec<u8>>,
    excepted: HashSet<Vec<u8>>,
    /// How often something was new that no exception was made for; unknown since filters were united, or an exception
    /// ended in a window.
    new: Option<u64>,
    /// Whether an item was added before all chunks were there: it may have set bits that were on their way.
    mixed: bool,
}

/// Panics where that does not hold.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape(bytes);
    let Some(spec) = spec(&mut tape) else { return };
    let Ok(filter) = Filter::new(spec, &at_most(LIMIT)) else {
        return;
    };
    let mut tried = Tried {
        filter,
        added: HashSet::new(),
        excepted: HashSet::new(),
        new: Some(0),
        mixed: false,
    };
    while !tape.is_over() {
        tried.step(&mut tape);
    }
    tried.holds();
    check::is_moved_as_it_is(&tried.filter);
    check::has_figures(&tried.filter);
    let rate = tried.filter.estimated_error_rate();
    if spec.layout() == Layout::Blocked {
        assert!(
            rate <= tried.filter.error_rate() * (1.0 + 1e-9),
            "an estimate of {rate}"
        );
    }
}

fn spec(tape: &mut Tape<'_>) -> Option<Spec> {
    let shape = tape.u8();
    let expansion = Expansion::new(u32::from(tape.u16() & 0x7fff) + 1).ok()?;
    let capacity = match shape >> 6 {
        3 => u64::from(tape.u32()),
        _ => u64::from(tape.u8()) + 1,
    };
    // Nobody lets time go on here, so that what is in a window stays.
    let window = match shape >> 3 & 7 {
        slices @ 2.. if shape & 7 == 1 => Some(Window::new(capacity as u32 | 1, slices, false).ok()?),
        _ => None,
    };
    let mut spec = BlockedSpec {
        error_rate: ErrorRate::new((-f64::from(tape.u8()) / 2.0).exp2()).ok()?,
        capacity: Capacity::new(capacity).ok()?,
        growth: match shape & 3 {
            0 => Growth::Fixed,
            1 => Growth::Reserved(expansion),
            _ => Growth::Growing(expansion),
        },
        seed: Seed(0),
        window,
    };
    if shape & 4 == 0 {
        spec.seed = Seed(tape.u8().into());
        return Some(spec.into());
    }
    if shape & 8 == 0 {
        return spec.in_layout(Layout::Classic).ok();
    }
    let (rate, capacity) = (spec.error_rate.value(), spec.capacity.items());
    let factor = spec.growth.expansion().map_or(0, Expansion::factor);
    let seed = Seed(tape.u8().into()).into();
    let tightening = Tightening::new((f64::from(tape.u8()) + 1.0) / 257.0).ok()?;
    ValkeySpec::new(rate, capacity, factor, tightening, seed)
        .ok()
        .map(Spec::Valkey)
}

/// One of the items that come again and again, or any bytes.
fn item(tape: &mut Tape<'_>) -> Vec<u8> {
    match tape.u8() {
        length @ 0..16 => tape.bytes(length.into()).to_vec(),
        number => vec![b'i', number, tape.u8()],
    }
}

/// Consecutive numbers, up to 255 of them.
fn many(tape: &mut Tape<'_>) -> Vec<Vec<u8>> {
    let (from, count) = (u32::from(tape.u16()), u32::from(tape.u8()));
    (from..from + count)
        .map(|number| number.to_string().into_bytes())
        .collect()
}

impl Tried {
    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.u8() % 16 {
            0 => self.add(item(tape)),
            1 => self.add_many(&many(tape)),
            2 => {
                let items: Vec<_> = (0..tape.u8() % 70).map(|_| item(tape)).collect();
                self.add_many(&items);
            }
            3 => self.ask(&many(tape)),
            4 => self.holds(),
            5 => self.restart(),
            6 => self.filter = chunks::copy(&self.filter, &at_most(LIMIT)).expect("a copy"),
            7 => self.copy_in_pieces(tape),
            8 => self.refuse(item(tape)),
            9 => self.pack(tape),
            10 => self.except(&many(tape)),
            11 => {
                let items: Vec<_> = (0..tape.u8() % 70).map(|_| item(tape)).collect();
                self.except(&items);
            }
            12 => self.unite(&many(tape), tape.u8()),
            13 => self.intersect(&many(tape)),
            14 => self.empty(tape.u8()),
            _ => self.shrink(tape.u16()),
        }
    }

    fn add(&mut self, item: Vec<u8>) {
        let (there, items) = (self.filter.contains(&item), self.filter.items());
        if let Ok(new) = self.filter.add(&item, 0, &at_most(LIMIT)) {
            assert_eq!(new, !there, "an add and a question disagree");
            assert!(self.filter.contains(&item));
            self.take_note(item, new);
        } else {
            assert!(!there, "an item that is there needs no room");
        }
        assert!(self.filter.items() - items <= 1);
    }

    /// A batch does what single adds do, to the bit.
    fn add_many(&mut self, items: &[Vec<u8>]) {
        let mut singly = chunks::copy(&self.filter, &|_| Ok(())).expect("a copy");
        let mut answers = Vec::new();
        let allowance = at_most(LIMIT);
        let end = self
            .filter
            .add_all(items.iter().map(Vec::as_slice), 0, &allowance, |new| {
                answers.push(new)
            });
        let mut expected = Vec::new();
        let mut expected_end = Ok(());
        for item in items {
            match singly.add(item, 0, &allowance) {
                Ok(new) => expected.push(new),
                Err(error) => {
                    expected_end = Err(error);
                    break;
                }
            }
        }
        assert_eq!((&answers, end), (&expected, expected_end));
        assert!(
            check::saved(&self.filter) == check::saved(&singly),
            "a batch leaves other bits"
        );
        for (item, new) in items.iter().zip(answers) {
            self.take_note(item.clone(), new);
        }
    }

    /// An item was added.
    fn take_note(&mut self, item: Vec<u8>, new: bool) {
        if self.excepted.remove(&item) {
            assert!(new, "an item that was excepted was there");
        } else if let Some(count) = &mut self.new {
            *count += u64::from(new);
        }
        self.added.insert(item);
    }

    /// Items are excepted, and no others.
    fn except(&mut self, items: &[Vec<u8>]) {
        let there: Vec<_> = items.iter().map(|item| self.filter.contains(item)).collect();
        let stored = check::saved(&self.filter);
        let mut answers = Vec::new();
        let slices = items.iter().map(Vec::as_slice);
        let end = self.filter.except(slices, &at_most(LIMIT), |excepted, count| {
            answers.extend((0..count).map(|at| excepted.has(at)));
        });
        if end.is_err() {
            assert!(
                answers.is_empty() && check::saved(&self.filter) == stored,
                "changed, and refused"
            );
            return;
        }
        for ((item, there), excepted) in items.iter().zip(there).zip(answers) {
            assert_eq!(excepted, there && self.excepted.insert(item.clone()));
            assert!(!self.filter.contains(item));
            self.added.remove(item);
        }
    }

    /// Merges another filter of the same seed, with the same parameters or others.
    fn unite(&mut self, items: &[Vec<u8>], shape: u8) {
        let Ok(emptied) = self.filter.emptied(&at_most(LIMIT)) else {
            return;
        };
        let mut other = match emptied {
            Some(emptied) if shape.is_multiple_of(2) => emptied,
            _ => chunks::copy(&self.filter, &|_| Ok(())).expect("a copy"),
        };
        let mut taken = Vec::new();
        for item in items {
            if other.add(item, 0, &at_most(LIMIT)).is_ok() {
                taken.push(item.clone());
            }
        }
        let stored = check::saved(&self.filter);
        let before = (self.filter.totals(), self.filter.error_rate());
        let rate = ErrorRate::new(f64::from(shape) / 300.0).ok();
        let united = Filter::union(&[&self.filter, &other], rate, &at_most(LIMIT));
        match self.filter.absorb(&[&other], rate, &at_most(LIMIT)) {
            Ok(changed) => {
                assert_eq!(changed, check::saved(&self.filter) != stored);
                assert!(
                    taken.iter().all(|item| self.filter.contains(item)),
                    "an item of a source is lost"
                );
                // Layers that nothing came into stay in their order.
                let layers_changed = (self.filter.totals(), self.filter.error_rate()) != before;
                if let Ok(united) = united.as_ref()
                    && layers_changed
                {
                    assert!(
                        check::saved(united) == check::saved(&self.filter),
                        "in place it is another union"
                    );
                }
                self.excepted.retain(|item| !other.contains(item));
                self.added.extend(taken);
                self.new = None;
            }
            Err(_) => assert!(check::saved(&self.filter) == stored, "changed, and refused"),
        }
    }

    /// The intersection with another filter has what both have.
    fn intersect(&self, items: &[Vec<u8>]) {
        let Ok(Some(mut other)) = self.filter.emptied(&at_most(LIMIT)) else {
            return;
        };
        for item in items {
            let _ = other.add(item, 0, &at_most(LIMIT));
        }
        if let Ok(common) = Filter::intersection(&[&self.filter, &other], &at_most(LIMIT)) {
            for item in items.iter().chain(&self.added) {
                assert_eq!(
                    common.contains(item),
                    self.filter.contains(item) && other.contains(item)
                );
            }
            check::is_sound(&common);
            check::is_moved_as_it_is(&common);
        }
    }

    fn empty(&mut self, sure: u8) {
        if sure < 200 {
            return;
        }
        if let Ok(Some(emptied)) = self.filter.emptied(&at_most(LIMIT)) {
            self.filter = emptied;
            self.added.clear();
            self.excepted.clear();
            (self.new, self.mixed) = (Some(0), false);
        }
    }

    /// A smaller filter has the same items, and shrinking it once more does nothing.
    fn shrink(&mut self, capacity: u16) {
        let stored = check::saved(&self.filter);
        let before = self.filter.bytes();
        match self.filter.shrink(capacity.into(), &at_most(LIMIT)) {
            Ok(0) | Err(_) => assert!(
                check::saved(&self.filter) == stored,
                "changed, and nothing was said"
            ),
            Ok(freed) => {
                assert_eq!(before - self.filter.bytes(), freed);
                assert_eq!(self.filter.shrink(capacity.into(), &at_most(LIMIT)), Ok(0));
                // An item that set only bits that are one bit now is no longer counted.
                self.new = None;
            }
        }
    }

    /// Packed items do what others do, to the bit.
    fn pack(&mut self, tape: &mut Tape<'_>) {
        let form = match tape.u8() {
            width @ 1..40 => Form::Width(NonZeroUsize::from(NonZeroU8::new(width).expect("above 0"))),
            byte if byte % 2 == 0 => Form::Lines,
            _ => Form::Prefixed,
        };
        let length = tape.u16() % 700;
        let Ok(packed) = Packed::new(tape.bytes(length.into()), form) else {
            return;
        };
        let mut items = Vec::new();
        packed.for_each(|item| items.push(item.to_vec()));

        let [mut twin, mut replica, mut short] =
            [(); 3].map(|()| chunks::copy(&self.filter, &|_| Ok(())).expect("a copy"));
        let mut answers = Answers::with_room_for(packed.count()).expect("memory");
        let end = twin.add_packed(packed, 0, &at_most(LIMIT), |block| {
            answers.push(block.new, block.count)
        });
        self.add_many(&items);
        assert!(
            check::saved(&self.filter) == check::saved(&twin),
            "packed items leave other bits"
        );
        assert!(answers.count() == items.len() || end.is_err());
        assert_eq!(
            self.filter.count_packed(packed, 0),
            self.filter.contains_packed(packed, 0).expect("memory").ones()
        );
        let found = self.filter.contains_packed(packed, 0).expect("memory");
        assert!(
            found
                .iter()
                .eq(items.iter().map(|item| self.filter.contains(item)))
        );

        // What a replica is told of makes the same of it: the new ones, or where there is no memory for them all that
        // were looked at.
        let told = packed.only(&answers).expect("memory");
        let reached = packed.first(answers.count());
        for (filter, data) in [(&mut replica, &told[..]), (&mut short, reached)] {
            let items = Packed::new(data, form).expect("what was packed");
            let end = filter.add_packed(items, 0, &|_| Ok(()), |_| ());
            assert_eq!(end, Ok(()), "a replica refuses what its primary took");
            assert!(
                check::saved(filter) == check::saved(&self.filter),
                "a replica has other bits"
            );
        }
    }

    fn ask(&self, items: &[Vec<u8>]) {
        let mut answers = Vec::new();
        self.filter
            .contains_all(items.iter().map(Vec::as_slice), 0, |found| answers.push(found));
        assert_eq!(answers.len(), items.len());
        for (item, found) in items.iter().zip(answers) {
            assert_eq!(self.filter.contains(item), found);
            assert!(found || !self.added.contains(item), "an added item is lost");
        }
    }

    fn holds(&self) {
        let was_united = self.new.is_none();
        let valid = if was_united {
            self.filter.validate_composed()
        } else {
            self.filter.validate()
        };
        match valid {
            Ok(()) => {}
            Err(Invalid::Fill { .. }) if self.mixed => {}
            Err(invalid) => panic!(
                "{invalid:?} of {:?}",
                self.filter.layer_stats().collect::<Vec<_>>()
            ),
        }
        if let Some(new) = self.new {
            assert_eq!(self.filter.items(), new);
        }
        assert_eq!(self.filter.exceptions(), self.excepted.len() as u64);
        assert!(
            !self.excepted.iter().any(|item| self.filter.contains(item)),
            "an exception came back"
        );
        let added: Vec<_> = self.added.iter().cloned().collect();
        self.ask(&added);
        assert!(added.iter().all(|item| self.filter.contains(item)));
    }

    fn restart(&mut self) {
        let stored = check::saved(&self.filter);
        self.filter = check::reloaded(&self.filter);
        assert!(check::saved(&self.filter) == stored);
    }

    /// A copy that is already used while its chunks come in: cut anywhere, in any order.
    fn copy_in_pieces(&mut self, tape: &mut Tape<'_>) {
        let (cut, turn, item) = (usize::from(tape.u8()) + 1, usize::from(tape.u8()), item(tape));
        let mut pieces = Vec::new();
        for chunk in chunks::chunks(&self.filter).skip(1) {
            let start = chunk.iterator - chunk.bytes.len() as i64;
            for (number, piece) in chunk.bytes.chunks(cut * 16).enumerate() {
                let end = start + (number * cut * 16 + piece.len()) as i64;
                pieces.push((end, piece.to_vec()));
            }
        }
        if !pieces.is_empty() {
            let turn = turn % pieces.len();
            pieces.rotate_left(turn);
        }
        let mut copy = chunks::load_header(&chunks::header(&self.filter), &at_most(LIMIT)).expect("a header");
        // In a copy without its chunks hardly anything is found, so most items are new to it.
        let half = pieces.len() / 2;
        for (number, (iterator, bytes)) in pieces.iter().enumerate() {
            if number == half && copy.add(&item, 0, &at_most(LIMIT)).is_ok_and(|new| new) {
                // What was excepted is new, and counted if its bits are still on their way.
                self.new = self.new.map(|_| copy.items());
                self.excepted.remove(&item);
                self.added.insert(item.clone());
                self.mixed = true;
            }
            chunks::load_chunk(&mut copy, *iterator, bytes).expect("its own chunk");
        }
        self.filter = copy;
    }

    /// Without memory, nothing changes, and everything is answered as before.
    fn refuse(&mut self, item: Vec<u8>) {
        let stored = check::saved(&self.filter);
        if self
            .filter
            .add(&item, 0, &|_| Err(libbloom::Limit::Bytes(0)))
            .is_err()
        {
            assert!(
                check::saved(&self.filter) == stored,
                "a refused item changed the filter"
            );
        } else {
            self.new = self.new.map(|_| self.filter.items());
            self.excepted.remove(&item);
            self.added.insert(item);
        }
    }
}
