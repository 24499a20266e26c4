//! The kernels' work in a loop over items, for llvm-mca, which estimates a loop's cycles (`scripts/arm64.sh cycles`).
//!
//! It is no benchmark, and nothing runs it. The items have the seven probes of an error rate of 1 %. The portable kernel
//! knows that when it is compiled, and so needs no loop over probes: in the module it has one, and is slower.

#![allow(dead_code, reason = "not all of the kernels' file is estimated")]

#[path = "../core/src/bits/kernel.rs"]
mod kernel;

use kernel::{Kernel, Line, Portable, Vector};

#[inline(always)]
fn contains<K: Kernel>(kernel: K, count: K::Count, lines: &[Line], words: &[u64]) -> u64 {
    let items = lines.iter().zip(words);
    items.fold(0, |found, (line, word)| {
        found + u64::from(kernel.covers(line, kernel.mask(*word, count)))
    })
}

#[inline(always)]
fn insert<K: Kernel>(kernel: K, count: K::Count, lines: &mut [Line], words: &[u64], spare: &mut Line) -> u32 {
    let items = lines.iter_mut().zip(words);
    items.fold(0, |new, (line, word)| {
        new + kernel.set(line, kernel.mask(*word, count), spare)
    })
}

#[unsafe(no_mangle)]
pub fn portable_contains(lines: &[Line], words: &[u64]) -> u64 {
    contains(Portable, Portable.count(7), lines, words)
}

#[unsafe(no_mangle)]
pub fn portable_insert(lines: &mut [Line], words: &[u64], spare: &mut Line) -> u32 {
    insert(Portable, Portable.count(7), lines, words, spare)
}

#[unsafe(no_mangle)]
pub fn vector_contains(lines: &[Line], words: &[u64], probes: u8) -> Option<u64> {
    let kernel = Vector::detected()?;
    Some(contains(kernel, kernel.count(probes), lines, words))
}

#[unsafe(no_mangle)]
pub fn vector_insert(lines: &mut [Line], words: &[u64], probes: u8, spare: &mut Line) -> Option<u32> {
    let kernel = Vector::detected()?;
    Some(insert(kernel, kernel.count(probes), lines, words, spare))
}
