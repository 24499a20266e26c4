//! Bytes of a client's, made safe to show to people: they may be any, and any number of them.

/// How many bytes are shown.
const MOST: usize = 64;

/// The beginning of `bytes` as one line of text; dots stand for the rest.
pub fn shown(bytes: &[u8]) -> String {
    let beginning = bytes.get(..MOST).unwrap_or(bytes).escape_ascii();
    let rest = if bytes.len() > MOST { "..." } else { "" };
    format!("{beginning}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of 100 MB would be copied several times over for a line that nobody reads to its end.
    #[test]
    fn only_the_beginning_is_shown() {
        assert_eq!(shown(b""), "");
        assert_eq!(shown(b"a\nkey\xff"), r"a\nkey\xff");
        assert_eq!(shown(&[b'a'; MOST]), "a".repeat(64));
        assert_eq!(shown(&[b'a'; MOST + 1]), "a".repeat(64) + "...");
        assert_eq!(shown(&[0; 1 << 20]), r"\x00".repeat(64) + "...");
    }
}
