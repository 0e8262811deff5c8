//! What to do after a failed call: a pure decision table.
use crate::error::Error;

/// Why an attempt failed, as far as a retry depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No connection could be made; nothing was sent.
    Unreachable,
    /// The connection broke before any byte of the call was sent.
    Unsent,
    /// The connection broke after the call may have been sent.
    Lost,
    /// No answer within `ipc.client.rpc-timeout.ms`.
    Silent,
    /// The server is not active (StandbyException, ObserverRetryOnActiveException).
    Standby,
    /// The server asks for a retry (RetriableException).
    Retriable,
    /// The server is in safe mode.
    SafeMode,
    /// Anything that a repetition does not change.
    Final,
}

/// A failed attempt.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What a retry depends on.
    pub cause: Cause,
    /// What the caller gets if there is none.
    pub error: Error,
}

impl Failed {
    /// Puts both together.
    pub fn new(cause: Cause, error: Error) -> Failed {
        Failed { cause, error }
    }
}

/// How often a call has been tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Retries of any kind so far.
    pub retries: u32,
    /// Those of them that went to another NameNode.
    pub failovers: u32,
}

/// The limits of retrying.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Several NameNodes.
    Failover {
        /// `dfs.client.failover.max.attempts`.
        max_failovers: u32,
        /// `dfs.client.retry.max.attempts`.
        max_retries: u32,
        /// `dfs.client.failover.sleep.base.millis`.
        sleep_base_ms: u64,
        /// `dfs.client.failover.sleep.max.millis`.
        sleep_max_ms: u64,
    },
    /// One NameNode. `spec` is `dfs.client.retry.policy.spec` as (sleep ms, tries) when
    /// `dfs.client.retry.policy.enabled`, else empty.
    Plain {
        /// Pairs in the order in which they are used up.
        spec: Vec<(u64, u32)>,
    },
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Give the error to the caller.
    Fail,
    /// Sleep, then try the same NameNode again.
    Retry {
        /// Sleep before the next attempt, ms.
        sleep_ms: u64,
    },
    /// Sleep, then try the next NameNode.
    Failover {
        /// Sleep before the next attempt, ms.
        sleep_ms: u64,
    },
}

impl Policy {
    /// Decides after an attempt failed.
    ///
    /// `repeatable` says that the method is idempotent or answered from the NameNode's retry
    /// cache; `random` lies in 0..1 and spreads the sleeps.
    #[must_use]
    pub fn decide(&self, cause: Cause, done: Attempts, repeatable: bool, random: f64) -> Decision {
        if cause == Cause::Final || (maybe_executed(cause) && !repeatable) {
            return Decision::Fail;
        }
        match self {
            Policy::Failover { max_failovers, max_retries, sleep_base_ms, sleep_max_ms } => {
                if done.failovers >= *max_failovers
                    || done.retries.saturating_sub(done.failovers) > *max_retries
                {
                    return Decision::Fail;
                }
                // Hadoop 3.4 RetryPolicies.FailoverOnNetworkExceptionRetry: the first time costs
                // no sleep, then it grows with the number of steps of that kind.
                let sleep_ms = |times| exponential_ms(*sleep_base_ms, *sleep_max_ms, times, random);
                match cause {
                    Cause::Unreachable | Cause::Unsent | Cause::Standby => {
                        Decision::Failover { sleep_ms: sleep_ms(done.failovers) }
                    }
                    Cause::Lost | Cause::Silent => {
                        Decision::Failover { sleep_ms: sleep_ms(done.retries) }
                    }
                    Cause::Retriable => Decision::Retry { sleep_ms: sleep_ms(done.retries) },
                    Cause::SafeMode | Cause::Final => Decision::Fail,
                }
            }
            Policy::Plain { spec } => plain(spec, cause, done.retries, random),
        }
    }
}

/// Whether the NameNode may have carried the call out.
fn maybe_executed(cause: Cause) -> bool {
    matches!(cause, Cause::Lost | Cause::Silent)
}

