//! Parsers of single values. Each error is only the reason; the caller adds key, value and origin.
use super::keys::{Negative, TimeUnit};

/// Times above this (ten years in ms) count as this: Java's `Long.MAX_VALUE` for "for ever" stays
/// usable, and no deadline overflows.
const TIME_MS_MAX: i128 = 10 * 365 * 24 * 3600 * 1000;

/// A whole number: decimal with an optional sign, or hexadecimal after `0x`.
// Hadoop 3.4 Configuration#getLong: hexadecimal is read, a sign may precede it.
pub(super) fn integer(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let parsed = match hex {
        Some(digits) if digits.starts_with(['+', '-']) => None,
        Some(digits) => i64::from_str_radix(digits, 16).ok().map(|n| if negative { -n } else { n }),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| "not a whole number".to_owned())
}

/// A whole number within bounds.
pub(super) fn count(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = integer(text)?;
    match u32::try_from(number) {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("not between {min} and {max}")),
    }
}

/// Bytes within bounds: a whole number with an optional binary prefix letter.
// Hadoop 3.4 StringUtils.TraditionalBinaryPrefix#string2long: one letter in either case, directly
// after the digits.
pub(super) fn bytes(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let text = text.trim();
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let (digits, shift) = match text.char_indices().last() {
        Some((at, letter)) if !hex => match letter.to_ascii_lowercase() {
            'k' => (&text[..at], 10),
            'm' => (&text[..at], 20),
            'g' => (&text[..at], 30),
            't' => (&text[..at], 40),
            'p' => (&text[..at], 50),
            'e' => (&text[..at], 60),
            _ => (text, 0),
        },
        _ => (text, 0),
    };
    if digits.ends_with(char::is_whitespace) {
        return Err("space before the unit".to_owned());
    }
    let number = integer(digits)
        .map_err(|_| "not a number of bytes (units: k, m, g, t, p, e)".to_owned())?;
    let total = i128::from(number) << shift;
    match u64::try_from(total) {
        Ok(total) if (min..=max).contains(&total) => Ok(total),
        _ => Err(format!("not between {min} and {max} bytes")),
    }
}

/// A time in ms: a whole number with an optional unit. Part of a millisecond counts as a whole
/// one, since 0 often means "no limit".
// Hadoop 3.4 Configuration#getTimeDurationHelper: units in any case, directly after the digits.
// Differs: Java truncates (1500us are 1 ms, 1ns is 0).
pub(super) fn millis(text: &str, unit: TimeUnit, negative: Negative) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let plain_ns = match unit {
        TimeUnit::Millis => 1_000_000,
        TimeUnit::Seconds => 1_000_000_000,
    };
    const UNITS: [(&str, i128); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60 * 1_000_000_000),
        ("h", 3600 * 1_000_000_000),
        ("d", 24 * 3600 * 1_000_000_000),
    ];
    let hex = lower.starts_with("0x");
    let with_unit = UNITS.iter().find_map(|(suffix, ns)| {
        let digits = if hex { None } else { lower.strip_suffix(suffix) };
        digits.map(|digits| (digits, *ns))
    });
    let (digits, ns) = with_unit.unwrap_or((lower.as_str(), plain_ns));
    if digits.ends_with(char::is_whitespace) {
        return Err("space before the unit".to_owned());
    }
    let number =
        integer(digits).map_err(|_| "not a time (units: ns, us, ms, s, m, h, d)".to_owned())?;
    if number < 0 {
        return match negative {
            Negative::Zero => Ok(0),
            Negative::Refused => Err("negative".to_owned()),
        };
    }
    // At most 2^63 * 2^47: far inside 128 bits.
    let ms = (i128::from(number) * ns + 999_999) / 1_000_000;
    u64::try_from(ms.min(TIME_MS_MAX)).map_err(|_| "out of range".to_owned())
}

