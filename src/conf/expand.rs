//! `${...}` in values.

/// Substitutions that one value may need, minus one, as in Java.
const SUBSTITUTIONS_MAX: usize = 20;
/// Bytes of an expanded value: substitutions multiply, and no real value is near.
const EXPANDED_BYTES_MAX: usize = 1024 * 1024;

/// Replaces the leftmost `${name}` by `lookup(name)` until none is left or one is unknown; an
/// unknown one stays, with all that follows.
///
/// # Errors
/// The reason: too many substitutions (as for keys that refer to each other), a result that is
/// too long, or what `lookup` reports.
// Hadoop 3.4 Configuration#substituteVars: leftmost first, so a result may form a new name; a
// value that contains its own reference gives the original text.
pub(super) fn expand(
    text: &str,
    lookup: impl Fn(&str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let mut current = text.to_owned();
    for _ in 0..SUBSTITUTIONS_MAX {
        let Some((start, end)) = find_variable(&current) else {
            return Ok(current);
        };
        let (Some(before), Some(name), Some(after)) =
            (current.get(..start - 2), current.get(start..end), current.get(end + 1..))
        else {
            return Ok(current);
        };
        let Some(value) = lookup(name)? else {
            return Ok(current);
        };
        if value.contains(&format!("${{{name}}}")) {
            return Ok(text.to_owned());
        }
        if before.len() + value.len() + after.len() > EXPANDED_BYTES_MAX {
            return Err(format!("longer than {EXPANDED_BYTES_MAX} bytes when expanded"));
        }
        current = [before, &value, after].concat();
    }
    Err(format!("variable substitution depth too large: {SUBSTITUTIONS_MAX}"))
}

/// Byte range of the first non-empty name between `${` and `}` without a space or `$` in it.
// Hadoop 3.4 Configuration#findSubVariable: the scan goes on behind the character that spoilt a
// candidate, so in `${${b}}` the inner name is found.
fn find_variable(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    'candidates: while let Some(at) = text.get(from..)?.find("${").map(|at| from + at) {
        let start = at + 2;
        for (i, byte) in bytes.iter().enumerate().skip(start) {
            match byte {
                b'}' if i > start => return Some((start, i)),
                b'$' => {
                    // This `$` may open the next candidate.
                    from = i;
                    continue 'candidates;
                }
                b'}' | b' ' => {
                    from = i + 1;
                    continue 'candidates;
                }
                _ => {}
            }
        }
        return None;
    }
    None
}

/// The value of `env.X`, `env.X-default` or `env.X:-default`, given without the `env.`.
// Hadoop 3.4 Configuration#substituteVars: `-` serves for an unset variable, `:-` for an empty
// one too, and the first of either in the name decides.
pub(super) fn environment(
    spec: &str,
    variable: impl Fn(&str) -> Result<Option<String>, String>,
) -> Result<Option<String>, String> {
    let Some(dash) = spec.find('-') else {
        return variable(spec);
    };
    let (name, default) = (spec.get(..dash).unwrap_or(spec), spec.get(dash + 1..).unwrap_or(""));
    let (name, empty_too) = match name.strip_suffix(':') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let value = variable(name)?.filter(|value| !(empty_too && value.is_empty()));
    Ok(Some(value.unwrap_or_else(|| default.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)], text: &str) -> Result<String, String> {
        expand(text, |name| {
            Ok(pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        })
    }

    /// The cases and results are those of Hadoop 3.5's `Configuration#get`.
    #[test]
    fn substitution_is_javas() {
        for (pairs, text, result) in [
            (&[("c", "1")][..], "${c}", "1"),
            (&[("c", "1")], "${b} ${c}", "${b} ${c}"),
            (&[("c", "1")], "${c} ${b}", "1 ${b}"),
            (&[("b", "c"), ("c", "1")], "${${b}}", "1"),
            (&[("b", "c")], "${}${b}", "${}c"),
            (&[("b", "c")], "${x y}${b}", "${x y}c"),
            (&[("b", "c")], "${b", "${b"),
            (&[("b", "c")], "$${b}", "$c"),
            (&[("a", "x${a}")], "x${a}", "x${a}"),
            (&[("é", "ü")], "ä${é}ö", "äüö"),
            (&[], "", ""),
            (&[], "${", "${"),
            (&[], "{}", "{}"),
        ] {
            assert_eq!(with(pairs, text).as_deref(), Ok(result), "{text}");
        }
    }

    #[test]
    fn nineteen_substitutions_pass_and_twenty_fail() {
        let text = "${b}".repeat(19);
        assert_eq!(with(&[("b", "c")], &text), Ok("c".repeat(19)));
        let text = "${b}".repeat(20);
        let error = with(&[("b", "c")], &text).unwrap_err();
        assert_eq!(error, "variable substitution depth too large: 20");
        assert!(with(&[("a", "${b}"), ("b", "${a}")], "${a}").is_err());
    }

    #[test]
    fn growth_is_bounded() {
        let big = "x".repeat(EXPANDED_BYTES_MAX / 2);
        let error = with(&[("b", &big)], "${b}${b}${b}").unwrap_err();
        assert!(error.contains("longer than"), "{error}");
    }

    #[test]
    fn environment_defaults_are_javas() {
        let variable = |name: &str| {
            Ok(match name {
                "FULL" => Some("f".to_owned()),
                "EMPTY" => Some(String::new()),
                _ => None,
            })
        };
        for (spec, value) in [
            ("FULL", Some("f")),
            ("FULL-d", Some("f")),
            ("FULL:-d", Some("f")),
            ("EMPTY", Some("")),
            ("EMPTY-d", Some("")),
            ("EMPTY:-d", Some("d")),
            ("NONE", None),
            ("NONE-d", Some("d")),
            ("NONE:-d-e", Some("d-e")),
            ("NONE-", Some("")),
        ] {
            assert_eq!(environment(spec, variable), Ok(value.map(str::to_owned)), "{spec}");
        }
    }
}
