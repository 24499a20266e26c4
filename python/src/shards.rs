//! Items that go to many shards: which one an item belongs to, and packed items divided among them.
//! docs/sharding.md defines the hash.

use std::num::NonZeroUsize;

use libbloom::packed::{Form, Packed};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::copied;

/// The constants of BLAKE2b (RFC 7693, section 2.6).
const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
/// The order of a block's words in each round (RFC 7693, section 2.7).
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const BLOCK: usize = 128;

/// Mixes four words of the state with two of the block.
#[inline(always)]
fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], x: u64, y: u64) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

/// A round: the columns, then the diagonals. Its number is known to the compiler, so that no index is left.
#[inline(always)]
fn round<const NUMBER: usize>(v: &mut [u64; 16], words: &[u64; 16]) {
    let order = &SIGMA[NUMBER];
    mix(v, [0, 4, 8, 12], words[order[0]], words[order[1]]);
    mix(v, [1, 5, 9, 13], words[order[2]], words[order[3]]);
    mix(v, [2, 6, 10, 14], words[order[4]], words[order[5]]);
    mix(v, [3, 7, 11, 15], words[order[6]], words[order[7]]);
    mix(v, [0, 5, 10, 15], words[order[8]], words[order[9]]);
    mix(v, [1, 6, 11, 12], words[order[10]], words[order[11]]);
    mix(v, [2, 7, 8, 13], words[order[12]], words[order[13]]);
    mix(v, [3, 4, 9, 14], words[order[14]], words[order[15]]);
}

/// One more block of BLAKE2b; `length` is the number of bytes up to its end.
fn compress(hash: &mut [u64; 8], block: &[u8; BLOCK], length: usize, is_last: bool) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut v = [0; 16];
    v[..8].copy_from_slice(hash);
    v[8..].copy_from_slice(&IV);
    v[12] ^= length as u64;
    if is_last {
        v[14] = !v[14];
    }
    round::<0>(&mut v, &words);
    round::<1>(&mut v, &words);
    round::<2>(&mut v, &words);
    round::<3>(&mut v, &words);
    round::<4>(&mut v, &words);
    round::<5>(&mut v, &words);
    round::<6>(&mut v, &words);
    round::<7>(&mut v, &words);
    round::<8>(&mut v, &words);
    round::<9>(&mut v, &words);
    // The last two are the first two again.
    round::<0>(&mut v, &words);
    round::<1>(&mut v, &words);
    for (at, word) in hash.iter_mut().enumerate() {
        *word ^= v[at] ^ v[at + 8];
    }
}

/// The first 8 bytes of an item's BLAKE2b-512, as a big-endian number.
fn hash(item: &[u8]) -> u64 {
    let mut state = IV;
    // A digest of 64 bytes, and no key.
    state[0] ^= 0x0101_0040;
    let mut rest = item;
    while let Some((block, following)) = rest
        .split_first_chunk::<BLOCK>()
        .filter(|(_, rest)| !rest.is_empty())
    {
        rest = following;
        compress(&mut state, block, item.len() - rest.len(), false);
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    compress(&mut state, &last, item.len(), true);
    state[0].swap_bytes()
}

/// How items are packed, as the words of BF.ADDPACKED say it.
fn form_of(form: &str, width: Option<NonZeroUsize>) -> PyResult<Form> {
    match (form, width) {
        ("LINES", None) => Ok(Form::Lines),
        ("PREFIXED", None) => Ok(Form::Prefixed),
        ("WIDTH", Some(width)) => Ok(Form::Width(width)),
        _ => Err(PyValueError::new_err(
            "the form is LINES, PREFIXED, or WIDTH and a number",
        )),
    }
}

/// A shard's items: their number, and the packed items.
#[derive(Clone, Default)]
struct Share {
    count: usize,
    packed: Vec<u8>,
}

/// The items of each shard, and the shard of each item.
fn divided(items: Packed<'_>, shards: u32) -> (Vec<Share>, Vec<u32>) {
    let mut shares = vec![Share::default(); shards as usize];
    let mut places = Vec::with_capacity(items.count());
    items.for_each(|item| {
        let shard = (hash(item) % u64::from(shards)) as u32;
        places.push(shard);
        let share = &mut shares[shard as usize];
        share.count += 1;
        items.form().push(item, &mut share.packed);
    });
    (shares, places)
}

/// A shard, the number of its items, and the packed items.
type Shared<'py> = (usize, usize, Bound<'py, PyBytes>);

/// Divides packed items among shards. Returns, for each shard that has items: the shard, the number of its items, and
/// the items packed in the same form. Then the shard of each item in order, as integers of four bytes in the machine's
/// byte order.
#[pyfunction]
#[pyo3(signature = (shards, form, *words))]
pub fn divide<'py>(
    py: Python<'py>,
    shards: u32,
    form: &str,
    words: Vec<Bound<'py, PyAny>>,
) -> PyResult<(Vec<Shared<'py>>, Bound<'py, PyBytes>)> {
    let [width @ .., data] = &words[..] else {
        return Err(PyValueError::new_err("there are no items"));
    };
    let width = width.first().map(|width| width.extract()).transpose()?;
    let form = form_of(form, width)?;
    if shards == 0 {
        return Err(PyValueError::new_err("there must be a shard"));
    }
    let data = data.cast::<PyBytes>()?.as_bytes();
    let items = Packed::new(data, form).map_err(|_| PyValueError::new_err("the last item is not whole"))?;
    let (shares, places) = py.detach(|| divided(items, shards));
    let shares = shares.iter().enumerate().filter(|(_, share)| share.count > 0);
    let shares = shares.map(|(shard, share)| Ok((shard, share.count, copied(py, &share.packed)?)));
    let places: Vec<u8> = places.into_iter().flat_map(u32::to_ne_bytes).collect();
    Ok((shares.collect::<PyResult<_>>()?, copied(py, &places)?))
}
