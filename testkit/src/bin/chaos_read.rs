//! Runs seeded fault schedules for reads against minidfs; exits with 1 when one violates the
//! property.
use std::process::ExitCode;
use std::time::Duration;

use dfs_testkit::chaos_read::{Options, Report, run};

const USAGE: &str = "usage: chaos-read [--seeds N] [--start N] [--lanes N]

  --seeds N   number of schedules (1000)
  --start N   first seed (0)
  --lanes N   clusters that work at once (16)";

fn parse() -> Result<Option<Options>, String> {
    let mut options =
        Options { start: 0, seeds: 1000, lanes: 16, progress: Duration::from_secs(10) };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        if name == "--help" {
            return Ok(None);
        }
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number: u64 = value.parse().map_err(|e| format!("{name} {value}: {e}"))?;
        match name.as_str() {
            "--seeds" => options.seeds = number,
            "--start" => options.start = number,
            "--lanes" => options.lanes = usize::try_from(number).unwrap_or(usize::MAX).min(256),
            _ => return Err(format!("unknown option {name}\n{USAGE}")),
        }
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("chaos-read: {message}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => tell(&report),
        Err(e) => {
            eprintln!("chaos-read: {e}");
            ExitCode::from(2)
        }
    }
}

fn tell(report: &Report) -> ExitCode {
    println!(
        "{} schedules in {:.1} s ({:.1}/s): {} calls, {} errors that may be, {} bytes compared, {} \
         failovers, {} checksum failures, {} hedged; latest return {} ms past its limit",
        report.seeds,
        report.time.as_secs_f64(),
        report.rate(),
        report.calls,
        report.errors,
        report.bytes,
        report.failovers,
        report.checksum_failures,
        report.hedged,
        report.late_ms
    );
    if let Some(left) = &report.left {
        println!("FAILED: {left}");
    }
    if report.failures.is_empty() {
        return if report.left.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let seeds: Vec<String> = report.failures.iter().map(|f| f.seed.to_string()).collect();
    println!("{} failed: seeds {}", seeds.len(), seeds.join(" "));
    ExitCode::FAILURE
}
