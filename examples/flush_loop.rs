//! A bare loop for measuring tools: `flush_loop URI COUNT SIZE [pread]`.
//!
//! Writes and flushes COUNT records of SIZE bytes (after 50 to warm up), or with `pread` reads
//! COUNT times SIZE bytes; marks the measured part with two calls of `getppid`, which a tracer
//! sees.
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::error::{Error, Result, Status};
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use dfs::write::SyncMode;

const WARM_UP: usize = 50;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [uri, count, size, rest @ ..] = &args[..] else {
        return Err(Error::new(Status::InvalidArgument, "flush_loop URI COUNT SIZE [pread]"));
    };
    let number = |text: &str| {
        text.parse::<usize>().map_err(|e| Error::new(Status::InvalidArgument, e.to_string()))
    };
    let (count, size) = (number(count)?, number(size)?);
    let limit = || Deadline::after_ms(60_000);
    let fs = FileSystem::connect(&Config::new(), Some(uri), limit())?;
    let options = CreateOptions {
        overwrite: true,
        create_parents: true,
        replication: Some(1),
        ..CreateOptions::default()
    };
    let path = format!("/flush_loop/{}", std::process::id());
    let file = fs.create(&path, &options, limit())?;
    let record = vec![7; size];
    if rest.first().map(String::as_str) == Some("pread") {
        for _ in 0..4 {
            file.write(&record, limit())?;
        }
        file.close(limit())?;
        let file = fs.open(&path, ReadOptions::default(), limit())?;
        let mut buffer = vec![0; size];
        for i in 0..WARM_UP + count {
            if i == WARM_UP {
                mark();
            }
            file.pread((i % 4 * size) as u64, &mut buffer, limit())?;
        }
        mark();
        return Ok(());
    }
    for i in 0..WARM_UP + count {
        if i == WARM_UP {
            mark();
        }
        file.write(&record, limit())?;
        file.flush(SyncMode::default(), limit())?;
    }
    mark();
    file.close(limit())
}

/// A system call that nothing else here makes.
fn mark() {
    let _parent = std::os::unix::process::parent_id();
}
