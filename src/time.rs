//! Deadlines; the only reader of the system clock.
#![allow(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The point in time at which a blocking call gives up, or somebody's word that it should.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Option<Instant>,
    cancel: Option<&'static AtomicBool>,
}

impl Deadline {
    /// No limit of its own: only the limits of the steps inside apply.
    pub const NONE: Deadline = Deadline { at: None, cancel: None };

    /// Has passed already: the call does what needs no waiting.
    pub fn at_once() -> Deadline {
        Deadline { at: Some(Instant::now()), cancel: None }
    }

    /// `duration` from now; a zero duration means no limit (as Hadoop's timeouts read 0).
    pub fn after(duration: Duration) -> Deadline {
        if duration.is_zero() {
            Deadline::NONE
        } else {
            Deadline { at: Instant::now().checked_add(duration), cancel: None }
        }
    }

    /// The same deadline, which also counts as passed while `flag` is true: for hosts whose threads
    /// can be interrupted. Waits look at it at least twice a second; a wait for a lock does not.
    #[must_use]
    pub fn with_cancel(self, flag: &'static AtomicBool) -> Deadline {
        Deadline { cancel: Some(flag), ..self }
    }

    fn cancelled(self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Acquire))
    }

    /// `ms` milliseconds from now; 0 means no limit.
    pub fn after_ms(ms: u64) -> Deadline {
        Deadline::after(Duration::from_millis(ms))
    }

    /// This instant.
    pub fn at(instant: Instant) -> Deadline {
        Deadline { at: Some(instant), cancel: None }
    }

    /// The earlier of two deadlines.
    #[must_use]
    pub fn min(self, other: Deadline) -> Deadline {
        let at = match (self.at, other.at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Deadline { at, cancel: self.cancel.or(other.cancel) }
    }

    /// Whether there is a limit in time.
    pub fn is_some(self) -> bool {
        self.at.is_some()
    }

    /// The instant itself.
    pub fn instant(self) -> Option<Instant> {
        self.at
    }

    /// Time left; zero when passed, `None` when there is no limit.
    pub fn remaining(self) -> Option<Duration> {
        if self.cancelled() {
            return Some(Duration::ZERO);
        }
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether the time is up.
    pub fn passed(self) -> bool {
        self.cancelled() || self.at.is_some_and(|at| at <= Instant::now())
    }

    /// Milliseconds for `poll(2)`, rounded up; -1 when there is no limit.
    pub fn poll_ms(self) -> i32 {
        match self.remaining() {
            None => -1,
            Some(left) => {
                let ms = left.as_nanos().div_ceil(1_000_000);
                i32::try_from(ms).unwrap_or(i32::MAX)
            }
        }
    }
}

/// The monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit_and_min_prefers_a_limit() {
        assert!(!Deadline::after_ms(0).is_some());
        assert_eq!(Deadline::NONE.poll_ms(), -1);
        let d = Deadline::NONE.min(Deadline::after_ms(50));
        assert!(d.is_some() && !d.passed());
        assert!(d.poll_ms() > 0 && d.poll_ms() <= 50);
    }

    #[test]
    fn a_cancelled_deadline_has_passed_also_in_what_is_derived_from_it() {
        static FLAG: AtomicBool = AtomicBool::new(false);
        let d = Deadline::after_ms(60_000).min(Deadline::NONE.with_cancel(&FLAG));
        assert!(d.is_some() && !d.passed() && d.poll_ms() > 1_000);
        FLAG.store(true, Ordering::Release);
        assert!(d.passed());
        assert_eq!(d.poll_ms(), 0);
        FLAG.store(false, Ordering::Release);
        assert!(!d.passed());
    }
}
