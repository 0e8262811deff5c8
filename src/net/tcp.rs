//! TCP connections with errors that name the peer.
use crate::error::{Error, Result, Status};
use crate::sys::socket::{Socket, SocketOptions, is_timeout};
use crate::time::Deadline;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Splits `host:port`, where the host may be an IPv6 address in brackets.
///
/// # Errors
/// `Config` when there is no valid port.
pub fn split_host_port(text: &str) -> Result<(&str, u16)> {
    let bad = || Error::new(Status::Config, format!("{text:?} is not of the form host:port"));
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err(bad());
    }
    Ok((host, port.parse().map_err(|_| bad())?))
}

/// All addresses of `host:port`. A literal address asks nobody; a name goes through the system's
/// resolver, whose own time limits (resolv.conf) apply.
///
/// # Errors
/// `UnknownHost`, naming the host.
pub fn resolve(host_port: &str) -> Result<Vec<SocketAddr>> {
    let (host, port) = split_host_port(host_port)?;
    let found = (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    let unknown = |why: String| {
        Error::new(Status::UnknownHost, format!("host {host} cannot be resolved: {why}"))
            .with_server(host_port)
    };
    match found {
        Ok(addrs) if addrs.is_empty() => Err(unknown("it has no address".into())),
        Ok(addrs) => Ok(addrs),
        Err(e) => Err(unknown(e.to_string())),
    }
}

/// Turns a failed receive or send into an error of the library.
///
/// A time-out becomes `TimedOut`, anything else `ConnectionLost`.
pub fn io_error(error: &io::Error, what: impl fmt::Display, server: &str) -> Error {
    let status = if is_timeout(error) { Status::TimedOut } else { Status::ConnectionLost };
    let words =
        if status == Status::TimedOut { "the time limit passed".into() } else { error.to_string() };
    Error::new(status, format!("{what} {server}: {words}")).with_server(server)
}

/// Connects to the first of `addrs` that accepts, each within `timeout_ms` and all within
/// `deadline`.
///
/// # Errors
/// `TimedOut` when the last attempt timed out, else `Connect`; both name the server.
pub fn connect(
    server: &str,
    addrs: &[SocketAddr],
    options: SocketOptions,
    timeout_ms: u64,
    deadline: Deadline,
) -> Result<Socket> {
    connect_unless(server, addrs, options, timeout_ms, deadline, &|| false)
}

/// Like [`connect`], but gives up soon after `stop` says so.
///
/// # Errors
/// `Connect` then; else as [`connect`].
pub fn connect_unless(
    server: &str,
    addrs: &[SocketAddr],
    options: SocketOptions,
    timeout_ms: u64,
    deadline: Deadline,
    stop: &dyn Fn() -> bool,
) -> Result<Socket> {
    let mut last = None;
    for addr in addrs {
        let limit = deadline.min(Deadline::after_ms(timeout_ms));
        match Socket::connect_unless(addr, options, limit, stop) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = Some(e),
        }
        if deadline.passed() || stop() {
            break;
        }
    }
    let (status, words) = match &last {
        Some(e) if is_timeout(e) => (Status::TimedOut, "the time limit passed".to_owned()),
        Some(e) => (Status::Connect, e.to_string()),
        None => (Status::Connect, "no address to try".to_owned()),
    };
    Err(Error::new(status, format!("connecting to {server}: {words}")).with_server(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        assert_eq!(split_host_port("nn:8020").unwrap(), ("nn", 8020));
        assert_eq!(split_host_port("[::1]:1").unwrap(), ("::1", 1));
        for bad in ["nn", "nn:", "nn:99999", ":8020", "nn:x"] {
            assert!(split_host_port(bad).is_err(), "{bad}");
        }
        let e = resolve("no-such-host.invalid:1").unwrap_err();
        assert_eq!(e.status(), Status::UnknownHost);
        assert!(e.message().contains("no-such-host.invalid"));
    }
}
