//! The campaign: how schedules, lanes and counts belong together.
use std::fmt;

use super::lane::Lane;
use super::schedule::Schedule;
use crate::campaign::Campaign;

/// Random faults under readers.
#[derive(Debug)]
pub struct ChaosRead;

/// What schedules did.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Calls of readers.
    pub calls: u64,
    /// Calls that failed as they may: short of time, or no DataNode was spared.
    pub errors: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Failures of replicas that readers got over.
    pub failovers: u64,
    /// Second requests because of late ones.
    pub hedged: u64,
    /// Replicas whose data did not match its checksums.
    pub checksum_failures: u64,
    /// Most that a call exceeded its limit by, ms: the load of the machine, if all is well.
    pub late_ms: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls, {} errors that may be, {} bytes compared, {} failovers, {} checksum \
             failures, {} hedged; latest return {} ms past its limit",
            self.calls,
            self.errors,
            self.bytes,
            self.failovers,
            self.checksum_failures,
            self.hedged,
            self.late_ms
        )
    }
}

impl Campaign for ChaosRead {
    type Schedule = Schedule;
    type Lane = Lane;
    type Counts = Counts;
    const NAME: &'static str = "chaos-read";
    const LANES: usize = 16;
    const KINDS: usize = 1;

    fn schedule(seed: u64) -> Schedule {
        Schedule::new(seed)
    }

    fn start(_kind: usize, seed: u64) -> Result<Lane, String> {
        Lane::start(seed)
    }

    fn run(lane: &Lane, schedule: &Schedule) -> Result<(Vec<String>, Counts), String> {
        lane.run(schedule)
    }

    fn add(sum: &mut Counts, one: &Counts) {
        sum.calls += one.calls;
        sum.errors += one.errors;
        sum.bytes += one.bytes;
        sum.failovers += one.failovers;
        sum.hedged += one.hedged;
        sum.checksum_failures += one.checksum_failures;
        sum.late_ms = sum.late_ms.max(one.late_ms);
    }
}
