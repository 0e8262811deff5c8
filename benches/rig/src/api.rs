//! What a client under test can do, so that one set of workloads serves them all.

/// Errors are words for the report.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// A connected file system.
pub(crate) trait Fs: Send + Sync {
    /// Creates or replaces a file, parents included.
    fn create(&self, path: &str, replication: u32) -> Result<Box<dyn Out>>;
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

/// A file being read; `pread` may be called by many threads.
pub(crate) trait In: Send + Sync {
    /// Length of the file, bytes.
    fn len(&self) -> u64;
    /// Reads at the cursor; 0 at the end.
    fn read(&self, buf: &mut [u8]) -> Result<usize>;
    /// Fills `buf` from `offset`.
    fn pread(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
}
