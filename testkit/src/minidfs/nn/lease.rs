//! Leases: which client writes which files, and when it was last heard of.
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) renewed: Instant,
    pub(crate) files: BTreeSet<u64>,
}

/// Leases by client name.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_holder: HashMap<String, Lease>,
}

impl Leases {
    pub(crate) fn add(&mut self, holder: &str, file: u64) {
        let lease = self
            .by_holder
            .entry(holder.to_owned())
            .or_insert_with(|| Lease { renewed: Instant::now(), files: BTreeSet::new() });
        lease.renewed = Instant::now();
        lease.files.insert(file);
    }

    pub(crate) fn remove(&mut self, holder: &str, file: u64) {
        if let Some(lease) = self.by_holder.get_mut(holder) {
            lease.files.remove(&file);
            if lease.files.is_empty() {
                self.by_holder.remove(holder);
            }
        }
    }

    pub(crate) fn get(&self, holder: &str) -> Option<&Lease> {
        self.by_holder.get(holder)
    }

    pub(crate) fn renew(&mut self, holder: &str) {
        if let Some(lease) = self.by_holder.get_mut(holder) {
            lease.renewed = Instant::now();
        }
    }

    pub(crate) fn older_than(&self, holder: &str, limit: Duration) -> bool {
        self.by_holder.get(holder).is_some_and(|l| l.renewed.elapsed() > limit)
    }

    /// Holders and files whose lease was not renewed for `limit`.
    pub(crate) fn expired(&self, limit: Duration) -> Vec<(String, u64)> {
        let old = self.by_holder.iter().filter(|(_, l)| l.renewed.elapsed() > limit);
        old.flat_map(|(holder, l)| l.files.iter().map(|f| (holder.clone(), *f))).collect()
    }

    /// Makes a client look silent for that long; for tests.
    pub(crate) fn age(&mut self, holder: &str, by: Duration) {
        if let Some(lease) = self.by_holder.get_mut(holder)
            && let Some(past) = Instant::now().checked_sub(by)
        {
            lease.renewed = past;
        }
    }

    pub(crate) fn describe(&self, holder: &str) -> String {
        match self.by_holder.get(holder) {
            Some(lease) => {
                format!("[Lease.  Holder: {holder}, pending creates: {}]", lease.files.len())
            }
            None => format!("Holder {holder} does not have any open files."),
        }
    }

    pub(crate) fn holders(&self) -> Vec<String> {
        self.by_holder.keys().cloned().collect()
    }
}
