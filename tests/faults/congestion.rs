//! Acks that tell of load: congestion makes the writer pause, slowness makes a node leave.
use crate::rig::{FLUSH, Rig, cluster, timed};
use dfs_testkit::minidfs::{Fault, Rule, Site};
use std::time::{Duration, Instant};

const CONGESTED: Fault = Fault::AckFlag(3 << 5);
const SLOW: Fault = Fault::AckFlag(2 << 7);
const MEAN: &str = "dfs.client.congestion.backoff.mean.time";
const MAX: &str = "dfs.client.congestion.backoff.max.time";
const SLOW_LIMIT: &str = "dfs.client.mark.slownode.as.badnode.threshold";
const POLICY: &str = "dfs.client.block.write.replace-datanode-on-failure.policy";

#[test]
fn congestion_slows_the_writer_down() {
    let rig = Rig::with(3, &[(MEAN, "40"), (MAX, "80")]);
    let mut log = rig.create();
    rig.mini.faults().add(Rule::new(Site::Ack, CONGESTED).on(0).always());
    let started = Instant::now();
    for _ in 0..20 {
        log.record(100).unwrap();
    }
    // The pauses tend to the cap; half of it is certainly exceeded in the mean.
    assert!(started.elapsed() > Duration::from_millis(200), "{:?}", started.elapsed());
    let pauses = rig.fs.stats().congestion_pauses;
    assert!((15..=20).contains(&pauses), "{pauses}");
    rig.mini.faults().clear();
    log.record(100).unwrap();
    log.record(100).unwrap();
    assert!(rig.fs.stats().congestion_pauses <= pauses + 1);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_pause_leaves_time_to_the_callers_deadline() {
    // A pause longer than the DataNodes' patience would need heartbeats of the keeper.
    let patient = cluster(3).configure(|c| c.socket_timeout = Duration::from_secs(60));
    let rig = Rig::of(patient, &[(MEAN, "60000"), (MAX, "60000")]);
    let mut log = rig.create();
    rig.mini.faults().add(Rule::new(Site::Ack, CONGESTED).on(1).always());
    log.record(100).unwrap();
    for _ in 0..3 {
        log.write(100).unwrap();
        timed(400, |d| log.file.flush(FLUSH, d)).expect("half of the time is enough");
    }
    rig.check_acked(&log);
    rig.mini.faults().clear();
    timed(400, |d| log.file.flush(FLUSH, d)).unwrap();
    log.file.close(crate::rig::ms(2000)).unwrap();
    rig.check_closed(&log, 3);
}

#[test]
fn a_slow_node_leaves_after_enough_acks() {
    for position in 0..3 {
        let rig = Rig::with(3, &[(SLOW_LIMIT, "4"), (POLICY, "NEVER")]);
        let mut log = rig.create();
        log.record(100).unwrap();
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::Ack, SLOW).on(node).always());
        for _ in 0..3 {
            log.record(100).unwrap();
            assert_eq!(log.file.pipeline().len(), 3);
        }
        log.record(100).unwrap();
        log.record(100).unwrap();
        assert_eq!(log.file.pipeline().len(), 2);
        assert!(!log.file.pipeline().contains(&rig.name(node)));
        rig.check_acked(&log);
        rig.finish(log, 2);
    }
}

#[test]
fn slowness_now_and_then_is_forgiven_and_so_is_the_last_node() {
    let rig = Rig::with(3, &[(SLOW_LIMIT, "2"), (POLICY, "NEVER")]);
    let mut log = rig.create();
    log.record(100).unwrap();
    let node = rig.index_of(&log, 1);
    for i in 0..10 {
        if i % 2 == 0 {
            rig.mini.faults().add(Rule::new(Site::Ack, SLOW).on(node));
        }
        log.record(100).unwrap();
    }
    assert_eq!(log.file.pipeline().len(), 3);
    // All are slow: one stays.
    rig.mini.faults().add(Rule::new(Site::Ack, SLOW).always());
    for _ in 0..20 {
        log.record(100).unwrap();
    }
    assert_eq!(log.file.pipeline().len(), 1);
    rig.check_acked(&log);
    rig.finish(log, 1);
}
