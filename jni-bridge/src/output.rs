//! Natives of files that are written.
use crate::boundary::{
    Outcome, call, check_array, direct_ref, long, optional_text, signed, size, text,
};
use crate::cancel::deadline;
use crate::handles::{self, Object, Output};
use dfs::checksum::ChecksumType;
use dfs::client::file_system::CreateOptions;
use dfs::error::{Error, Result as DfsResult, Status};
use dfs::write::SyncMode;
use jni::objects::{JByteArray, JByteBuffer, JClass, JObjectArray, JString};
use jni::sys::{jint, jlong};
use jni::{Env, EnvUnowned};
use std::sync::Arc;

// Flags of `Natives.create`, as the Java half has them.
const OVERWRITE: i32 = 1;
const CREATE_PARENTS: i32 = 1 << 1;
const SYNC_BLOCK: i32 = 1 << 2;
const NO_LOCAL_WRITE: i32 = 1 << 3;
const IGNORE_LOCALITY: i32 = 1 << 4;
const SHOULD_REPLICATE: i32 = 1 << 5;
const FAIL_FAST: i32 = 1 << 6;
const APPEND: i32 = 1 << 7;
const NEW_BLOCK: i32 = 1 << 8;

// Bits of `Natives.flush`.
const FLUSH_SYNC: i32 = 1;
const FLUSH_UPDATE_LENGTH: i32 = 1 << 1;
const FLUSH_END_BLOCK: i32 = 1 << 2;

/// Bytes of an array that are copied at once, before they go into packets. A packet has 64 KiB.
const COPY_BYTES: usize = 64 << 10;

fn positive<T: TryFrom<i64>>(value: i64, name: &str) -> DfsResult<Option<T>> {
    if value == 0 {
        return Ok(None);
    }
    let bad = |_| Error::new(Status::InvalidArgument, format!("{name} {value} is out of range"));
    T::try_from(value).map(Some).map_err(bad)
}

/// -1: not set, else 0 or 1.
pub(crate) fn three_states(value: i32) -> Option<bool> {
    (value >= 0).then_some(value != 0)
}

fn checksum_type(number: i32) -> DfsResult<Option<ChecksumType>> {
    Ok(match number {
        -1 => None,
        0 => Some(ChecksumType::Null),
        1 => Some(ChecksumType::Crc32),
        2 => Some(ChecksumType::Crc32c),
        _ => {
            let text = format!("the checksum type {number} is not known");
            return Err(Error::new(Status::InvalidArgument, text));
        }
    })
}

/// `long create(long fs, String path, int flags, int mode, int replication, long blockSize,
/// int bytesPerChecksum, int checksum, int packetBytes, int dropBehind, String favoredNodes,
/// int minReplicas, long timeoutMs, int interrupt)`: 0 (or -1 for mode, checksum and dropBehind)
/// means the default.
#[allow(clippy::too_many_arguments, reason = "one crossing of the boundary, no object to unpack")]
pub(crate) extern "system" fn create<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    flags: jint,
    mode: jint,
    replication: jint,
    block_size: jlong,
    bytes_per_checksum: jint,
    checksum: jint,
    packet_bytes: jint,
    drop_behind: jint,
    favored_nodes: JString<'local>,
    min_replicas: jint,
    timeout_ms: jlong,
    interrupt: jint,
) -> jlong {
    call(env, |env| {
        let fs = handles::file_system(fs)?;
        let path = text(env, &path, "the path")?;
        let deadline = deadline(timeout_ms, interrupt)?;
        let has = |flag: i32| flags & flag != 0;
        let favored = optional_text(env, &favored_nodes)?.unwrap_or_default();
        let favored = favored.split(',').map(str::trim).filter(|node| !node.is_empty());
        let options = CreateOptions {
            overwrite: has(OVERWRITE),
            create_parents: has(CREATE_PARENTS),
            permission: u32::try_from(mode).ok(),
            replication: positive(replication.into(), "the replication")?,
            block_size: positive(block_size, "the block size")?,
            bytes_per_checksum: positive(bytes_per_checksum.into(), "bytes per checksum")?,
            checksum: checksum_type(checksum)?,
            packet_bytes: positive(packet_bytes.into(), "the packet size")?,
            sync_block: has(SYNC_BLOCK),
            no_local_write: has(NO_LOCAL_WRITE),
            ignore_client_locality: has(IGNORE_LOCALITY),
            should_replicate: has(SHOULD_REPLICATE),
            drop_behind: three_states(drop_behind),
            favored_nodes: favored.map(str::to_owned).collect(),
            fail_fast: has(FAIL_FAST),
            min_replicas: u32::try_from(min_replicas).unwrap_or(0),
        };
        let stream = if has(APPEND) {
            fs.append(&path, has(NEW_BLOCK), &options, deadline)?
        } else {
            fs.create(&path, &options, deadline)?
        };
        let output = Output { stream, fs: (*fs).clone() };
        Ok(handles::insert(Object::Output(Arc::new(output)))?)
    })
}

