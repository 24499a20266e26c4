//! Items, and the answers of filters for them.

use crate::client::{Client, Reply};

/// A range of numbered items.
pub fn numbered(prefix: &str, from: usize, to: usize) -> Vec<Vec<u8>> {
    (from..to).map(|i| format!("{prefix}{i}").into_bytes()).collect()
}

/// The items that a filter reports as present.
pub fn present(client: &mut Client, key: &str, items: &[Vec<u8>]) -> Vec<usize> {
    let mut answers = Vec::new();
    for batch in items.chunks(5000) {
        let found = client.over(&format!("BF.MEXISTS {key}"), batch);
        answers.extend(found.elements().iter().map(Reply::int));
    }
    assert_eq!(answers.len(), items.len());
    (0..items.len()).filter(|&at| answers[at] == 1).collect()
}

/// Adds items with a command for many. Returns how many were new.
pub fn add(client: &mut Client, head: &str, items: &[Vec<u8>]) -> i64 {
    items
        .chunks(1000)
        .map(|batch| {
            client
                .over(head, batch)
                .elements()
                .iter()
                .map(Reply::int)
                .sum::<i64>()
        })
        .sum()
}
