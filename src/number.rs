//! Numbers as people type and read them. Pure.

/// Parses a whole number in decimal form, without plus sign, spaces or leading zeros. A number of more than 128 bits
/// is replaced by the nearest that fits, so that it is reported as out of range and not as no number.
pub fn whole(bytes: &[u8]) -> Option<i128> {
    let (digits, farthest) = match bytes {
        [b'-', digits @ ..] => (digits, i128::MIN),
        digits => (digits, i128::MAX),
    };
    let canonical = match digits {
        [] => false,
        [b'0', ..] => bytes == b"0",
        digits => digits.iter().all(u8::is_ascii_digit),
    };
    let text = canonical.then(|| str::from_utf8(bytes).ok()).flatten()?;
    let short: Option<i64> = text.parse().ok();
    Some(short.map_or_else(|| text.parse().unwrap_or(farthest), i128::from))
}

/// The fewest digits that read back as this number, as people write them: 0.01, 2.5e-7.
pub fn short(value: f64) -> String {
    let scientific = format!("{value:e}");
    let exponent = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok());
    if exponent.is_none_or(|exponent: i32| (-4..16).contains(&exponent)) {
        value.to_string()
    } else {
        scientific
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is too large is not called no number, for which users look for a typing error.
    #[test]
    fn whole_numbers_are_decimal_and_have_any_size() {
        let read: [(&str, i128); 9] = [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("9223372036854775808", 1 << 63),
            ("18446744073709551616", 1 << 64),
            ("-9223372036854775809", -(1 << 63) - 1),
            ("170141183460469231731687303715884105727", i128::MAX),
            ("170141183460469231731687303715884105728", i128::MAX),
            ("-999999999999999999999999999999999999999999", i128::MIN),
        ];
        for (text, number) in read {
            assert_eq!(whole(text.as_bytes()), Some(number), "{text}");
        }
        for text in [
            "", "-", "-0", "00", "01", "-01", "+1", " 1", "1 ", "1e3", "1.0", "0x1", "1_0", "one", "--1",
        ] {
            assert_eq!(whole(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(whole(b"1\0"), None);
        assert_eq!(whole(b"\xff"), None);
    }

    /// Digits such as those of 0.01000000000000000021 look like a measurement.
    #[test]
    fn doubles_are_written_with_the_fewest_digits_that_mean_them() {
        let written = [
            (0.01, "0.01"),
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.00005, "5e-5"),
            (1e-30, "1e-30"),
            (1e-300, "1e-300"),
            (3.100619760942893e-11, "3.100619760942893e-11"),
            (9.9625, "9.9625"),
            (1e15, "1000000000000000"),
            (1e16, "1e16"),
            (-0.5, "-0.5"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in written {
            assert_eq!(short(value), text);
            assert_eq!(text.parse(), Ok(value), "{text}");
        }
    }
}