/// `void write(long stream, ByteBuffer direct, int offset, int length, long timeoutMs,
/// int interrupt)`: after a failure the position tells how many bytes were taken.
pub(crate) extern "system" fn write<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    buffer: JByteBuffer<'local>,
    offset: jint,
    len: jint,
    timeout_ms: jlong,
    interrupt: jint,
) {
    call(env, |env| {
        let output = handles::output(stream)?;
        let bytes = direct_ref(env, &buffer, offset, len)?;
        if output.stream.try_write(bytes) {
            return Ok(());
        }
        Ok(output.stream.write(bytes, deadline(timeout_ms, interrupt)?)?)
    })
}

/// `void writeArray(long stream, byte[] array, int offset, int length, long timeoutMs,
/// int interrupt)`.
pub(crate) extern "system" fn write_array<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    array: JByteArray<'local>,
    offset: jint,
    len: jint,
    timeout_ms: jlong,
    interrupt: jint,
) {
    call(env, |env| {
        let output = handles::output(stream)?;
        let (start, count) = check_array(env, &array, offset, len)?;
        let deadline = deadline(timeout_ms, interrupt)?;
        let mut copy = output.fs.read_context().pool.take(count.min(COPY_BYTES), deadline)?;
        let mut done = 0;
        while done < count {
            let n = (count - done).min(COPY_BYTES);
            let part = copy.get_mut(..n).unwrap_or_default();
            // The sum is at most the array's length, so it fits.
            array.get_region(env, (start + done) as jint, signed(part))?;
            output.stream.write(part, deadline)?;
            done += n;
        }
        Ok(())
    })
}

/// `void flush(long stream, int mode, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn flush<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    mode: jint,
    timeout_ms: jlong,
    interrupt: jint,
) {
    call(env, |_| {
        let output = handles::output(stream)?;
        let mode = SyncMode {
            sync: mode & FLUSH_SYNC != 0,
            update_length: mode & FLUSH_UPDATE_LENGTH != 0,
            end_block: mode & FLUSH_END_BLOCK != 0,
        };
        Ok(output.stream.flush(mode, deadline(timeout_ms, interrupt)?)?)
    })
}

/// `void closeOutput(long stream, long timeoutMs, int interrupt)`: completes the file; the handle
/// stays.
pub(crate) extern "system" fn close<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    timeout_ms: jlong,
    interrupt: jint,
) {
    call(env, |_| {
        let output = handles::output(stream)?;
        Ok(output.stream.close(deadline(timeout_ms, interrupt)?)?)
    })
}

/// `long outputPosition(long stream)`: bytes of the file that were taken.
pub(crate) extern "system" fn position<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
) -> jlong {
    call(env, |_| Ok(long(handles::output(stream)?.stream.pos())?))
}

/// `long durable(long stream)`: bytes of the file that all DataNodes acknowledged.
pub(crate) extern "system" fn durable<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
) -> jlong {
    call(env, |_| Ok(long(handles::output(stream)?.stream.durable())?))
}

/// `String[] pipeline(long stream)`: `ip:port` of each DataNode.
pub(crate) extern "system" fn pipeline<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
) -> JObjectArray<'local, JString<'local>> {
    call(env, |env| {
        let nodes = handles::output(stream)?.stream.pipeline();
        strings(env, nodes.iter().map(|node| Some(node.as_str())), nodes.len())
    })
}

/// A `String[]`; `None` becomes null.
///
/// # Errors
/// Those of the JVM.
pub(crate) fn strings<'local, 'text>(
    env: &mut Env<'local>,
    texts: impl Iterator<Item = Option<&'text str>>,
    count: usize,
) -> Outcome<JObjectArray<'local, JString<'local>>> {
    let count = i32::try_from(count).map_err(|_| {
        Error::new(Status::OutOfRange, format!("{count} strings do not fit a Java array"))
    })?;
    let array =
        env.new_object_type_array::<JString<'_>>(size(count, "the count")?, JString::null())?;
    for (index, text) in texts.enumerate() {
        if let Some(text) = text {
            let string = env.new_string(text)?;
            array.set_element(env, index, &string)?;
            env.delete_local_ref(string);
        }
    }
    Ok(array)
}