/// `true` or `false` in any case; `None` for blank, which Java reads as unset.
// Differs: Java takes the default for any other word (Configuration#getBoolean); a typing error
// should not pass for a setting.
pub(super) fn flag(text: &str) -> Result<Option<bool>, String> {
    let text = text.trim();
    if text.is_empty() {
        Ok(None)
    } else if text.eq_ignore_ascii_case("true") {
        Ok(Some(true))
    } else if text.eq_ignore_ascii_case("false") {
        Ok(Some(false))
    } else {
        Err("neither true nor false".to_owned())
    }
}

/// Index of the word among `words`.
pub(super) fn choice(text: &str, words: &[&str], any_case: bool) -> Result<usize, String> {
    let text = text.trim();
    let same = |word: &&str| *word == text || (any_case && word.eq_ignore_ascii_case(text));
    words.iter().position(same).ok_or_else(|| format!("none of {}", words.join(", ")))
}

/// A umask as the mode bits to clear.
// Hadoop 3.4 UmaskParser, PermissionParser: octal needs three digits and allows zeroes before
// them; a symbolic mask names the bits that stay, classes that it leaves out keep none, a later
// clause for a class replaces an earlier one, and `-` keeps nothing, as it subtracts from nothing.
pub(super) fn umask(text: &str) -> Result<u32, String> {
    let bad = || "neither an octal umask of three digits nor a symbolic one".to_owned();
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        let mode = u32::from_str_radix(text, 8).map_err(|_| bad())?;
        return if text.len() >= 3 && mode <= 0o777 { Ok(mode) } else { Err(bad()) };
    }
    let mut kept = [0; 3];
    for clause in text.split(',') {
        let clause = clause.trim();
        let classes_end = clause.find(|c| !"ugoa".contains(c)).ok_or_else(bad)?;
        let (classes, rest) = clause.split_at(classes_end);
        let rights = rest.trim_start_matches(['+', '-', '=']);
        let (operators, _) = rest.split_at(rest.len() - rights.len());
        let operator = operators.chars().last().ok_or_else(bad)?;
        let mut mode = 0;
        for right in rights.chars() {
            mode |= match right {
                'r' => 4,
                'w' => 2,
                'x' => 1,
                _ => return Err(bad()),
            };
        }
        let mode = if operator == '-' { 0 } else { mode };
        let everybody = classes.is_empty() || classes.contains('a');
        for (slot, class) in kept.iter_mut().zip(['u', 'g', 'o']) {
            if everybody || classes.contains(class) {
                *slot = mode;
            }
        }
    }
    let [user, group, other] = kept;
    Ok(!(user << 6 | group << 3 | other) & 0o777)
}

