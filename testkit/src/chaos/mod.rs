//! Chaos: seeded fault schedules against the real client over real sockets.
//!
//! A schedule is what some threads do with one file (write, hflush, hsync, end blocks, read back,
//! append, close or abandon) and what goes wrong meanwhile (nodes killed, paused, restarted with a
//! warning, slow, out of space; packets corrupted; acks lost, late, repeated, false; connections
//! cut; NameNodes slow, failing over, losing answers; the lease stolen). All of it follows from a
//! seed, except for the interleaving of threads. After each schedule one property is checked:
//!
//! - no byte that a flush acknowledged is lost or altered, in the files of the replicas and for a
//!   reader, also while the file is open;
//! - no byte appears that was never written;
//! - every call returned within its limit;
//! - a broken file says so for good, and buffers, leases and connections come back.
//!
//! Clusters have short time limits and are used for many schedules; many run at once, because most
//! of them wait most of the time.
mod check;
mod lane;
mod run;
mod schedule;
mod workload;

pub use run::{Chaos, Counts};
pub use schedule::Schedule;
