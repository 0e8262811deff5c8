//! A relay in front of a NameNode that loses requests and answers when told to.

use super::{HarnessError, Result};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What gets lost of a call; the connection breaks there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The request does not reach the server.
    Request,
    /// The server has carried the call out, and its answer does not reach the client.
    Answer,
}

struct Rule {
    /// The field of the request header that holds the method's name.
    pattern: Vec<u8>,
    loss: Loss,
    then_down: bool,
}

struct Shared {
    target: String,
    rule: Mutex<Option<Rule>>,
    /// Both ends of every connection, to be closed from outside.
    connections: Mutex<Vec<TcpStream>>,
    lost: AtomicU64,
    down: AtomicBool,
    ended: AtomicBool,
}

/// Passes bytes between clients and one server until told otherwise. Dropping it ends it.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 and relays to `target` (`host:port`).
    pub fn start(target: &str) -> Result<Self> {
        let failed = |e| HarnessError::new(format!("could not start a relay to {target}: {e}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            rule: Mutex::default(),
            connections: Mutex::default(),
            lost: AtomicU64::new(0),
            down: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(Ordering::Acquire) {
                    break;
                }
                // A server that is down: the client's connection ends at once.
                if let Ok(client) = client
                    && !accepting.down.load(Ordering::Acquire)
                    && let Ok(server) = TcpStream::connect(&accepting.target)
                {
                    accepting.relay(&client, &server);
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// `127.0.0.1:PORT` for clients.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Breaks the connection at the next call of `method`. With `then_down` the relay refuses
    /// connections from then on, as a server that has died does.
    pub fn lose(&self, method: &str, loss: Loss, then_down: bool) {
        // RequestHeaderProto.methodName: field 1, a string.
        let mut pattern = vec![0x0a, method.len() as u8];
        pattern.extend_from_slice(method.as_bytes());
        *lock(&self.shared.rule) = Some(Rule { pattern, loss, then_down });
    }

    /// How many calls were lost.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// Refuses connections and ends those that are open, or accepts again.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::Release);
        if down {
            self.shared.end_connections();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.end_connections();
        // Wakes the accepting thread; if nobody listens any more, it has ended already.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn end_connections(&self) {
        for end in lock(&self.connections).drain(..) {
            // The other side may have ended it already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Starts the two directions of a connection, each on a thread of its own.
    fn relay(self: &Arc<Self>, client: &TcpStream, server: &TcpStream) {
        for end in [client, server] {
            // Only costs time when it fails.
            let _ = end.set_nodelay(true);
            if let Ok(end) = end.try_clone() {
                lock(&self.connections).push(end);
            }
        }
        let losing = Arc::new(AtomicBool::new(false));
        for to_server in [true, false] {
            let (shared, losing) = (Arc::clone(self), Arc::clone(&losing));
            let (Ok(client), Ok(server)) = (client.try_clone(), server.try_clone()) else { return };
            std::thread::spawn(move || {
                if to_server {
                    shared.requests(&client, &server, &losing);
                } else {
                    shared.answers(&server, &client, &losing);
                }
                // Whatever ended one direction ends the other.
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    }

    fn requests(&self, mut client: &TcpStream, mut server: &TcpStream, losing: &AtomicBool) {
        let mut buffer = vec![0; 64 * 1024];
        // What was read before, for a name that comes in two pieces.
        let mut seen: Vec<u8> = Vec::new();
        while let Ok(n) = client.read(&mut buffer) {
            if n == 0 {
                return;
            }
            let old = seen.len();
            seen.extend_from_slice(&buffer[..n]);
            let hit = {
                let mut rule = lock(&self.rule);
                let found = rule.as_ref().is_some_and(|r| {
                    // Only a name that ends in the new bytes: an older call has gone by.
                    let from = old.saturating_sub(r.pattern.len() - 1);
                    contains(&seen[from..], &r.pattern)
                });
                if found { rule.take() } else { None }
            };
            seen.drain(..seen.len().saturating_sub(64));
            if let Some(rule) = hit {
                if rule.then_down {
                    self.down.store(true, Ordering::Release);
                }
                if rule.loss == Loss::Request {
                    self.lost.fetch_add(1, Ordering::AcqRel);
                    return;
                }
                losing.store(true, Ordering::Release);
            }
            if server.write_all(&buffer[..n]).is_err() {
                return;
            }
        }
    }

    fn answers(&self, mut server: &TcpStream, mut client: &TcpStream, losing: &AtomicBool) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n) = server.read(&mut buffer) {
            if losing.load(Ordering::Acquire) {
                self.lost.fetch_add(1, Ordering::AcqRel);
                return;
            }
            if n == 0 || client.write_all(&buffer[..n]).is_err() {
                return;
            }
        }
    }
}

fn contains(bytes: &[u8], pattern: &[u8]) -> bool {
    bytes.windows(pattern.len()).any(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every read with as many bytes.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(std::io::Result::ok) {
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let mut buffer = [0; 100];
                    while let Ok(n @ 1..) = stream.read(&mut buffer) {
                        if stream.write_all(&buffer[..n]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }

    fn ask(stream: &mut TcpStream, request: &[u8]) -> usize {
        stream.write_all(request).unwrap();
        let mut buffer = [0; 100];
        stream.read(&mut buffer).unwrap_or(0)
    }

    #[test]
    fn a_named_call_is_lost_and_the_rest_passes() {
        let relay = Relay::start(&echo().to_string()).unwrap();
        let connect = || TcpStream::connect(relay.address()).unwrap();
        let call = b"xx\x0a\x04nameyy";
        for loss in [Loss::Request, Loss::Answer] {
            let mut stream = connect();
            assert_eq!(ask(&mut stream, call), call.len());
            let before = relay.lost();
            relay.lose("name", loss, true);
            assert_eq!(ask(&mut stream, b"\x0a\x05names"), 7);
            assert_eq!(ask(&mut stream, call), 0);
            assert_eq!(relay.lost(), before + 1);
            assert_eq!(ask(&mut connect(), b"z"), 0);
            relay.set_down(false);
            assert_eq!(ask(&mut connect(), call), call.len());
        }
    }
}
