//! Texts for people: a client's bytes, escaped and shortened because they may be any, and numbers of bytes with units.

/// The most bytes that are shown.
const MOST: usize = 64;

/// The beginning of `bytes` as one line of text; dots stand for the rest.
pub fn shown(bytes: &[u8]) -> String {
    let beginning = bytes.get(..MOST).unwrap_or(bytes).escape_ascii();
    let rest = if bytes.len() > MOST { "..." } else { "" };
    format!("{beginning}{rest}")
}

/// A number of bytes with a unit for people, and exactly for their tools.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut rounded, mut unit) = (bytes as f64 / 1024.0, 0);
    if rounded < 1.0 {
        return format!("{bytes} bytes");
    }
    // A number that would round to 1024.0 is 1.0 of the next unit.
    while rounded >= 1023.95 && unit + 1 < UNITS.len() {
        rounded /= 1024.0;
        unit += 1;
    }
    format!("{rounded:.1} {} ({bytes} bytes)", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator reads a limit in the unit that it was typed in.
    #[test]
    fn sizes_have_units() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1024), "1.0 KiB (1024 bytes)");
        assert_eq!(size(1_048_575), "1.0 MiB (1048575 bytes)");
        assert_eq!(size(63_963_136), "61.0 MiB (63963136 bytes)");
        assert_eq!(size(u64::MAX), "16.0 EiB (18446744073709551615 bytes)");
    }

    /// Of a key name of 100 MB only what is shown is copied.
    #[test]
    fn only_the_beginning_is_shown() {
        assert_eq!(shown(b""), "");
        assert_eq!(shown(b"a\nkey\xff"), r"a\nkey\xff");
        assert_eq!(shown(&[b'a'; MOST]), "a".repeat(64));
        assert_eq!(shown(&[b'a'; MOST + 1]), "a".repeat(64) + "...");
        assert_eq!(shown(&[0; 1 << 20]), r"\x00".repeat(64) + "...");
    }
}
