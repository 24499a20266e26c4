//! What is stored and sent in bytes, of this module and of others: it comes back as it was.

mod chunks;
mod crash;
mod files;
mod layout;
mod recorded;
mod rival;
mod valkey;
