//! Sockets of minidfs: listeners that can be stopped and connections that can be paused, cut
//! after a number of bytes, closed from outside and counted.
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Stack of a connection thread: nothing here recurses or keeps big buffers on the stack.
const CONNECTION_STACK_BYTES: usize = 512 * 1024;

const OPEN: u8 = 0;
const PAUSED: u8 = 1;
const CLOSED: u8 = 2;

/// Lets every connection of one server pass, holds them (pause) or fails them (stop).
#[derive(Default)]
pub(crate) struct Gate {
    state: AtomicU8,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    /// Blocks while the server is paused; fails once it is stopped.
    pub(crate) fn pass(&self) -> io::Result<()> {
        match self.state.load(Ordering::Acquire) {
            OPEN => return Ok(()),
            CLOSED => return Err(stopped()),
            _ => {}
        }
        let mut guard = self.lock.lock();
        loop {
            match self.state.load(Ordering::Acquire) {
                OPEN => return Ok(()),
                CLOSED => return Err(stopped()),
                _ => self.changed.wait(&mut guard),
            }
        }
    }

    /// Waits that long; fails at once when the server is stopped.
    pub(crate) fn sleep(&self, time: Duration) -> io::Result<()> {
        let deadline = Instant::now() + time;
        let mut guard = self.lock.lock();
        while self.state.load(Ordering::Acquire) != CLOSED {
            if self.changed.wait_until(&mut guard, deadline).timed_out() {
                return Ok(());
            }
        }
        Err(stopped())
    }

    fn set(&self, state: u8) {
        let _guard = self.lock.lock();
        self.state.store(state, Ordering::Release);
        self.changed.notify_all();
    }

    pub(crate) fn open(&self) {
        self.set(OPEN);
    }

    pub(crate) fn pause(&self) {
        self.set(PAUSED);
    }

    pub(crate) fn close(&self) {
        self.set(CLOSED);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state.load(Ordering::Acquire) == PAUSED
    }
}

fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the server was stopped")
}

/// Every open connection of one server, so that they can be counted and closed from outside.
#[derive(Default)]
pub(crate) struct ConnTable {
    next_id: AtomicU64,
    accepted: AtomicU64,
    open: Mutex<HashMap<u64, TcpStream>>,
    closed_one: Condvar,
}

impl ConnTable {
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open.lock().len()
    }

    /// Wakes every thread that is blocked on one of the connections.
    pub(crate) fn shutdown_all(&self) {
        for stream in self.open.lock().values() {
            shutdown(stream);
        }
    }

    /// Waits until no connection thread runs any more; false when `limit` passes first.
    pub(crate) fn wait_empty(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut open = self.open.lock();
        while !open.is_empty() {
            for stream in open.values() {
                shutdown(stream);
            }
            if self.closed_one.wait_until(&mut open, deadline).timed_out() {
                return open.is_empty();
            }
        }
        true
    }

    fn register(&self, stream: &TcpStream) -> io::Result<u64> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(id, stream.try_clone()?);
        Ok(id)
    }

    fn remove(&self, id: u64) {
        self.open.lock().remove(&id);
        self.closed_one.notify_all();
    }
}

/// Errors are of no interest: a socket that the peer has already reset cannot be shut down again.
fn shutdown(stream: &TcpStream) {
    let _already_gone = stream.shutdown(Shutdown::Both);
}

/// One connection. `&Conn` reads and writes, so a reader and a writer thread can share it.
pub(crate) struct Conn {
    stream: TcpStream,
    gate: Arc<Gate>,
    table: Arc<ConnTable>,
    id: u64,
    limited: AtomicBool,
    receive_left: AtomicI64,
    send_left: AtomicI64,
}

impl Conn {
    pub(crate) fn new(
        stream: TcpStream,
        gate: &Arc<Gate>,
        table: &Arc<ConnTable>,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let id = table.register(&stream)?;
        Ok(Self {
            stream,
            gate: Arc::clone(gate),
            table: Arc::clone(table),
            id,
            limited: AtomicBool::new(false),
            receive_left: AtomicI64::new(i64::MAX),
            send_left: AtomicI64::new(i64::MAX),
        })
    }

    /// Connects to another server of the cluster; the connection belongs to `table`.
    pub(crate) fn connect(
        addr: SocketAddr,
        limit: Duration,
        gate: &Arc<Gate>,
        table: &Arc<ConnTable>,
    ) -> io::Result<Self> {
        Self::new(TcpStream::connect_timeout(&addr, limit)?, gate, table)
    }

