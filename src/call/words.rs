//! The words of a command that is propagated.

use std::fmt::{self, Write};

/// The most bytes of all words together: a rate in full has 345 digits, and the words of valkey-bloom have two.
const MOST_BYTES: usize = 1024;

/// The most words: those of valkey-bloom.
pub const MOST_WORDS: usize = 12;

/// Words of a command that is propagated, end to end. They take no memory of the server: most commands that make a
/// filter are so short that each allocation shows.
#[derive(Clone, Debug)]
pub struct Words {
    text: [u8; MOST_BYTES],
    /// Bytes of the text that are used.
    length: usize,
    /// Where each word begins.
    starts: [usize; MOST_WORDS],
    count: usize,
}

impl Words {
    /// No words.
    pub const NONE: Self = Self {
        text: [0; MOST_BYTES],
        length: 0,
        starts: [0; MOST_WORDS],
        count: 0,
    };

    /// Appends a word.
    pub fn with(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        self.begin().put(word.as_ref());
        self
    }

    /// Appends a whole number.
    pub fn with_number(&mut self, number: u64) -> &mut Self {
        self.begin().put_number(number, false);
        self
    }

    /// Appends an error rate in the fewest digits that mean exactly this rate.
    pub fn with_rate(&mut self, rate: f64) -> &mut Self {
        self.begin().put_shown(format_args!("{rate:e}"));
        self
    }

    /// Appends a share of 1 as valkey-bloom writes it.
    pub fn with_share(&mut self, share: f64) -> &mut Self {
        self.begin().put_shown(format_args!("{share}"));
        self
    }

    /// Appends a colon and a whole number to the last word.
    pub fn and_number(&mut self, number: u64) -> &mut Self {
        self.put_number(number, true);
        self
    }

    /// Appends a colon and a double, in the fewest digits that mean it, to the last word.
    pub fn and_rate(&mut self, rate: f64) -> &mut Self {
        self.put_shown(format_args!(":{rate:e}"));
        self
    }

    /// Appends a colon and bytes, two hexadecimal digits each, to the last word.
    pub fn and_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.put(b":");
        for byte in bytes {
            self.put_shown(format_args!("{byte:02x}"));
        }
        self
    }

    fn begin(&mut self) -> &mut Self {
        if let Some(start) = self.starts.get_mut(self.count) {
            *start = self.length;
            self.count += 1;
        }
        self
    }

    fn put_shown(&mut self, shown: fmt::Arguments<'_>) {
        // Writing here never fails.
        let _ = self.write_fmt(shown);
    }

    /// The standard library's formatting takes several times as long.
    fn put_number(&mut self, mut number: u64, after_colon: bool) {
        let mut digits = [0; 21];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        if after_colon {
            first -= 1;
            digits[first] = b':';
        }
        self.put(&digits[first..]);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(place) = self.text.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
    }

    /// The words.
    pub fn list(&self) -> impl Iterator<Item = &[u8]> {
        let starts = &self.starts[..self.count];
        let ends = starts.iter().skip(1).chain(std::iter::once(&self.length));
        starts
            .iter()
            .zip(ends)
            .map(|(&start, &end)| &self.text[start..end])
    }
}

impl Write for Words {
    /// Appends to the last word.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}
