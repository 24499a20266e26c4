//! The example does what its page says.
#![expect(dead_code, reason = "a test calls what an example's `main` calls")]

use std::path::Path;

use libbloom::{Filter, Layout};
use libbloom_rdb::Writer;
use tempfile::TempDir;

#[path = "../examples/redisbloom.rs"]
mod redisbloom;

/// Who leaves RedisBloom by the example would leave filters behind.
#[test]
fn filters_of_a_server_are_read() {
    let fixture = "../tests/fixtures/redisbloom/redisbloom-2.8.rdb";
    let filters = redisbloom::filters(&Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap();
    let (_, filter) = filters.iter().find(|(key, _)| key == "rb:chain").unwrap();
    assert!((0..4000).all(|number| filter.contains(number.to_string().as_str())));
    assert_eq!(filters.len(), 9);

    // One that is damaged leaves the others.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("dump.rdb");
    let filter = Filter::builder(10, 0.01).layout(Layout::Classic).build().unwrap();
    let mut writer = Writer::new(b"".to_vec()).unwrap();
    writer.put(0, b"bad", &filter, None).unwrap();
    writer.put(0, b"good", &filter, None).unwrap();
    let mut file = writer.finish().unwrap();
    // The first value of the first filter: it counts an item that no layer has. And no checksum.
    let end = file.len() - 8;
    file[end..].fill(0);
    let at = file.windows(3).position(|bytes| bytes == b"bad").unwrap() + 3 + 9 + 1;
    assert_eq!(file[at], 0);
    file[at] = 1;
    std::fs::write(&path, file).unwrap();
    let found = redisbloom::filters(&path).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "good");
}
