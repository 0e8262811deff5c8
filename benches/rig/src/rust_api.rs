//! libdfs through its Rust interface.
use crate::api::{Fs, In, Log, Out, Result};
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::error::Error;
use dfs::read::{InputStream, ReadOptions};
use dfs::time::Deadline;
use dfs::write::{OutputStream, SyncMode};
use std::sync::atomic::Ordering;

/// Limit of any one call.
fn limit() -> Deadline {
    Deadline::after_ms(120_000)
}

fn words(error: Error) -> String {
    error.to_string()
}

struct RustFs(FileSystem);
struct RustOut(OutputStream);
struct RustIn(InputStream);

/// Connects with settings on top of the defaults.
pub(crate) fn connect(uri: &str, settings: &[(String, String)]) -> Result<Box<dyn Fs>> {
    let mut config = Config::new();
    for (key, value) in settings {
        config.set(key, value);
    }
    let fs = FileSystem::connect(&config, Some(uri), limit()).map_err(words)?;
    Ok(Box::new(RustFs(fs)))
}

fn options(replication: u32) -> CreateOptions {
    CreateOptions {
        overwrite: true,
        create_parents: true,
        replication: Some(replication),
        ..CreateOptions::default()
    }
}

impl Fs for RustFs {
    fn create(&self, path: &str, replication: u32) -> Result<Box<dyn Out>> {
        let out = self.0.create(path, &options(replication), limit()).map_err(words)?;
        Ok(Box::new(RustOut(out)))
    }

    fn create_log(
        &self,
        path: &str,
        replication: u32,
        block_size: u64,
        prepare: bool,
    ) -> Result<Box<dyn Log>> {
        let block_size = (block_size > 0).then_some(block_size);
        let options = CreateOptions { block_size, ..options(replication) };
        let out = self.0.create(path, &options, limit()).map_err(words)?;
        if prepare {
            out.prepare(limit()).map_err(words)?;
        }
        Ok(Box::new(RustOut(out)))
    }

    fn open(&self, path: &str) -> Result<Box<dyn In>> {
        let file = self.0.open(path, ReadOptions::default(), limit()).map_err(words)?;
        Ok(Box::new(RustIn(file)))
    }

    fn connects(&self) -> Option<u64> {
        Some(self.0.read_context().stats.connects.load(Ordering::Relaxed))
    }
}

impl Out for RustOut {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write(bytes, limit()).map_err(words)
    }

    fn hflush(&mut self) -> Result<()> {
        self.0.flush(SyncMode::default(), limit()).map_err(words)
    }

    fn close(&mut self) -> Result<()> {
        self.0.close(limit()).map_err(words)
    }
}

impl Log for RustOut {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        self.0.write(bytes, limit()).map_err(words)
    }

    fn sync(&self) -> Result<()> {
        self.0.flush(SyncMode::default(), limit()).map_err(words)
    }

    fn close_later(&self) -> Result<()> {
        self.0.close_begin(120_000).map_err(words)
    }

    fn end(&self) -> Result<()> {
        self.0.close(limit()).map_err(words)
    }
}

impl In for RustIn {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf, limit()).map_err(words)
    }

    fn pread(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let wanted = buf.len();
        match self.0.pread(offset, buf, limit()).map_err(words)? {
            n if n == wanted => Ok(()),
            n => Err(format!("pread of {wanted} bytes at {offset} brought {n}")),
        }
    }
}
