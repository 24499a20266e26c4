//! Filters in pieces, for BF.SCANDUMP and BF.LOADCHUNK.

use crate::client::{Client, Reply, ok};

pub const BAD_DATA: &str = "ERR received bad data";

pub const NO_LINK: &str = "ERR invalid offset - no link found";

pub const TOO_BIG: &str = "ERR invalid chunk - Too big for current filter";

/// A chunk and its iterator; the header is the first.
pub type Chunk = (i64, Vec<u8>);

/// Requests one chunk.
pub fn scan(client: &mut Client, key: &str, iterator: i64) -> Chunk {
    let reply = client.call(&["BF.SCANDUMP", key, &iterator.to_string()]);
    assert_eq!(reply.elements().len(), 2, "{reply:?}");
    (reply.elements()[0].int(), reply.elements()[1].bytes().to_vec())
}

/// All chunks of a filter, requested as a tool does it.
pub fn scandump(client: &mut Client, key: &str) -> Vec<Chunk> {
    let mut chunks = vec![scan(client, key, 0)];
    loop {
        let chunk = scan(client, key, chunks[chunks.len() - 1].0);
        if chunk.0 == 0 {
            assert!(chunk.1.is_empty(), "data after the last chunk");
            return chunks;
        }
        chunks.push(chunk);
    }
}

pub fn load_one(client: &mut Client, key: &str, iterator: i64, bytes: &[u8]) -> Reply {
    let iterator = iterator.to_string();
    client.call(&[b"BF.LOADCHUNK", key.as_bytes(), iterator.as_bytes(), bytes])
}

/// Loads chunks, in this order.
pub fn load(client: &mut Client, key: &str, chunks: &[Chunk]) {
    for (iterator, bytes) in chunks {
        assert_eq!(load_one(client, key, *iterator, bytes), ok(), "{key} {iterator}");
    }
}
