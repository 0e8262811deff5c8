//! The crate hdfs-native, a peer in Rust on an async runtime. Its calls are awaited on the
//! measuring thread; connections belong to tokio's own threads.
use crate::api::{Fs, In, Log, Out, Result};
use hdfs_native::file::{FileReader, FileWriter};
use hdfs_native::{Client, ClientBuilder, WriteOptions};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

struct NativeFs {
    runtime: Arc<Runtime>,
    client: Client,
}

struct NativeOut {
    runtime: Arc<Runtime>,
    writer: FileWriter,
}

struct NativeIn {
    runtime: Arc<Runtime>,
    reader: FileReader,
    cursor: Mutex<usize>,
}

/// Connects with settings on top of the defaults.
pub(crate) fn connect(uri: &str, settings: &[(String, String)]) -> Result<Box<dyn Fs>> {
    let runtime = Arc::new(Runtime::new().map_err(words)?);
    let settings = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let builder = ClientBuilder::new().with_url(uri).with_config(settings);
    let client = builder.with_io_runtime(runtime.handle().clone()).build().map_err(words)?;
    Ok(Box::new(NativeFs { runtime, client }))
}

impl Fs for NativeFs {
    fn create(&self, path: &str, replication: u32) -> Result<Box<dyn Out>> {
        let options = WriteOptions::default().overwrite(true).replication(replication);
        let writer = self.runtime.block_on(self.client.create(path, options)).map_err(words)?;
        Ok(Box::new(NativeOut { runtime: Arc::clone(&self.runtime), writer }))
    }

    fn create_log(&self, _: &str, _: u32, _: u64, _: bool) -> Result<Box<dyn Log>> {
        Err("hdfs-native has no hflush that threads can share".to_owned())
    }

    fn open(&self, path: &str) -> Result<Box<dyn In>> {
        let reader = self.runtime.block_on(self.client.read(path)).map_err(words)?;
        let runtime = Arc::clone(&self.runtime);
        Ok(Box::new(NativeIn { runtime, reader, cursor: Mutex::new(0) }))
    }
}

impl Out for NativeOut {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let bytes = bytes.to_vec().into();
        self.runtime.block_on(self.writer.write_bytes(bytes)).map(drop).map_err(words)
    }

    fn hflush(&mut self) -> Result<()> {
        Err("hdfs-native has no hflush".to_owned())
    }

    fn close(&mut self) -> Result<()> {
        self.runtime.block_on(self.writer.close()).map_err(words)
    }
}

impl In for NativeIn {
    fn len(&self) -> u64 {
        self.reader.file_length() as u64
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize> {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let take = buf.len().min(self.reader.file_length() - *cursor);
        let room = buf.get_mut(..take).unwrap_or_default();
        self.runtime.block_on(self.reader.read_range_buf(room, *cursor)).map_err(words)?;
        *cursor += take;
        Ok(take)
    }

    fn pread(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let offset = usize::try_from(offset).map_err(words)?;
        self.runtime.block_on(self.reader.read_range_buf(buf, offset)).map_err(words)
    }
}