/// Pairs of sleep in ms and tries.
// Hadoop 3.4 MultipleLinearRandomRetry#parseCommaSeparatedString. Differs: Java falls back to the
// default after a warning; all numbers must be positive in both.
pub(super) fn retry_spec(text: &str) -> Result<Vec<(u64, u32)>, String> {
    const REASON: &str = "not pairs of sleep in ms and tries, all above 0: ms,tries,ms,tries...";
    let numbers: Vec<u32> = text
        .split(',')
        .map(|part| count(part, 1, i32::MAX as u32))
        .collect::<Result<_, _>>()
        .map_err(|_| REASON.to_owned())?;
    match numbers.as_chunks::<2>() {
        (pairs, []) => Ok(pairs.iter().map(|[ms, tries]| (u64::from(*ms), *tries)).collect()),
        _ => Err(REASON.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, number) in
            [("1", 1), (" 5 ", 5), ("+5", 5), ("-1", -1), ("0x10", 16), ("-0XfF", -255)]
        {
            assert_eq!(integer(text), Ok(number), "{text}");
        }
        for text in ["", " ", "1.5", "4k", "0x", "0x-1", "--1", "1 2", "9223372036854775808"] {
            assert!(integer(text).is_err(), "{text}");
        }
        assert_eq!(count("3", 1, 3), Ok(3));
        for text in ["0", "4", "-1", "4294967297"] {
            assert_eq!(count(text, 1, 3), Err("not between 1 and 3".to_owned()), "{text}");
        }
    }

    #[test]
    fn sizes_take_one_binary_prefix() {
        let bytes = |text| bytes(text, 0, i64::MAX as u64);
        for (text, number) in [
            ("0", 0),
            ("4k", 4096),
            ("4K", 4096),
            ("128m", 128 << 20),
            ("1g", 1 << 30),
            ("2T", 2 << 40),
            ("3p", 3 << 50),
            ("7e", 7 << 60),
            (" 5 ", 5),
            ("0x1e", 30),
        ] {
            assert_eq!(bytes(text), Ok(number), "{text}");
        }
        for text in ["", "k", "4kb", "4 k", "1.5k", "-1", "-4k", "8e", "9e", "4é", "99999999999e"]
        {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(super::bytes("9", 10, 20), Err("not between 10 and 20 bytes".to_owned()));
    }

    #[test]
    fn times_take_a_unit() {
        let ms = |text| millis(text, TimeUnit::Millis, Negative::Refused);
        for (text, number) in [
            ("250", 250),
            ("100ms", 100),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2H", 7_200_000),
            ("1d", 86_400_000),
            ("1500us", 2),
            ("1ns", 1),
            ("0ns", 0),
            (" +5s ", 5000),
            ("0x10", 16),
            ("9223372036854775807", TIME_MS_MAX as u64),
            ("9223372036854775807d", TIME_MS_MAX as u64),
        ] {
            assert_eq!(ms(text), Ok(number), "{text}");
        }
        for text in ["", "s", "30 s", "4k", "1.5s", "-5s", "-1", "1min", "5sec"] {
            assert!(ms(text).is_err(), "{text}");
        }
        assert_eq!(millis("30", TimeUnit::Seconds, Negative::Refused), Ok(30_000));
        assert_eq!(millis("1500ms", TimeUnit::Seconds, Negative::Refused), Ok(1500));
        assert_eq!(millis("-1", TimeUnit::Millis, Negative::Zero), Ok(0));
    }

    #[test]
    fn flags_and_words() {
        assert_eq!(flag(" TRUE "), Ok(Some(true)));
        assert_eq!(flag("False"), Ok(Some(false)));
        assert_eq!(flag("  "), Ok(None));
        assert!(flag("yes").is_err() && flag("1").is_err());
        assert_eq!(choice(" B ", &["A", "B"], false), Ok(1));
        assert_eq!(choice("b", &["A", "B"], false), Err("none of A, B".to_owned()));
        assert_eq!(choice("b", &["A", "B"], true), Ok(1));
    }

    /// Every case was put to Hadoop 3.5's `FsPermission#getUMask`.
    #[test]
    fn umasks_are_javas() {
        for (text, mode) in [
            ("022", 0o022),
            ("0022", 0o022),
            (" 077 ", 0o077),
            ("u=rwx,g=rx,o=", 0o027),
            ("u=rwx,g=rx,o=rx", 0o022),
            ("g-w", 0o777),
            ("g+w", 0o757),
            ("a+rwx", 0),
            ("ugo=r", 0o333),
            ("u=rwx", 0o077),
            ("=rwx", 0),
            ("o-rwx,g=r", 0o737),
            ("u=r,u=w", 0o577),
            ("+-x", 0o777),
            ("a-rwx", 0o777),
            ("g=rxw", 0o707),
            ("u+r,u+w", 0o577),
        ] {
            assert_eq!(umask(text), Ok(mode), "{text}");
        }
        for text in ["22", "1022", "+022", "u=rwxX", "", "rwx", "u=rwx g=rx", "888", "u", "é=r"] {
            assert!(umask(text).is_err(), "{text}");
        }
    }

    #[test]
    fn retry_specs_are_pairs() {
        assert_eq!(retry_spec("10000,6,60000,10"), Ok(vec![(10_000, 6), (60_000, 10)]));
        assert_eq!(retry_spec(" 1 , 2 "), Ok(vec![(1, 2)]));
        for text in ["", "1", "1,2,3", "0,1", "1,0", "-1,2", "a,b", "1,2,"] {
            assert!(retry_spec(text).is_err(), "{text}");
        }
    }
}
