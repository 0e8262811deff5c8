//! The calls of one connection, without the connection: who waits, and what came.
use super::retry::Failed;
use std::collections::HashMap;

/// The encoded response message, or why there is none.
pub type Outcome = Result<Vec<u8>, Failed>;

#[derive(Debug)]
enum Call<W> {
    Waiting(W),
    Done(Outcome),
}

/// Outstanding calls by id. `W` is whatever wakes the thread that waits for the call.
#[derive(Debug)]
pub struct CallTable<W> {
    calls: HashMap<i32, Call<W>>,
}

impl<W> Default for CallTable<W> {
    fn default() -> Self {
        CallTable { calls: HashMap::new() }
    }
}

impl<W: Clone> CallTable<W> {
    /// Adds a call that is about to be sent; false when the id is in use (nothing changes then).
    #[must_use]
    pub fn insert(&mut self, id: i32, waiter: W) -> bool {
        match self.calls.entry(id) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(Call::Waiting(waiter));
                true
            }
        }
    }

    /// Stores the outcome of a call and returns whom to wake; `None` when nobody waits for the id
    /// (its caller's time ran out): the outcome is dropped.
    pub fn finish(&mut self, id: i32, outcome: Outcome) -> Option<W> {
        let call = self.calls.get_mut(&id)?;
        let Call::Waiting(waiter) = call else { return None };
        let waiter = waiter.clone();
        *call = Call::Done(outcome);
        Some(waiter)
    }

    /// Ends every waiting call with a copy of `failed`; returns whom to wake.
    pub fn finish_all(&mut self, failed: &Failed) -> Vec<W> {
        let mut waiters = Vec::new();
        for call in self.calls.values_mut() {
            if let Call::Waiting(waiter) = call {
                waiters.push(waiter.clone());
                *call = Call::Done(Err(failed.clone()));
            }
        }
        waiters
    }

    /// Whether the call has its outcome.
    #[must_use]
    pub fn is_done(&self, id: i32) -> bool {
        matches!(self.calls.get(&id), Some(Call::Done(_)))
    }

    /// Removes a finished call.
    pub fn take(&mut self, id: i32) -> Option<Outcome> {
        if !self.is_done(id) {
            return None;
        }
        match self.calls.remove(&id) {
            Some(Call::Done(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// Removes a call whatever its state.
    pub fn forget(&mut self, id: i32) {
        self.calls.remove(&id);
    }

    /// Everybody who waits.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.calls.values().filter_map(|call| match call {
            Call::Waiting(waiter) => Some(waiter),
            Call::Done(_) => None,
        })
    }

    /// Whether no call is waiting or unclaimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Status};
    use crate::ipc::retry::Cause;

    fn lost() -> Failed {
        Failed::new(Cause::Lost, Error::new(Status::ConnectionLost, "cut"))
    }

    #[test]
    fn answers_find_their_callers_in_any_order() {
        let mut table = CallTable::default();
        assert!(table.insert(1, 'a') && table.insert(2, 'b'));
        assert!(!table.insert(1, 'c'));
        assert_eq!(table.finish(2, Ok(vec![2])), Some('b'));
        assert!(table.take(1).is_none());
        assert_eq!(table.waiting().collect::<Vec<_>>(), [&'a']);
        assert_eq!(table.take(2).unwrap().unwrap(), [2]);
        assert_eq!(table.finish(1, Ok(vec![1])), Some('a'));
        assert_eq!(table.waiting().count(), 0);
        assert!(!table.is_empty());
        assert_eq!(table.take(1).unwrap().unwrap(), [1]);
        assert!(table.is_empty());
    }

    #[test]
    fn a_late_or_second_answer_is_dropped() {
        let mut table = CallTable::default();
        assert!(table.insert(1, 'a') && table.insert(2, 'b'));
        table.forget(1);
        assert_eq!(table.finish(1, Ok(vec![])), None);
        assert_eq!(table.finish(2, Ok(vec![7])), Some('b'));
        assert_eq!(table.finish(2, Ok(vec![8])), None);
        assert_eq!(table.finish_all(&lost()), []);
        assert_eq!(table.take(2).unwrap().unwrap(), [7]);
    }

    #[test]
    fn the_end_reaches_everybody() {
        let mut table = CallTable::default();
        assert!(table.insert(1, 'a') && table.insert(2, 'b'));
        let mut woken = table.finish_all(&lost());
        woken.sort_unstable();
        assert_eq!(woken, ['a', 'b']);
        assert_eq!(table.take(1).unwrap().unwrap_err().cause, Cause::Lost);
        assert_eq!(table.take(2).unwrap().unwrap_err().error.status(), Status::ConnectionLost);
    }
}
