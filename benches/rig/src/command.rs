//! One command of the rig to a client: `verb key=value key=value ...` in one line, values
//! percent-encoded. The client answers with one line: a JSON object, or `ERR CLASS MESSAGE` with the
//! message percent-encoded. docs/benchmarks.md has the commands; Hadoop's own client speaks the same
//! (`io.libdfs.testkit.BenchClient`).
use std::fmt;

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) verb: String,
    pub(crate) args: Vec<(String, String)>,
}

impl Command {
    pub(crate) fn new(verb: &str) -> Command {
        Command { verb: verb.to_owned(), args: Vec::new() }
    }

    /// With one more argument.
    pub(crate) fn with(mut self, key: &str, value: impl fmt::Display) -> Command {
        self.args.push((key.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn parse(line: &str) -> Result<Command, String> {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().ok_or("an empty command")?);
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| format!("expected key=value, not {word}"))?;
            command.args.push((key.to_owned(), decode(value)?));
        }
        Ok(command)
    }

    pub(crate) fn text(&self, key: &str) -> Result<&str, String> {
        let found = self.args.iter().find(|(k, _)| k == key);
        found.map(|(_, v)| v.as_str()).ok_or_else(|| format!("{} needs {key}=", self.verb))
    }

    pub(crate) fn number(&self, key: &str) -> Result<u64, String> {
        let text = self.text(key)?;
        text.parse().map_err(|_| format!("{} {key}={text}: not a number", self.verb))
    }

    /// A number, or `otherwise` if it is not given.
    pub(crate) fn number_or(&self, key: &str, otherwise: u64) -> Result<u64, String> {
        if self.args.iter().any(|(k, _)| k == key) { self.number(key) } else { Ok(otherwise) }
    }

    pub(crate) fn size(&self, key: &str) -> Result<usize, String> {
        usize::try_from(self.number(key)?).map_err(|e| format!("{} {key}: {e}", self.verb))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verb)?;
        for (key, value) in &self.args {
            write!(f, " {key}={}", encode(value))?;
        }
        Ok(())
    }
}

/// Percent-encodes what could not stand in a value.
pub(crate) fn encode(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'%' && byte != b'+' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Undoes [`encode`].
pub(crate) fn decode(value: &str) -> Result<String, String> {
    let bad = || format!("bad percent-encoding in {value}");
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(bytes.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
        out.push(high << 4 | low);
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let command = Command::new("hflush").with("path", "/a b%c+=é").with("n", 10);
        let line = command.to_string();
        assert_eq!(Command::parse(&line).unwrap(), command, "{line}");
        assert_eq!(command.size("n").unwrap(), 10);
        assert!(command.number("path").is_err() && command.text("len").is_err());
        for bad in ["", "x y", "x y=%4", "x y=%zz"] {
            assert!(Command::parse(bad).is_err(), "{bad}");
        }
    }
}
