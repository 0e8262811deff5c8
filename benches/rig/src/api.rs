//! What a client under test can do, so that one set of workloads serves them all.

/// Errors are words for the report.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// A connected file system.
pub(crate) trait Fs: Send + Sync {
    /// Creates or replaces a file, parents included.
    fn create(&self, path: &str, replication: u32) -> Result<Box<dyn Out>>;
    /// The same for a log that threads share; with `prepare`, its first flush costs no more than
    /// any other. `block_size` 0: the default.
    fn create_log(
        &self,
        path: &str,
        replication: u32,
        block_size: u64,
        prepare: bool,
    ) -> Result<Box<dyn Log>>;
    /// Opens a file for reading.
    fn open(&self, path: &str) -> Result<Box<dyn In>>;
    /// Connections made for reads so far, if the client counts them.
    fn connects(&self) -> Option<u64> {
        None
    }
}

/// A file being written.
pub(crate) trait Out: Send {
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    fn hflush(&mut self) -> Result<()>;
    fn close(&mut self) -> Result<()>;
}

/// A file being written by many threads.
pub(crate) trait Log: Send + Sync {
    fn append(&self, bytes: &[u8]) -> Result<()>;
    fn sync(&self) -> Result<()>;
    /// Ends the file without waiting for it.
    fn close_later(&self) -> Result<()>;
    fn end(&self) -> Result<()>;
}

/// A file being read; `pread` may be called by many threads.
pub(crate) trait In: Send + Sync {
    /// Length of the file, bytes.
    fn len(&self) -> u64;
    /// Reads at the cursor; 0 at the end.
    fn read(&self, buf: &mut [u8]) -> Result<usize>;
    /// Fills `buf` from `offset`.
    fn pread(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
}