fn plain(spec: &[(u64, u32)], cause: Cause, retries: u32, random: f64) -> Decision {
    // Differs: with one NameNode and no retry policy, Hadoop's client fails a call whose
    // connection breaks. We try once more on a fresh connection: every method that we call is
    // idempotent or answered from the NameNode's retry cache, since the call id stays the same.
    if retries == 0 && matches!(cause, Cause::Lost | Cause::Unsent) {
        return Decision::Retry { sleep_ms: 0 };
    }
    // Hadoop 3.4 RetryUtils#getDefaultRetryPolicy: local I/O errors, RetriableException and
    // SafeModeException; a StandbyException is any other remote exception here.
    if cause == Cause::Standby {
        return Decision::Fail;
    }
    let mut left = retries;
    for &(sleep_ms, tries) in spec {
        if left < tries {
            return Decision::Retry { sleep_ms: spread(sleep_ms, random) };
        }
        left -= tries;
    }
    Decision::Fail
}

/// min(base·2^times, max)·(0.5 + random); nothing the first time.
fn exponential_ms(base_ms: u64, max_ms: u64, times: u32, random: f64) -> u64 {
    if times == 0 {
        return 0;
    }
    let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    spread(base_ms.saturating_mul(factor).min(max_ms), random)
}

fn spread(ms: u64, random: f64) -> u64 {
    (ms as f64 * (0.5 + random)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ha() -> Policy {
        Policy::Failover {
            max_failovers: 15,
            max_retries: 10,
            sleep_base_ms: 500,
            sleep_max_ms: 15000,
        }
    }

    fn at(retries: u32, failovers: u32) -> Attempts {
        Attempts { retries, failovers }
    }

    #[test]
    fn a_standby_costs_one_free_step_and_then_growing_sleeps() {
        let p = ha();
        let d = |r, f| p.decide(Cause::Standby, at(r, f), true, 0.5);
        assert_eq!(d(0, 0), Decision::Failover { sleep_ms: 0 });
        assert_eq!(d(1, 1), Decision::Failover { sleep_ms: 1000 });
        assert_eq!(d(2, 2), Decision::Failover { sleep_ms: 2000 });
        assert_eq!(d(9, 9), Decision::Failover { sleep_ms: 15000 });
        assert_eq!(d(14, 14), Decision::Failover { sleep_ms: 15000 });
        assert_eq!(d(15, 15), Decision::Fail);
    }

    #[test]
    fn a_busy_server_is_asked_again_within_limits() {
        let p = ha();
        let d = |r| p.decide(Cause::Retriable, at(r, 0), false, 0.0);
        assert_eq!(d(0), Decision::Retry { sleep_ms: 0 });
        assert_eq!(d(1), Decision::Retry { sleep_ms: 500 });
        assert_eq!(d(10), Decision::Retry { sleep_ms: 7500 });
        assert_eq!(d(11), Decision::Fail);
    }

    #[test]
    fn only_repeatable_calls_survive_a_lost_connection() {
        for p in [ha(), Policy::Plain { spec: vec![(10, 3)] }] {
            for cause in [Cause::Lost, Cause::Silent] {
                assert_eq!(p.decide(cause, at(0, 0), false, 0.0), Decision::Fail);
                assert_ne!(p.decide(cause, at(0, 0), true, 0.0), Decision::Fail);
            }
            assert_ne!(p.decide(Cause::Unsent, at(0, 0), false, 0.0), Decision::Fail);
            assert_eq!(p.decide(Cause::Final, at(0, 0), true, 0.0), Decision::Fail);
        }
    }

    #[test]
    fn one_namenode_gives_one_fresh_connection() {
        let p = Policy::Plain { spec: Vec::new() };
        assert_eq!(p.decide(Cause::Lost, at(0, 0), true, 0.0), Decision::Retry { sleep_ms: 0 });
        assert_eq!(p.decide(Cause::Lost, at(1, 0), true, 0.0), Decision::Fail);
        for cause in [Cause::Unreachable, Cause::Standby, Cause::Retriable, Cause::SafeMode] {
            assert_eq!(p.decide(cause, at(0, 0), true, 0.0), Decision::Fail, "{cause:?}");
        }
    }

    #[test]
    fn the_retry_spec_is_used_up_in_order() {
        let p = Policy::Plain { spec: vec![(10_000, 2), (60_000, 1)] };
        let d = |r| p.decide(Cause::SafeMode, at(r, 0), true, 0.5);
        assert_eq!(d(0), Decision::Retry { sleep_ms: 10_000 });
        assert_eq!(d(1), Decision::Retry { sleep_ms: 10_000 });
        assert_eq!(d(2), Decision::Retry { sleep_ms: 60_000 });
        assert_eq!(d(3), Decision::Fail);
        assert_eq!(p.decide(Cause::Standby, at(0, 0), true, 0.5), Decision::Fail);
    }
}
