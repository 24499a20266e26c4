//! Arguments of commands as bytes: each is a byte below 128, its length, and then its own bytes; or the number of
//! one of [`WORDS`], plus 128.

use bloom::call::args::Word;

use crate::tape::Tape;

/// Words that commands know, and numbers at the ends of ranges.
pub const WORDS: [&str; 67] = [
    "ITEMS",
    "CAPACITY",
    "ERROR",
    "EXPANSION",
    "NOCREATE",
    "NONSCALING",
    "GROWING",
    "SEED",
    "LAYOUT",
    "BLOCKED",
    "CLASSIC",
    "SIZE",
    "FILTERS",
    "FULL",
    "items",
    "key",
    "",
    "0",
    "1",
    "2",
    "100",
    "1000",
    "32768",
    "32769",
    "1099511627776",
    "1099511627777",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "-9223372036854775808",
    "-1",
    "-0",
    "01",
    "0.5",
    "0.01",
    "1e-9",
    "1e-300",
    "5e-324",
    "nan",
    "inf",
    "1gb",
    "max-filter-bytes",
    "error_rate",
    "\r\n",
    "LINES",
    "WIDTH",
    "PREFIXED",
    "COUNT",
    "NX",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "WINDOW",
    "SLICES",
    "REFRESH",
    "AT",
    "OVERRIDE",
    "VALKEY",
    "TIGHTENING",
    "VALIDATESCALETO",
    "a seed of 32 bytes: \0\n and more.",
    "4294967295",
    "+5",
    "MAXSCALEDCAPACITY",
    "SPEC1:g:1e-2:100:2:7:0",
    "SPEC1:w:1e-2:100:2:7:0:60:8:1:1800000000000",
];

/// The arguments.
pub fn decode<'a>(tape: &mut Tape<'a>) -> Vec<Word<'a>> {
    let mut words = Vec::new();
    while !tape.is_over() {
        let byte = tape.u8();
        let known = WORDS[usize::from(byte & 0x7f) % WORDS.len()];
        words.push(Word(if byte < 0x80 {
            tape.bytes(byte.into())
        } else {
            known.as_bytes()
        }));
    }
    words
}

/// The bytes from which [`decode`] makes the arguments in `line`, which are separated by spaces.
pub fn encode(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in line.split(' ') {
        match WORDS.iter().position(|known| *known == word) {
            Some(known) => bytes.push(0x80 + known as u8),
            None => {
                bytes.push(word.len() as u8);
                bytes.extend(word.as_bytes());
            }
        }
    }
    bytes
}
