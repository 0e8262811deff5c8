//! Runs seeded fault schedules of readers against minidfs; exits with 1 when one violates the
//! property.
use std::process::ExitCode;

fn main() -> ExitCode {
    dfs_testkit::campaign::main::<dfs_testkit::chaos_read::ChaosRead>()
}
