//! Stream sockets for a caller that waits for itself.
//!
//! Sockets are in blocking mode with a short receive time-out (the *slice*): one `recvmsg` both
//! waits and reads, which is the cheapest wait there is, and the slice bounds how late a deadline,
//! a heartbeat or a cancellation is noticed. Sends never block in the kernel; a full socket is
//! waited for with `poll`. Every descriptor is close-on-exec and every send uses MSG_NOSIGNAL.
use crate::time::Deadline;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Longest single sleep of a blocking receive.
pub const WAIT_SLICE_MS: u64 = 500;

/// Readable (or broken), for [`Socket::poll`].
pub const READABLE: i16 = libc::POLLIN;
/// Writable, for [`Socket::poll`].
pub const WRITABLE: i16 = libc::POLLOUT;

/// Options of a new connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketOptions {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// SO_SNDBUF in bytes; 0 leaves it to the kernel.
    pub send_buffer_bytes: usize,
}

/// A connected stream socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn timed_out() -> io::Error {
    io::Error::from_raw_os_error(libc::ETIMEDOUT)
}

/// Whether an I/O error means that the time limit passed.
pub fn is_timeout(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETIMEDOUT) || error.kind() == io::ErrorKind::TimedOut
}

fn set_option<T>(fd: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for reads of `len` bytes; callers pass the type that the option has.
    let rc = unsafe { libc::setsockopt(fd, level, name, (value as *const T).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_nonblocking(fd: RawFd, on: bool) -> io::Result<()> {
    let value: libc::c_int = on.into();
    // SAFETY: FIONBIO reads one int through the pointer, which is valid.
    let rc = unsafe { libc::ioctl(fd, libc::FIONBIO, &value) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `sockaddr` bytes of an address.
union SockAddr {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

fn encode_addr(addr: &SocketAddr) -> (SockAddr, libc::socklen_t) {
    match addr {
        SocketAddr::V4(a) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: a.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                sin_zero: [0; 8],
            };
            (SockAddr { v4 }, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(a) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: a.port().to_be(),
                sin6_flowinfo: a.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                sin6_scope_id: a.scope_id(),
            };
            (SockAddr { v6 }, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

/// Most sockets that [`poll_many`] waits for at once.
pub const POLL_MAX: usize = 32;

/// One `poll(2)` over several sockets, at most [`POLL_MAX`]; fills `revents` of each entry. Returns
/// false on time-out.
///
/// # Errors
/// The system's error; EINTR is retried within the deadline.
pub fn poll_many(entries: &mut [(RawFd, i16, i16)], deadline: Deadline) -> io::Result<bool> {
    if entries.len() > POLL_MAX {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut fds = [libc::pollfd { fd: -1, events: 0, revents: 0 }; POLL_MAX];
    for (slot, entry) in fds.iter_mut().zip(entries.iter()) {
        slot.fd = entry.0;
        slot.events = entry.1;
    }
    loop {
        // SAFETY: `fds` has at least `entries.len()` initialised elements (checked above).
        let rc = unsafe {
            libc::poll(fds.as_mut_ptr(), entries.len() as libc::nfds_t, deadline.poll_ms())
        };
        if rc > 0 {
            for (slot, entry) in fds.iter().zip(entries.iter_mut()) {
                entry.2 = slot.revents;
            }
            return Ok(true);
        }
        if rc == 0 {
            if deadline.passed() {
                return Ok(false);
            }
            continue;
        }
        if errno() != libc::EINTR {
            return Err(io::Error::last_os_error());
        }
        if deadline.passed() {
            return Ok(false);
        }
    }
}

impl Socket {
    /// Connects over TCP within the deadline.
    ///
    /// # Errors
    /// ETIMEDOUT when the time is up, else what the system says (ECONNREFUSED, EHOSTUNREACH...).
    pub fn connect(
        addr: &SocketAddr,
        options: SocketOptions,
        deadline: Deadline,
    ) -> io::Result<Socket> {
        Socket::connect_unless(addr, options, deadline, &|| false)
    }

    /// Like [`Socket::connect`], but asks `stop` every [`WAIT_SLICE_MS`] whether to give up.
    ///
    /// # Errors
    /// ECANCELED when `stop` says so; else as [`Socket::connect`].
    pub fn connect_unless(
        addr: &SocketAddr,
        options: SocketOptions,
        deadline: Deadline,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Socket> {
        let (socket, connected) = Socket::connect_begin(addr, options)?;
        if !connected {
            socket.wait_connected(deadline, stop)?;
        }
        socket.connect_end(addr)?;
        Ok(socket)
    }

    /// Begins to connect without waiting; true when the connection is there already. The socket
    /// becomes writable when [`Socket::connect_end`] can tell the result, and serves nothing else
    /// before that.
    ///
    /// # Errors
    /// What the system says at once (ENETUNREACH...).
    pub fn connect_begin(addr: &SocketAddr, options: SocketOptions) -> io::Result<(Socket, bool)> {
        let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: socket has no preconditions.
        let raw = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a fresh descriptor that nobody else owns.
        let socket = Socket { fd: unsafe { OwnedFd::from_raw_fd(raw) } };
        let one: libc::c_int = 1;
        if options.nodelay {
            set_option(raw, libc::IPPROTO_TCP, libc::TCP_NODELAY, &one)?;
        }
        set_option(raw, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &one)?;
        if options.send_buffer_bytes > 0 {
            let bytes =
                libc::c_int::try_from(options.send_buffer_bytes).unwrap_or(libc::c_int::MAX);
            set_option(raw, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes)?;
        }
        set_nonblocking(raw, true)?;
        let (bytes, len) = encode_addr(addr);
        // SAFETY: `bytes` holds a sockaddr of `len` bytes for the address's family.
        let rc = unsafe { libc::connect(raw, (&raw const bytes).cast(), len) };
        if rc != 0 {
            let e = errno();
            if e != libc::EINPROGRESS && e != libc::EINTR {
                return Err(io::Error::from_raw_os_error(e));
            }
        }
        Ok((socket, rc == 0))
    }

    /// Takes the result of a connect that is over, and makes the socket ready for use.
    ///
    /// # Errors
    /// Why there is no connection (ECONNREFUSED, EHOSTUNREACH...).
    pub fn connect_end(&self, addr: &SocketAddr) -> io::Result<()> {
        if let Some(error) = self.take_error()? {
            return Err(error);
        }
        if self.is_self_connected(addr) {
            // A refused loopback port inside the ephemeral range can connect to itself.
            return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
        }
        set_nonblocking(self.raw(), false)?;
        self.set_receive_slice(Duration::from_millis(WAIT_SLICE_MS))
    }

    fn wait_connected(&self, deadline: Deadline, stop: &dyn Fn() -> bool) -> io::Result<()> {
        loop {
            match self.poll(WRITABLE, deadline.min(Deadline::after_ms(WAIT_SLICE_MS))) {
                Err(e) if is_timeout(&e) && !deadline.passed() => {}
                other => return other.map(|_| ()),
            }
            if stop() {
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
        }
    }

    fn set_receive_slice(&self, slice: Duration) -> io::Result<()> {
        let tv = libc::timeval {
            tv_sec: slice.as_secs() as libc::time_t,
            tv_usec: slice.subsec_micros() as libc::suseconds_t,
        };
        set_option(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &tv)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut value: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: SO_ERROR writes one int; `value` and `len` are valid for that.
        let rc = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut value).cast(),
                &mut len,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(if value == 0 { None } else { Some(io::Error::from_raw_os_error(value)) })
    }

    fn is_self_connected(&self, addr: &SocketAddr) -> bool {
        self.local_addr().is_some_and(|local| local == *addr)
    }

    /// The local address of the connection.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        let mut storage = SockAddr {
            v6: libc::sockaddr_in6 {
                sin6_family: 0,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
                sin6_scope_id: 0,
            },
        };
        let mut len = size_of::<SockAddr>() as libc::socklen_t;
        // SAFETY: `storage` is valid for writes of `len` bytes.
        let rc =
            unsafe { libc::getsockname(self.fd.as_raw_fd(), (&raw mut storage).cast(), &mut len) };
        if rc != 0 {
            return None;
        }
        // SAFETY: both variants are plain integers, fully initialised above, and begin with the
        // family, so either may be read.
        let family = i32::from(unsafe { storage.v4.sin_family });
        if family == libc::AF_INET {
            // SAFETY: as above; the kernel wrote a sockaddr_in.
            let v4 = unsafe { storage.v4 };
            let ip = IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(v4.sin_port)))
        } else if family == libc::AF_INET6 {
            // SAFETY: as above; the kernel wrote a sockaddr_in6.
            let v6 = unsafe { storage.v6 };
            Some(SocketAddr::new(IpAddr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port)))
        } else {
            None
        }
    }

    /// The descriptor, for [`poll_many`]; still owned by the socket.
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Waits for any of `events`; returns what happened (POLLERR and POLLHUP included).
    ///
    /// # Errors
    /// ETIMEDOUT when the deadline passes first.
    pub fn poll(&self, events: i16, deadline: Deadline) -> io::Result<i16> {
        let mut entry = [(self.raw(), events, 0)];
        if poll_many(&mut entry, deadline)? { Ok(entry[0].2) } else { Err(timed_out()) }
    }

    /// Sends as much as the socket takes now, in one `sendmsg`; `None` when it is full.
    ///
    /// # Errors
    /// The system's error (EPIPE, ECONNRESET...); EINTR is retried.
    pub fn try_send(&self, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        // SAFETY: msghdr is plain old data, for which all zeroes is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // IoSlice has the layout of iovec on Unix (documented by std).
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        loop {
            // SAFETY: `message` points at `parts.len()` valid, readable iovecs that outlive the
            // call; sendmsg does not write through them.
            let n = unsafe {
                libc::sendmsg(self.raw(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            };
            if let Ok(n) = usize::try_from(n) {
                return Ok(Some(n));
            }
            match errno() {
                libc::EINTR => continue,
                libc::EAGAIN => return Ok(None),
                e => return Err(io::Error::from_raw_os_error(e)),
            }
        }
    }

    /// Sends all parts, waiting for room as needed.
    ///
    /// # Errors
    /// ETIMEDOUT when the deadline passes first, else the system's error.
    pub fn send_all(&self, mut parts: &mut [IoSlice<'_>], deadline: Deadline) -> io::Result<()> {
        while parts.iter().any(|p| !p.is_empty()) {
            match self.try_send(parts)? {
                Some(n) => IoSlice::advance_slices(&mut parts, n),
                None => {
                    self.poll(WRITABLE, deadline)?;
                }
            }
        }
        Ok(())
    }

    fn receive(
        &self,
        parts: &mut [IoSliceMut<'_>],
        flags: libc::c_int,
    ) -> io::Result<Option<usize>> {
        // SAFETY: msghdr is plain old data, for which all zeroes is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr().cast();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: `message` points at `parts.len()` valid, writable iovecs that outlive the call.
        let n = unsafe { libc::recvmsg(self.raw(), &mut message, flags) };
        if let Ok(n) = usize::try_from(n) {
            return Ok(Some(n));
        }
        match errno() {
            libc::EAGAIN | libc::EINTR => Ok(None),
            e => Err(io::Error::from_raw_os_error(e)),
        }
    }

    /// Receives what is there, without waiting: `None` when nothing is, `Some(0)` at the end.
    ///
    /// # Errors
    /// The system's error.
    pub fn try_recv(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        self.receive(parts, libc::MSG_DONTWAIT)
    }

    /// Waits up to one slice (or the deadline, if nearer) for data: `None` when none came, so that
    /// the caller can look after other things; `Some(0)` at the end of the stream.
    ///
    /// # Errors
    /// The system's error.
    pub fn recv_slice(
        &self,
        parts: &mut [IoSliceMut<'_>],
        deadline: Deadline,
    ) -> io::Result<Option<usize>> {
        let short =
            deadline.remaining().is_some_and(|left| left < Duration::from_millis(WAIT_SLICE_MS));
        if short {
            let mut entry = [(self.raw(), READABLE, 0)];
            if !poll_many(&mut entry, deadline)? {
                return Ok(None);
            }
            return self.receive(parts, libc::MSG_DONTWAIT);
        }
        self.receive(parts, 0)
    }

    /// Waits for data: at least one byte, or 0 at the end of the stream.
    ///
    /// # Errors
    /// ETIMEDOUT when the deadline passes first, else the system's error.
    pub fn recv(&self, parts: &mut [IoSliceMut<'_>], deadline: Deadline) -> io::Result<usize> {
        loop {
            if let Some(n) = self.recv_slice(parts, deadline)? {
                return Ok(n);
            }
            if deadline.passed() {
                return Err(timed_out());
            }
        }
    }

    /// Whether an idle connection can be used: nothing to read, not closed by the peer.
    pub fn is_idle_alive(&self) -> bool {
        let mut byte = [0_u8; 1];
        // SAFETY: `byte` is valid for a write of one byte.
        let n = unsafe {
            libc::recv(self.raw(), byte.as_mut_ptr().cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT)
        };
        n < 0 && errno() == libc::EAGAIN
    }

    /// Ends both directions; wakes any thread that waits on the socket.
    pub fn shutdown(&self) {
        // SAFETY: the descriptor is owned and open; a failure (not connected) changes nothing.
        unsafe { libc::shutdown(self.raw(), libc::SHUT_RDWR) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn pair() -> (Socket, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let options = SocketOptions { nodelay: true, send_buffer_bytes: 0 };
        let socket = Socket::connect(&addr, options, Deadline::after_ms(2000)).unwrap();
        (socket, listener.accept().unwrap().0)
    }

    #[test]
    fn sends_and_receives() {
        let (socket, mut peer) = pair();
        let mut parts = [IoSlice::new(b"he"), IoSlice::new(b"llo")];
        socket.send_all(&mut parts, Deadline::after_ms(1000)).unwrap();
        let mut got = [0; 5];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        peer.write_all(b"xyz").unwrap();
        let (mut a, mut b) = ([0; 1], [0; 8]);
        let n = socket
            .recv(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)], Deadline::after_ms(1000))
            .unwrap();
        assert!(n >= 1 && a == *b"x");
    }

    #[test]
    fn a_silent_peer_ends_in_a_timeout_and_a_full_socket_too() {
        let (socket, _peer) = pair();
        let mut buffer = [0; 8];
        let e =
            socket.recv(&mut [IoSliceMut::new(&mut buffer)], Deadline::after_ms(30)).unwrap_err();
        assert!(is_timeout(&e));
        let big = vec![0; 1 << 20];
        let mut sent = Ok(());
        for _ in 0..64 {
            sent = socket.send_all(&mut [IoSlice::new(&big)], Deadline::after_ms(30));
            if sent.is_err() {
                break;
            }
        }
        assert!(is_timeout(&sent.unwrap_err()));
    }

    #[test]
    fn the_probe_sees_close_and_stray_bytes() {
        let (socket, peer) = pair();
        assert!(socket.is_idle_alive());
        drop(peer);
        socket.poll(READABLE, Deadline::after_ms(1000)).unwrap();
        assert!(!socket.is_idle_alive());
        let (socket, mut peer) = pair();
        peer.write_all(b"?").unwrap();
        socket.poll(READABLE, Deadline::after_ms(1000)).unwrap();
        assert!(!socket.is_idle_alive());
    }

    #[test]
    fn a_refused_port_says_so() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let e = Socket::connect(&port, SocketOptions::default(), Deadline::after_ms(1000));
        assert_eq!(e.unwrap_err().raw_os_error(), Some(libc::ECONNREFUSED));
    }
}
