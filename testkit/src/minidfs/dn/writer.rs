//! The handle by which a new writer, or a recovery, stops the present writer of a replica.
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::super::net::Conn;

/// `dfs.datanode.xceiver.stop.timeout.millis` is 60 s; tests must not wait that long.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Shared by the threads of one WRITE_BLOCK.
pub(crate) struct WriterControl {
    stopped: AtomicBool,
    conns: Mutex<Vec<Arc<Conn>>>,
    done: Mutex<bool>,
    changed: Condvar,
}

impl WriterControl {
    pub(crate) fn new(upstream: &Arc<Conn>) -> Arc<Self> {
        Arc::new(Self {
            stopped: AtomicBool::new(false),
            conns: Mutex::new(vec![Arc::clone(upstream)]),
            done: Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    /// A further connection to close when the writer is stopped.
    pub(crate) fn add(&self, conn: &Arc<Conn>) {
        self.conns.lock().push(Arc::clone(conn));
        if self.is_stopped() {
            conn.close();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        for conn in self.conns.lock().iter() {
            conn.close();
        }
        let _done = self.done.lock();
        self.changed.notify_all();
    }

    pub(super) fn stop_and_wait(&self, block: u64) -> io::Result<()> {
        self.stop();
        let deadline = Instant::now() + STOP_LIMIT;
        let mut done = self.done.lock();
        while !*done {
            if self.changed.wait_until(&mut done, deadline).timed_out() && !*done {
                return Err(io::Error::other(format!("the writer of blk_{block} does not stop")));
            }
        }
        Ok(())
    }

    pub(super) fn set_done(&self) {
        *self.done.lock() = true;
        self.changed.notify_all();
    }

    /// Sleeps, but not past a stop.
    pub(crate) fn sleep(&self, time: Duration) {
        let deadline = Instant::now() + time;
        let mut done = self.done.lock();
        while !self.is_stopped() {
            if self.changed.wait_until(&mut done, deadline).timed_out() {
                return;
            }
        }
    }
}
