//! Renews the lease of a client name while files are open for writing.
use crate::dfs_log;
use crate::error::Error;
use crate::keeper::Renewed;
use crate::namenode::NameNode;
use crate::time::{Deadline, now};
use crate::write::{LeaseHolder, LeaseRegistry};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Half of HDFS's soft lease limit of 60 s.
// Hadoop 3.4 LeaseRenewer#updateRenewalTime.
const PERIOD: Duration = Duration::from_secs(30);
/// Limit of one renewal, so that one dead NameNode cannot starve the others on the lease thread.
const RENEWAL_LIMIT_MS: u64 = 10_000;
/// HDFS's hard lease limit (`dfs.namenode.lease-hard-limit-sec`): after it the NameNode recovers the
/// file by itself, so nothing written later could be kept.
const HARD_LIMIT: Duration = Duration::from_secs(1200);

struct State {
    files: HashMap<u64, Weak<dyn LeaseHolder>>,
    next_id: u64,
    last_success: Instant,
    last_attempt: Instant,
}

/// The lease of one client name at one NameNode service; renewal is per client, not per file.
pub struct LeaseRenewer {
    namenode: Arc<NameNode>,
    state: Mutex<State>,
}

impl LeaseRenewer {
    /// A renewer without files; the caller registers it with the keeper.
    pub fn new(namenode: Arc<NameNode>) -> LeaseRenewer {
        let at = now();
        LeaseRenewer {
            namenode,
            state: Mutex::new(State {
                files: HashMap::new(),
                next_id: 1,
                last_success: at,
                last_attempt: at,
            }),
        }
    }

    /// Number of files whose lease is kept.
    pub fn open_files(&self) -> usize {
        self.state.lock().files.len()
    }

    /// The file system is closed: abandons every file.
    pub fn close(&self) {
        let files = std::mem::take(&mut self.state.lock().files);
        // Without the lock: a holder that breaks calls `end`.
        for holder in files.values().filter_map(Weak::upgrade) {
            holder.file_system_closed();
        }
    }

    fn fail(&self, error: &Error, at: Instant) {
        dfs_log!(Warn, "the lease of {} was not renewed: {error}", self.namenode.client_name());
        let lost = {
            let mut state = self.state.lock();
            if at.saturating_duration_since(state.last_success) < HARD_LIMIT {
                return;
            }
            std::mem::take(&mut state.files)
        };
        // Without the lock: a holder that breaks calls `end`.
        for holder in lost.values().filter_map(Weak::upgrade) {
            holder.lease_lost(error);
        }
    }
}

impl LeaseRegistry for LeaseRenewer {
    fn begin(&self, holder: Weak<dyn LeaseHolder>) -> u64 {
        let mut state = self.state.lock();
        if state.files.is_empty() {
            // The NameNode starts the lease with the create that has just succeeded.
            state.last_success = now();
            state.last_attempt = state.last_success;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.files.insert(id, holder);
        id
    }

    fn end(&self, id: u64) {
        self.state.lock().files.remove(&id);
    }
}

impl Renewed for LeaseRenewer {
    fn renew(&self, at: Instant) {
        {
            let mut state = self.state.lock();
            let since_success = at.saturating_duration_since(state.last_success);
            let since_attempt = at.saturating_duration_since(state.last_attempt);
            // After a failure the next round (a second later) tries again.
            let due = since_success >= PERIOD && since_attempt >= Duration::from_secs(1);
            if state.files.is_empty() || !due {
                return;
            }
            state.last_attempt = at;
        }
        match self.namenode.renew_lease(Deadline::after_ms(RENEWAL_LIMIT_MS)) {
            Ok(()) => self.state.lock().last_success = at,
            Err(error) => self.fail(&error, at),
        }
    }
}
