//! A few hundred schedules of faults for reads on every run of the tests; `make chaos-read` runs
//! many more.
use std::time::Duration;

use dfs_testkit::campaign::{Options, run};
use dfs_testkit::chaos_read::ChaosRead;

#[test]
fn hundreds_of_schedules_bring_the_right_bytes() {
    let options = Options { start: 0, seeds: 400, lanes: 16, progress: Duration::ZERO };
    let report = run::<ChaosRead>(&options).expect("clusters start");
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert_eq!(report.seeds, 400);
    assert_eq!(report.left, None);
    // The schedules do what they are for.
    let counts = report.counts;
    assert!(counts.failovers > 100 && counts.checksum_failures > 10, "{counts:?}");
    assert!(counts.hedged > 10 && counts.bytes > 10_000_000, "{counts:?}");
}
