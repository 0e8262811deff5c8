//! Deadlines; the only reader of the system clock.
#![allow(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
use std::time::{Duration, Instant};

/// The point in time at which a blocking call gives up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No limit of its own: only the limits of the steps inside apply.
    pub const NONE: Deadline = Deadline(None);

    /// Has passed already: the call does what needs no waiting.
    pub fn at_once() -> Deadline {
        Deadline(Some(Instant::now()))
    }

    /// `duration` from now; a zero duration means no limit (as Hadoop's timeouts read 0).
    pub fn after(duration: Duration) -> Deadline {
        if duration.is_zero() {
            Deadline::NONE
        } else {
            Deadline(Instant::now().checked_add(duration))
        }
    }

    /// `ms` milliseconds from now; 0 means no limit.
    pub fn after_ms(ms: u64) -> Deadline {
        Deadline::after(Duration::from_millis(ms))
    }

    /// This instant.
    pub fn at(instant: Instant) -> Deadline {
        Deadline(Some(instant))
    }

    /// The earlier of two deadlines.
    #[must_use]
    pub fn min(self, other: Deadline) -> Deadline {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Deadline(Some(a.min(b))),
            (a, b) => Deadline(a.or(b)),
        }
    }

    /// Whether there is a limit.
    pub fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// The instant itself.
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Time left; zero when passed, `None` when there is no limit.
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether the time is up.
    pub fn passed(self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
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
}
