//! The little JSON that clients answer with and reports are written in.
use std::fmt;

/// A JSON value; an object keeps the order of its members.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A member of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// A numeric member of an object.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        match self.get(key) {
            Some(Json::Number(n)) => Some(*n),
            _ => None,
        }
    }

    /// Parses one value and nothing behind it.
    pub(crate) fn parse(text: &str) -> Result<Json, String> {
        let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
        let value = parser.value(0)?;
        parser.space();
        if parser.at < parser.bytes.len() {
            return Err(parser.error("something follows the value"));
        }
        Ok(value)
    }
}

impl From<f64> for Json {
    fn from(n: f64) -> Json {
        if n.is_finite() { Json::Number(n) } else { Json::Null }
    }
}

impl From<u64> for Json {
    fn from(n: u64) -> Json {
        Json::Number(n as f64)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

/// An object of these members.
pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Number(n) => write!(f, "{n}"),
            Json::Text(text) => write_text(f, text),
            Json::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (i, (key, value)) in members.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    write_text(f, key)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Deepest nesting that is read.
const DEPTH_MAX: u32 = 32;

impl Parser<'_> {
    fn error(&self, what: &str) -> String {
        format!("bad JSON at byte {}: {what}", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> Result<(), String> {
        self.space();
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(self.error(&format!("expected {}", char::from(wanted))))
    }

    fn value(&mut self, depth: u32) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err(self.error("nested too deeply"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json, String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let ends = |b: &u8| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace();
        let len = rest.iter().position(ends).unwrap_or(rest.len());
        let word = std::str::from_utf8(rest.get(..len).unwrap_or_default()).unwrap_or_default();
        let value = match word {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            _ => Json::from(word.parse::<f64>().map_err(|_| self.error("expected a value"))?),
        };
        self.at += len;
        Ok(value)
    }

    fn list(&mut self, depth: u32) -> Result<Json, String> {
        self.take(b'[')?;
        let mut items = Vec::new();
        self.space();
        while self.peek() != Some(b']') {
            if !items.is_empty() {
                self.take(b',')?;
            }
            items.push(self.value(depth + 1)?);
            self.space();
        }
        self.at += 1;
        Ok(Json::List(items))
    }

    fn object(&mut self, depth: u32) -> Result<Json, String> {
        self.take(b'{')?;
        let mut members = Vec::new();
        self.space();
        while self.peek() != Some(b'}') {
            if !members.is_empty() {
                self.take(b',')?;
                self.space();
            }
            let key = self.string()?;
            self.take(b':')?;
            members.push((key, self.value(depth + 1)?));
            self.space();
        }
        self.at += 1;
        Ok(Json::Object(members))
    }

    fn string(&mut self) -> Result<String, String> {
        self.take(b'"')?;
        let mut out = Vec::new();
        loop {
            let Some(byte) = self.peek() else { return Err(self.error("a text does not end")) };
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => self.escape(&mut out)?,
                byte => out.push(byte),
            }
        }
        String::from_utf8(out).map_err(|_| self.error("a text is not UTF-8"))
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(byte) = self.peek() else { return Err(self.error("a text does not end")) };
        self.at += 1;
        let plain = match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'"' | b'\\' | b'/' => byte,
            b'u' => {
                let hex = self.bytes.get(self.at..self.at + 4).unwrap_or_default();
                let hex = std::str::from_utf8(hex).unwrap_or_default();
                let code = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
                let Some(c) = code else { return Err(self.error("unsupported escape")) };
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += 4;
                return Ok(());
            }
            _ => return Err(self.error("unknown escape")),
        };
        out.push(plain);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let value = object([
            ("wall_s", 0.25.into()),
            ("text", "a\"b\\c\nd é".into()),
            ("list", Json::List(vec![Json::Null, Json::Bool(true), 3_u64.into()])),
            ("empty", object([])),
        ]);
        assert_eq!(Json::parse(&value.to_string()).unwrap(), value);
        assert_eq!(Json::parse(" [ ] ").unwrap(), Json::List(Vec::new()));
        assert_eq!(Json::parse("\"\\u00e9\"").unwrap(), "é".into());
    }

    #[test]
    fn malformed_text_is_refused() {
        for bad in ["", "{", "[1", "{\"a\"}", "{\"a\":}", "\"x", "1 2", "tru", "[1,]", "\"\\u12\""]
        {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
    }
}
