//! Limits, and servers that are short of memory.

mod arguments;
mod freeing;
mod limits;
mod maxmemory;
mod shortage;
