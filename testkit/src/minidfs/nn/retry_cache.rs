//! The retry cache: answers of at-most-once calls by client id and call id.
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::super::rpc::Call;
use super::error::{self, NnResult};

/// `dfs.namenode.retrycache.expirytime.millis`.
const EXPIRY: Duration = Duration::from_secs(600);
/// Bounds memory; Hadoop takes 0.03 % of its heap, which is far more entries.
const ENTRIES_MAX: usize = 100_000;

/// Methods whose answer Hadoop 3.4 NameNodeRpcServer keeps, as far as minidfs has them.
pub(crate) const AT_MOST_ONCE: [&str; 7] =
    ["create", "append", "rename", "rename2", "concat", "delete", "updatePipeline"];

type Key = (Vec<u8>, i32);

/// Shared by both NameNodes of an HA pair, as if the edit log had carried it over.
#[derive(Default)]
pub(crate) struct RetryCache {
    answers: HashMap<Key, Vec<u8>>,
    order: VecDeque<(Instant, Key)>,
    pub(crate) hits: u64,
}

impl RetryCache {
    /// The stored answer of an earlier attempt. Only successes are stored.
    ///
    /// Hadoop 3.4 RetryCache#skipRetryCache: an empty client id is not cached; any other length
    /// than 16 is refused by ClientId#getMsb.
    pub(crate) fn lookup(&mut self, call: &Call) -> NnResult<Option<Vec<u8>>> {
        if call.client_id.is_empty() {
            return Ok(None);
        }
        if call.client_id.len() != 16 {
            return Err(error::illegal_argument(format!(
                "Invalid clientId - length is {} expected length 16",
                call.client_id.len()
            )));
        }
        let found = self.answers.get(&(call.client_id.clone(), call.call_id)).cloned();
        self.hits += u64::from(found.is_some());
        Ok(found)
    }

    pub(crate) fn store(&mut self, call: &Call, answer: &[u8]) {
        if call.client_id.is_empty() {
            return;
        }
        while let Some((at, key)) = self.order.front() {
            if at.elapsed() < EXPIRY && self.order.len() < ENTRIES_MAX {
                break;
            }
            self.answers.remove(key);
            self.order.pop_front();
        }
        let key = (call.client_id.clone(), call.call_id);
        self.order.push_back((Instant::now(), key.clone()));
        self.answers.insert(key, answer.to_vec());
    }
}
