//! The words of a command that is propagated.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::sync::OnceLock;

use crate::server::{Arg, OwnedString};

/// The most bytes of all words that are no constants: the two shares of valkey-bloom have up to 345 each.
const MOST_BYTES: usize = 768;

/// The most words: those of valkey-bloom.
const MOST_WORDS: usize = 12;
/// The most of them that are no constants.
pub(crate) const MOST_WRITTEN: usize = 5;

/// A word that is the same in each command. Its string is made once, since each allocation shows in a short command.
pub struct Constant(&'static str, OnceLock<OwnedString>);

impl Constant {
    pub(crate) const fn new(word: &'static str) -> Self {
        Self(word, OnceLock::new())
    }

    pub(crate) fn arg(&'static self) -> Arg<'static> {
        self.1.get_or_init(|| OwnedString::new(self.0.as_bytes())).arg()
    }
}

macro_rules! constant {
    ($word:literal) => {{
        static WORD: $crate::call::words::Constant = $crate::call::words::Constant::new($word);
        &WORD
    }};
}
pub(crate) use constant;

/// A word of a command.
#[derive(Clone, Copy)]
pub enum Word<'a> {
    /// One that is the same in each command.
    Constant(&'static Constant),
    /// One that was written for this command.
    Written(&'a [u8]),
}

impl<'a> Word<'a> {
    /// The bytes of the word.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Constant(constant) => constant.0.as_bytes(),
            Self::Written(bytes) => bytes,
        }
    }
}

/// A command that is propagated, with the words between its key and its items.
pub struct Words {
    /// The name of the command.
    pub command: &'static CStr,
    /// The words that are no constants, end to end.
    text: [u8; MOST_BYTES],
    /// Bytes of the text that are used.
    length: usize,
    /// For each word the constant that it is, or where in the text it begins.
    list: [(Option<&'static Constant>, usize); MOST_WORDS],
    count: usize,
}

impl Words {
    pub(crate) fn of(command: &'static CStr) -> Self {
        Self {
            command,
            text: [0; MOST_BYTES],
            length: 0,
            list: [(None, 0); MOST_WORDS],
            count: 0,
        }
    }

    /// Begins a word that is a constant.
    pub(crate) fn with(&mut self, word: &'static Constant) -> &mut Self {
        self.begin(Some(word))
    }

    /// Begins a word, to which the other functions append.
    pub(crate) fn word(&mut self) -> &mut Self {
        self.begin(None)
    }

    #[inline]
    fn begin(&mut self, word: Option<&'static Constant>) -> &mut Self {
        if let Some(place) = self.list.get_mut(self.count) {
            *place = (word, self.length);
            self.count += 1;
        }
        self
    }

    /// Appends a share of 1 as valkey-bloom writes it.
    pub(crate) fn share(&mut self, share: f64) -> &mut Self {
        self.put_shown(format_args!("{share}"))
    }

    /// Appends bytes, two hexadecimal digits each.
    pub(crate) fn hex(&mut self, bytes: &[u8]) -> &mut Self {
        for byte in bytes {
            self.put_shown(format_args!("{byte:02x}"));
        }
        self
    }

    fn put_shown(&mut self, shown: fmt::Arguments<'_>) -> &mut Self {
        // Writing here never fails.
        let _ = self.write_fmt(shown);
        self
    }

    /// Appends an error rate in the fewest digits that mean exactly this rate. The standard library's formatting takes
    /// several times as long for the rates that people choose, which have one digit.
    pub(crate) fn rate(&mut self, rate: f64) -> &mut Self {
        let mut power = 1.0;
        for exponent in 1..=22 {
            power *= 10.0;
            let digit = rate * power;
            if digit < 1.0 {
                continue;
            }
            // Digit and power are exact, so that their quotient is what the text means.
            if digit < 10.0 && digit.fract() == 0.0 && digit / power == rate {
                return self.number(digit as u64).bytes(b"e-").number(exponent);
            }
            break;
        }
        self.put_shown(format_args!("{rate:e}"))
    }

    /// Appends a whole number. The standard library's formatting takes several times as long.
    pub(crate) fn number(&mut self, mut number: u64) -> &mut Self {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.bytes(&digits[first..])
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.length + bytes.len();
        if let Some(place) = self.text.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
        self
    }

    /// The words.
    pub fn list(&self) -> impl Iterator<Item = Word<'_>> {
        let list = &self.list[..self.count];
        list.iter()
            .enumerate()
            .map(|(at, &(constant, start))| match constant {
                Some(constant) => Word::Constant(constant),
                None => {
                    let end = list.get(at + 1).map_or(self.length, |&(_, next)| next);
                    Word::Written(&self.text[start..end])
                }
            })
    }
}

impl Write for Words {
    /// Appends to the last word.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A rate has one text, the shortest, whatever wrote it.
    #[test]
    fn rates_have_the_digits_of_the_standard_library() {
        let rate = prop_oneof![
            0.0..1.0,
            (1..=9_u32, 1..330_u32)
                .prop_map(|(digit, exponent)| format!("{digit}e-{exponent}").parse().unwrap()),
            (1..=9_u32, 1..30_i32, -1..=1_i64).prop_map(|(digit, exponent, off)| {
                let rate: f64 = format!("{digit}e-{exponent}").parse().unwrap();
                f64::from_bits(rate.to_bits().wrapping_add_signed(off))
            }),
        ];
        proptest!(|(rate in rate)| {
            let mut words = Words::of(c"");
            words.word().rate(rate);
            let expected = format!("{rate:e}");
            prop_assert_eq!(words.list().next().map(Word::bytes), Some(expected.as_bytes()));
        });
    }
}
