//! Items, and the answers of filters for them.

use crate::client::{Client, Reply};

/// A range of numbered items.
pub fn numbered(prefix: &str, from: usize, to: usize) -> Vec<Vec<u8>> {
    (from..to).map(|i| format!("{prefix}{i}").into_bytes()).collect()
}

/// Which of the items a filter reports as present.
pub fn answers(client: &mut Client, key: &[u8], items: &[Vec<u8>]) -> Vec<bool> {
    let mut answers = Vec::new();
    for batch in items.chunks(5000) {
        let head = [&b"BF.MEXISTS"[..], key].into_iter();
        let words: Vec<_> = head.chain(batch.iter().map(Vec::as_slice)).collect();
        let found = client.call(&words);
        answers.extend(found.elements().iter().map(|answer| answer.int() == 1));
    }
    assert_eq!(answers.len(), items.len());
    answers
}

/// The items that a filter reports as present.
pub fn present(client: &mut Client, key: &str, items: &[Vec<u8>]) -> Vec<usize> {
    let answers = answers(client, key.as_bytes(), items);
    (0..items.len()).filter(|&at| answers[at]).collect()
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
