//! The campaign: how schedules, lanes and counts belong together.
use std::fmt;

use super::lane::Lane;
use super::schedule::{SIZES, Schedule};
use crate::campaign::Campaign;

/// Random faults under writers.
#[derive(Debug)]
pub struct Chaos;

/// What schedules did.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Pipeline faults that the client saw.
    pub faults: u64,
    /// Pipelines that it rebuilt.
    pub recoveries: u64,
    /// Files that broke for good, as they may with too many faults.
    pub broken: u64,
    /// Reads of open files.
    pub reads: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Most that a call exceeded its limit by, ms: the load of the machine, if all is well.
    pub late_ms: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} faults, {} recoveries, {} files broken, {} reads of open files, {} bytes; latest \
             return {} ms past its limit",
            self.faults, self.recoveries, self.broken, self.reads, self.bytes, self.late_ms
        )
    }
}

impl Campaign for Chaos {
    type Schedule = Schedule;
    type Lane = Lane;
    type Counts = Counts;
    const NAME: &'static str = "chaos";
    const LANES: usize = 24;
    const KINDS: usize = SIZES.len();

    fn schedule(seed: u64) -> Schedule {
        Schedule::new(seed)
    }

    fn start(kind: usize, seed: u64) -> Result<Lane, String> {
        Lane::start(kind, seed)
    }

    fn run(lane: &Lane, schedule: &Schedule) -> Result<(Vec<String>, Counts), String> {
        lane.run(schedule)
    }

    fn add(sum: &mut Counts, one: &Counts) {
        sum.faults += one.faults;
        sum.recoveries += one.recoveries;
        sum.broken += one.broken;
        sum.reads += one.reads;
        sum.bytes += one.bytes;
        sum.late_ms = sum.late_ms.max(one.late_ms);
    }
}
