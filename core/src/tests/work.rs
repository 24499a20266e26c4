//! Counts expensive work where it is done, because a test of elapsed time would depend on the machine.

use std::cell::Cell;

/// The kinds of work that are counted.
#[derive(Clone, Copy)]
pub enum Work {
    /// Computations of the rate of a line, which dominate sizing.
    LineRates,
    /// Lookups of an exception's hash in a layer.
    LayersAsked,
}

thread_local! {
    static DONE: [Cell<u64>; 2] = const { [Cell::new(0), Cell::new(0)] };
}

/// Counts one unit of work of this kind.
pub fn add(work: Work, amount: usize) {
    DONE.with(|done| {
        let done = &done[work as usize];
        done.set(done.get() + amount as u64);
    });
}

/// Runs `run`. Returns how much work of this kind this thread did, and the result.
pub fn of<T>(work: Work, run: impl FnOnce() -> T) -> (u64, T) {
    let done = || DONE.with(|done| done[work as usize].get());
    let before = done();
    let result = run();
    (done() - before, result)
}
