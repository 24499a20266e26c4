//! What RedisBloom and valkey-bloom say: the words in which their primaries and files describe a filter, which replicas
//! with these modules understand too.

pub mod redisbloom;
pub mod valkey;
