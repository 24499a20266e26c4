//! Values that are not filters, such as lists and hashes. They are skipped, by their encodings. A server never changes
//! the encoding of a type number; a new encoding gets a new number.

use std::io::Read;

use super::input::Input;
use super::{Dialect, RdbError};

/// What skips a value.
type Skip<R> = fn(&mut Input<R>) -> Result<(), RdbError>;

impl<R: Read> Input<R> {
    /// What skips the value of a key of type `kind`, which is not a module's; `None` if the type is not known. The type
    /// comes first: what follows an unknown one may be no key.
    pub fn skipper(kind: u8, dialect: Dialect) -> Option<Skip<R>> {
        Some(match (kind, dialect) {
            // A string; or a list, a set, a sorted set or a hash that is one string.
            (0 | 9..=13 | 16 | 17 | 20, _) => Self::skip_string,
            // Lists and sets of strings; a list of compact lists.
            (1 | 2 | 14, _) => |input| input.each(Self::skip_string),
            // Sorted sets, their scores as text and as doubles.
            (3, _) => |input| {
                input.each(|input| {
                    input.skip_string()?;
                    match input.byte()? {
                        253.. => Ok(()),
                        length => input.skip(length.into()),
                    }
                })
            },
            (5, _) => |input| {
                input.each(|input| {
                    input.skip_string()?;
                    input.skip(8)
                })
            },
            // A hash.
            (4, _) => |input| input.each(Self::skip_pair),
            // A list of nodes: what kind of node it is, and the node.
            (18, _) => |input| {
                input.each(|input| {
                    input.length()?;
                    input.skip_string()
                })
            },
            (15, _) => |input| input.skip_stream(1),
            (19, _) => |input| input.skip_stream(2),
            (21, _) => |input| input.skip_stream(3),
            // Hashes whose fields expire: in Valkey each field with its time.
            (22, Dialect::Valkey) => |input| {
                input.each(|input| {
                    input.skip_pair()?;
                    input.skip(8)
                })
            },
            // In Redis each field after its time. Since 7.4 the earliest time comes first; small hashes are one string.
            (22, Dialect::Redis) => |input| input.each(Self::skip_time_and_pair),
            (23, Dialect::Redis) => Self::skip_string,
            (24, Dialect::Redis) => |input| {
                input.skip(8)?;
                input.each(Self::skip_time_and_pair)
            },
            (25, Dialect::Redis) => |input| {
                input.skip(8)?;
                input.skip_string()
            },
            (26, Dialect::Redis) => |input| input.skip_stream(4),
            (27, Dialect::Redis) => |input| input.skip_stream(5),
            _ => return None,
        })
    }

    /// Reads a number, and skips so many values, each of a byte or more: a wrong number takes no longer than the input.
    pub fn each(&mut self, mut skip: impl FnMut(&mut Self) -> Result<(), RdbError>) -> Result<(), RdbError> {
        for _ in 0..self.length()? {
            skip(self)?;
        }
        Ok(())
    }

    fn skip_pair(&mut self) -> Result<(), RdbError> {
        self.skip_string()?;
        self.skip_string()
    }

    fn skip_time_and_pair(&mut self) -> Result<(), RdbError> {
        self.length()?;
        self.skip_pair()
    }

    pub fn skip_lengths(&mut self, count: u32) -> Result<(), RdbError> {
        for _ in 0..count {
            self.length()?;
        }
        Ok(())
    }

    /// Skips what modules attach to a key: a count, then for each module 4 bytes that name it, and its values.
    pub fn skip_metadata(&mut self) -> Result<(), RdbError> {
        self.each(|input| {
            input.skip(4)?;
            input.skip_values()
        })
    }

    /// Skips a stream, of which there are five encodings.
    fn skip_stream(&mut self, encoding: u8) -> Result<(), RdbError> {
        let since = |first: u8| u32::from(encoding >= first);
        // Entries: the first one's ID, and a compact list.
        self.each(Self::skip_pair)?;
        // Their number and the last ID; the first ID, the highest that was deleted, and how many were ever added.
        self.skip_lengths(3 + 5 * since(2))?;
        // Groups of consumers.
        self.each(|input| {
            input.skip_string()?;
            // The last ID that was delivered, and how many were read.
            input.skip_lengths(2 + since(2))?;
            // Entries that are not acknowledged: ID, time and number of deliveries.
            input.each(|input| {
                input.skip(16 + 8)?;
                input.skip_lengths(1)
            })?;
            // Consumers: name, when it was seen, when it was active, IDs that it has not acknowledged.
            input.each(|input| {
                input.skip_string()?;
                input.skip(8 + 8 * u64::from(since(3)))?;
                input.each(|input| input.skip(16))
            })?;
            // IDs that were given back.
            if encoding >= 5 {
                input.each(|input| input.skip(16))?;
            }
            Ok(())
        })?;
        if encoding >= 4 {
            // How long and how many IDs of messages are remembered; by producer, each with its entry's ID; two counts.
            self.skip_lengths(2)?;
            self.each(|input| {
                input.skip_string()?;
                input.each(|input| {
                    input.skip_string()?;
                    input.skip_lengths(2)
                })
            })?;
            self.skip_lengths(2)?;
        }
        Ok(())
    }
}
