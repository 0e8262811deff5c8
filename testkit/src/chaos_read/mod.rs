//! Chaos for reads: seeded fault schedules against the real client over real sockets.
//!
//! A schedule is how some threads read one file (at the cursor, positioned, vectored, hedged or
//! not; perhaps while it is being written) and what goes wrong meanwhile: DataNodes killed, paused
//! or cut off, answers late, refused, cut, ended early, spoilt in header, data or checksum; on the
//! disk, data, checksums or meta files damaged, replicas short, stale or gone; locations late. All
//! of it follows from a seed, except for the interleaving of threads. The property:
//!
//! - no wrong byte is ever delivered, and no byte is missing but behind the end;
//! - every call returns within its limit;
//! - as long as one DataNode was left alone, every read with time enough succeeds;
//! - buffers, connections and threads come back.
mod lane;
mod run;
mod schedule;
mod workload;

pub use run::{ChaosRead, Counts};
pub use schedule::Schedule;
