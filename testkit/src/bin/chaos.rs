//! Runs seeded fault schedules of writers against minidfs; exits with 1 when one violates the
//! property.
use std::process::ExitCode;

fn main() -> ExitCode {
    dfs_testkit::campaign::main::<dfs_testkit::chaos::Chaos>()
}
