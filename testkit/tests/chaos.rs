//! A few hundred chaos schedules on every run of the tests; many more run with
//! `cargo run --release -p dfs-testkit --bin chaos -- --seeds 10000`.
use std::time::Duration;

use dfs_testkit::campaign::{Options, run};
use dfs_testkit::chaos::Chaos;

#[test]
fn hundreds_of_schedules_lose_nothing() {
    let options = Options { start: 0, seeds: 300, lanes: 24, progress: Duration::ZERO };
    let report = run::<Chaos>(&options).expect("clusters start");
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert_eq!(report.seeds, 300);
    assert_eq!(report.left, None);
    // The schedules do what they are for.
    assert!(report.counts.recoveries > 20, "{report:?}");
}