    pub(crate) fn peer_ip(&self) -> String {
        self.stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |a| a.ip().to_string())
    }

    pub(crate) fn peer(&self) -> String {
        self.stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |a| format!("/{a}"))
    }

    /// Closes the connection as soon as that many bytes have passed in a direction.
    pub(crate) fn cut_after(&self, received: Option<u64>, sent: Option<u64>) {
        let bytes = |n: Option<u64>| n.map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
        self.receive_left.store(bytes(received), Ordering::Relaxed);
        self.send_left.store(bytes(sent), Ordering::Relaxed);
        self.limited.store(true, Ordering::Release);
    }

    pub(crate) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(limit)
    }

    pub(crate) fn close(&self) {
        shutdown(&self.stream);
    }

    /// Sends what is buffered, then says that no more will come, but keeps reading.
    pub(crate) fn finish_sending(&self) {
        let _already_gone = self.stream.shutdown(Shutdown::Write);
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    fn clip(&self, left: &AtomicI64, wanted: usize) -> io::Result<usize> {
        if !self.limited.load(Ordering::Acquire) {
            return Ok(wanted);
        }
        let left = left.load(Ordering::Relaxed);
        if left <= 0 {
            self.close();
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "cut by a fault rule"));
        }
        Ok(wanted.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }
}

impl Read for &Conn {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.gate.pass()?;
        let wanted = self.clip(&self.receive_left, buf.len())?;
        let count = self.stream_ref().read(buf.get_mut(..wanted).unwrap_or_default())?;
        self.receive_left.fetch_sub(count as i64, Ordering::Relaxed);
        // Bytes that arrive while the node is paused are not processed before it resumes.
        self.gate.pass()?;
        Ok(count)
    }
}

impl Write for &Conn {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.gate.pass()?;
        let wanted = self.clip(&self.send_left, buf.len())?;
        let count = self.stream_ref().write(buf.get(..wanted).unwrap_or_default())?;
        self.send_left.fetch_sub(count as i64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Conn {
    fn stream_ref(&self) -> &TcpStream {
        &self.stream
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        shutdown(&self.stream);
        self.table.remove(self.id);
    }
}

/// Reads from a shared connection; what `BufReader` needs.
#[derive(Clone)]
pub(crate) struct ConnReader(pub(crate) Arc<Conn>);

impl Read for ConnReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buf)
    }
}

type Serve = dyn Fn(Conn) + Send + Sync;

/// A listening socket and its accept thread.
pub(crate) struct Listener {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Binds and serves each connection on a thread of its own. A port that is still busy (a
    /// restart on the old port) is tried again for up to two seconds.
    pub(crate) fn start(
        bind: SocketAddr,
        name: &str,
        gate: &Arc<Gate>,
        table: &Arc<ConnTable>,
        serve: Arc<Serve>,
    ) -> io::Result<Self> {
        let socket = bind_patiently(bind, Duration::from_secs(2))?;
        let addr = socket.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (gate, table) = (Arc::clone(gate), Arc::clone(table));
        let (stop_seen, thread_name) = (Arc::clone(&stop), name.to_owned());
        let thread =
            std::thread::Builder::new().name(format!("{name}-accept")).spawn(move || {
                accept_loop(&socket, &stop_seen, &thread_name, &gate, &table, &serve);
            })?;
        Ok(Self { addr, stop, thread: Some(thread) })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Refuses further connections; those that are open stay open.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.stop.store(true, Ordering::Release);
        // The accept thread sees the flag when this connection wakes it.
        let _wake = TcpStream::connect_timeout(&self.addr, Duration::from_secs(1));
        let _panicked = thread.join();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bind_patiently(bind: SocketAddr, limit: Duration) -> io::Result<TcpListener> {
    let deadline = Instant::now() + limit;
    loop {
        match TcpListener::bind(bind) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(e) => {
                return Err(io::Error::new(e.kind(), format!("cannot listen on {bind}: {e}")));
            }
            Ok(socket) => return Ok(socket),
        }
    }
}

fn accept_loop(
    socket: &TcpListener,
    stop: &AtomicBool,
    name: &str,
    gate: &Arc<Gate>,
    table: &Arc<ConnTable>,
    serve: &Arc<Serve>,
) {
    loop {
        let accepted = socket.accept();
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, most likely: give connections time to end.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        table.accepted.fetch_add(1, Ordering::Relaxed);
        let Ok(conn) = Conn::new(stream, gate, table) else { continue };
        let serve = Arc::clone(serve);
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(CONNECTION_STACK_BYTES)
            .spawn(move || serve(conn));
        // Without a thread the connection is dropped, and so closed, right here.
        drop(spawned);
    }
}
