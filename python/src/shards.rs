//! Items divided among shards, packed, and which shard an item belongs to: docs/sharding.md defines the hash.

use std::num::NonZeroUsize;

use blake2::{Blake2b512, Digest};
use libbloom::packed::{Form, Packed};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::copied;

/// The first 8 bytes of an item's BLAKE2b-512, as a big-endian number.
fn hash(item: &[u8]) -> u64 {
    let digest = Blake2b512::digest(item);
    digest.first_chunk().map_or(0, |&first| u64::from_be_bytes(first))
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

type Shared<'py> = (usize, usize, Bound<'py, PyBytes>);

/// Divides packed items among shards. Returns, for each shard that has items, its number, the number of its items, and
/// the items in the same form; then the shard of each item in order, as integers of four bytes in the machine's order.
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
