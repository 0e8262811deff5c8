//! The NameNode's state, read from its `/jmx` page.

use super::{HarnessError, Result};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// One JMX bean as the JSON text that the server on `port` of 127.0.0.1 answers.
pub(crate) fn bean(port: u16, query: &str) -> Result<String> {
    const ANSWER_BYTES_MAX: u64 = 1 << 20;
    const WAIT: Duration = Duration::from_secs(5);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        // HTTP/1.0: the answer ends with the connection and has no chunks to take apart.
        write!(stream, "GET /jmx?qry={query} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    ask().map_err(|e| HarnessError::new(format!("no answer from http://{address}/jmx: {e}")))
}

/// The value of a member `name` with a number or a string without escapes, as text.
pub(crate) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = json.split_once(&format!("\"{name}\""))?;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([',', '}', '\n', '\r', ' ']).next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_the_spacing() {
        let json =
            "{ \"beans\" : [ {\n \"FSState\" : \"Operational\",\n \"Num\":3,\n \"x\": 7 } ] }";
        assert_eq!(member(json, "FSState"), Some("Operational"));
        assert_eq!(member(json, "Num"), Some("3"));
        assert_eq!(member(json, "x"), Some("7"));
        assert_eq!(member(json, "y"), None);
    }
}
