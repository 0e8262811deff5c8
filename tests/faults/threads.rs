//! Many threads on one file: no accepted byte is lost, whatever they call at the same time.
use crate::rig::{FLUSH, Rig, ample};
use dfs::client::file_system::CreateOptions;
use dfs::write::SyncMode;
use dfs_testkit::minidfs::{Fault, Rule, Site};
use std::time::Duration;

/// Threads append records of one byte value each; every record must be in the file, whole.
fn hammer(rig: &Rig, options: &CreateOptions, mode: SyncMode, records: usize) {
    const THREADS: u8 = 6;
    let options = CreateOptions { create_parents: true, ..options.clone() };
    let file = rig.fs.create("/threads", &options, ample()).unwrap();
    std::thread::scope(|scope| {
        for t in 1..=THREADS {
            let file = &file;
            scope.spawn(move || {
                for i in 0..records {
                    file.write(&[t; 64], ample()).unwrap();
                    let pos = file.pos();
                    if i % 2 == 0 {
                        let mode = if i % 4 == 0 { mode } else { FLUSH };
                        file.flush(mode, ample()).unwrap();
                        assert!(file.durable() >= pos);
                    }
                }
            });
        }
    });
    file.close(ample()).unwrap();
    let all = rig.read("/threads");
    assert_eq!(all.len(), usize::from(THREADS) * records * 64);
    for t in 1..=THREADS {
        let count = all.chunks(64).filter(|r| r.iter().all(|b| *b == t)).count();
        assert_eq!(count, records, "records of thread {t}");
    }
    drop(file);
    rig.check_leaks();
}

#[test]
fn blocks_ended_by_flushes_lose_nothing() {
    let rig = Rig::new(3);
    rig.mini
        .faults()
        .add(Rule::new(Site::Ack, Fault::Delay(Duration::from_millis(3))).on(0).times(300));
    let end = SyncMode { end_block: true, ..FLUSH };
    hammer(&rig, &CreateOptions::default(), end, 40);
}

/// A length told to the NameNode belongs to the block that it had then.
#[test]
fn lengths_are_told_while_blocks_end() {
    let rig = Rig::new(3);
    rig.mini.faults().add(Rule::rpc("fsync", Fault::Delay(Duration::from_millis(2))).always());
    let options = CreateOptions { block_size: Some(1024), ..Default::default() };
    hammer(&rig, &options, SyncMode { update_length: true, ..FLUSH }, 40);
}

#[test]
fn faults_hit_while_all_threads_wait() {
    let replace = "dfs.client.block.write.replace-datanode-on-failure";
    let (policy, effort) = (format!("{replace}.policy"), format!("{replace}.best-effort"));
    let rig = Rig::with(6, &[(&policy, "ALWAYS"), (&effort, "true")]);
    for node in 0..6 {
        let rule = Rule::new(Site::PacketReceived, Fault::Close).on(node);
        rig.mini.faults().add(rule.skip(5 + 7 * node as u64));
    }
    let options = CreateOptions { block_size: Some(4096), ..Default::default() };
    hammer(&rig, &options, SyncMode { sync: true, ..FLUSH }, 60);
    assert!(rig.fs.stats().pipeline_recoveries > 3);
}
