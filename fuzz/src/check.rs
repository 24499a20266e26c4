//! What must hold for a filter, wherever it came from.

use libbloom::chain::at_most;
use libbloom::checks::Invalid;
use libbloom::checks::MemoryStream;
use libbloom::codec::{self, ENCODING_VERSION, chunks, valkey};
use libbloom::params::Time;
use libbloom::{Error, Filter};

use crate::LIMIT;

/// The time of all that is done here. The windows of foreign bytes may have any.
const NOW: Time = 1_700_000_000_000;

/// Uses a filter that was made of foreign bytes in every way that a client can.
pub fn works(mut filter: Filter) {
    is_sound(&filter);
    is_moved_as_it_is(&filter);
    has_figures(&filter);
    let items: Vec<_> = (0..40_u32).map(|number| number.to_le_bytes()).collect();
    takes_items(&mut filter, items.iter().map(|item| &item[..]));
    is_sound(&filter);
    is_moved_as_it_is(&filter);
    has_figures(&filter);
}

/// Every invariant holds, but for two: foreign bytes may have any number of set bits for their items, and layers of
/// any capacity, as those of a union are.
pub fn is_sound(filter: &Filter) {
    match filter.validate_composed() {
        Ok(()) | Err(Invalid::Fill { .. }) => {}
        Err(invalid) => panic!("{invalid:?}"),
    }
    assert!(
        filter.bytes() <= LIMIT + 1024 * filter.layers() as u64,
        "larger than allowed"
    );
}

/// Adds items. Each item that was answered is found, alone and in a batch, and a refusal changes nothing.
pub fn takes_items<'a>(filter: &mut Filter, items: impl Iterator<Item = &'a [u8]> + Clone) {
    let count = items.clone().count();
    let mut before = Vec::new();
    filter.contains_all(items.clone(), NOW, |found| before.push(found));
    let singly: Vec<_> = items.clone().map(|item| filter.contains_at(item, NOW)).collect();
    assert_eq!(before, singly, "a batch answers otherwise than single questions");

    let mut answers = Vec::new();
    let end = filter.add_all(items.clone(), NOW, &at_most(LIMIT), |new| answers.push(new));
    assert_eq!(end.is_ok(), answers.len() == count);
    for (item, (new, before)) in items.clone().zip(answers.iter().zip(before)) {
        assert!(filter.contains_at(item, NOW), "an added item is lost");
        // A window forgets with an add: what its stamps say has expired.
        let forgets = filter.window().is_some();
        assert!(
            forgets || !(*new && before),
            "an item was new that had been there"
        );
    }
    if let Err(error) = end {
        assert!(
            matches!(error, Error::Full { .. } | Error::OverLimit { .. }),
            "{error:?}"
        );
        let refused = items
            .clone()
            .nth(answers.len())
            .map(<[u8]>::to_vec)
            .unwrap_or_default();
        let stored = saved(filter);
        assert_eq!(filter.add(&refused, NOW, &at_most(LIMIT)), Err(error));
        assert!(saved(filter) == stored, "a refused item changed the filter");
    }
}

/// All figures of a filter can be computed, and its rates lie between 0 and 1.
pub fn has_figures(filter: &Filter) {
    let totals = filter.totals();
    // Layers that have expired are there until the next add.
    assert_eq!(
        totals.layers,
        filter.layers() - filter.expired_layers(filter.newest_stamp())
    );
    assert_eq!(totals.items, filter.items());
    // The last byte of an early classic array may have bits that no probe falls into.
    let bytes: u64 = filter.layer_stats().map(|layer| layer.shape.bytes).sum();
    assert!(totals.bits_set <= 8 * bytes);
    let rate = filter.estimated_error_rate();
    assert!((0.0..=1.0).contains(&rate), "an estimate of {rate}");
    assert!(filter.error_rate() > 0.0 && filter.error_rate() <= 1.0);
    let _ = (
        filter.expansion(),
        filter.growth(),
        filter.seed(),
        filter.unshared(),
    );
}

/// The filter is equal to the bit after it was saved and loaded, copied, or dumped in chunks and loaded from
/// them.
pub fn is_moved_as_it_is(filter: &Filter) {
    let stored = saved(filter);
    assert!(saved(&reloaded(filter)) == stored, "a load changes it");
    if let Some(chain) = filter.as_valkey() {
        let bytes = valkey::encode(chain).expect("memory");
        let decoded = valkey::decode(&bytes, &|_| Ok(())).expect("what was written is read");
        assert!(saved(&Filter::from(decoded)) == stored, "another filter was read");
    }

    let copied = chunks::copy(filter, &|_| Ok(())).expect("a copy");
    assert!(saved(&copied) == stored, "a copy differs");

    let header = chunks::header(filter);
    let mut asked = chunks::load_header(&header, &|_| Ok(())).expect("its own header");
    let mut rewritten = chunks::load_header(&header, &|_| Ok(())).expect("its own header");
    let next = |iterator| chunks::dump(filter, iterator).expect("memory");
    for chunk in std::iter::successors(next(0), |last| next(last.iterator)).skip(1) {
        chunks::load_chunk(&mut asked, chunk.iterator, &chunk.bytes).expect("its own chunk");
    }
    for chunk in chunks::chunks(filter).skip(1) {
        chunks::load_chunk(&mut rewritten, chunk.iterator, &chunk.bytes).expect("its own chunk");
    }
    assert!(
        saved(&asked) == stored,
        "the chunks of a dump make another filter"
    );
    assert!(
        saved(&rewritten) == stored,
        "the chunks of an append-only file make another filter"
    );
}

/// The filter after it was saved to an RDB stream and loaded from it.
pub fn reloaded(filter: &Filter) -> Filter {
    let (mut stored, allowed) = (saved(filter), at_most(u64::MAX));
    let loaded = match filter.as_valkey() {
        Some(_) => valkey::load(&mut stored, valkey::ENCODING_VERSION, &allowed).map(Filter::from),
        None => codec::load(&mut stored, ENCODING_VERSION, &allowed),
    };
    loaded.expect("what was saved loads")
}

/// The values that an RDB stream of the filter has.
pub fn saved(filter: &Filter) -> MemoryStream {
    let mut stream = MemoryStream::default();
    codec::save(filter, &mut stream);
    stream
}
