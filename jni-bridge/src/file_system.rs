//! Natives of file systems: connecting, names, counters.
use crate::boundary::{Outcome, call, long, optional_text, position, text};
use crate::cancel::deadline;
use crate::handles::{self, Object};
use crate::output::strings;
use dfs::client::file_system::FileSystem;
use dfs::client::metadata::Metadata;
use dfs::client::status::{FileKind, FileStatus};
use dfs::conf::Config;
use dfs::error::{Error, Result as DfsResult, Status};
use dfs::time::Deadline;
use jni::objects::{JClass, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, EnvUnowned};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// `load` of `Natives.connect`.
const LOAD_ENVIRONMENT: i32 = 1;
const LOAD_DIRECTORY: i32 = 2;

/// `long connect(String uri, int load, String directory, String[] keysAndValues, long timeoutMs,
/// int interrupt)`.
pub(crate) extern "system" fn connect<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    uri: JString<'local>,
    load: jint,
    directory: JString<'local>,
    pairs: JObjectArray<'local, JString<'local>>,
    timeout_ms: jlong,
    interrupt: jint,
) -> jlong {
    call(env, |env| {
        let uri = optional_text(env, &uri)?;
        let mut config = match load {
            LOAD_ENVIRONMENT => Config::load_default()?,
            _ => Config::new(),
        };
        if load == LOAD_DIRECTORY {
            config.load_dir(text(env, &directory, "the configuration directory")?)?;
        }
        let count = pairs.len(env)?;
        for index in (0..count).step_by(2) {
            let key = pairs.get_element(env, index)?;
            let value = pairs.get_element(env, index + 1)?;
            let name = text(env, &key, "a key")?;
            config.set(&name, &text(env, &value, "a value")?);
            env.delete_local_ref(key);
            env.delete_local_ref(value);
        }
        let fs = FileSystem::connect(&config, uri.as_deref(), deadline(timeout_ms, interrupt)?)?;
        Ok(handles::insert(Object::FileSystem(Arc::new(fs)))?)
    })
}

/// `void closeFileSystem(long fs)`: ends its calls, abandons its open writers, frees the handle.
pub(crate) extern "system" fn close<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
) {
    call(env, |_| {
        handles::file_system(fs)?.close();
        handles::free(fs);
        Ok(())
    })
}

/// `String uri(long fs)`.
pub(crate) extern "system" fn uri<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
) -> JString<'local> {
    call(env, |env| {
        let fs = handles::file_system(fs)?;
        Ok(env.new_string(fs.uri())?)
    })
}

/// `void statistics(long fs, long[] values)`, in the order of the Java half.
pub(crate) extern "system" fn statistics<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    values: JLongArray<'local>,
) {
    call(env, |env| {
        let fs = handles::file_system(fs)?;
        let write = fs.stats();
        let read = &fs.read_context().stats;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let all = [
            write.pool.in_use_bytes,
            write.pool.free_bytes,
            write.pool.peak_bytes,
            write.pool.hits,
            write.pool.misses,
            write.pool.waits,
            write.open_writers,
            write.bytes_written,
            write.packets_sent,
            write.flushes,
            write.flushes_combined,
            write.blocks,
            write.pipeline_faults,
            write.pipeline_recoveries,
            write.window_waits,
            write.heartbeats,
            get(&read.bytes),
            get(&read.requests),
            get(&read.connects),
            get(&read.cache_hits),
            get(&read.stale_peers),
            get(&read.failovers),
            get(&read.checksum_failures),
        ];
        let all = all.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        let room = values.len(env)?;
        let some = all.get(..room).ok_or_else(|| {
            let text = format!("there are {} statistics, not {room}", all.len());
            Error::new(Status::InvalidArgument, text)
        })?;
        Ok(values.set_region(env, 0, some)?)
    })
}

/// Numbers of one status, in the order of the Java half.
const NUMBERS: usize = 8;
/// Texts of one status.
const TEXTS: usize = 4;

fn numbers(status: &FileStatus) -> DfsResult<[i64; NUMBERS]> {
    let kind = match status.kind {
        FileKind::File => 0,
        FileKind::Directory => 1,
        FileKind::Symlink => 2,
    };
    Ok([
        kind,
        long(status.length)?,
        status.mode.into(),
        long(status.mtime_ms)?,
        long(status.atime_ms)?,
        status.replication.into(),
        long(status.block_size)?,
        long(status.file_id)?,
    ])
}

/// `Object[] { String[] texts, long[] numbers }` of some statuses.
fn pack<'local>(
    env: &mut Env<'local>,
    statuses: &[FileStatus],
) -> Outcome<JObjectArray<'local, JObject<'local>>> {
    let mut all = Vec::with_capacity(statuses.len() * NUMBERS);
    for status in statuses {
        all.extend(numbers(status)?);
    }
    let texts = statuses.iter().flat_map(|status| {
        [Some(&*status.path), Some(&*status.owner), Some(&*status.group), status.symlink.as_deref()]
    });
    let texts = strings(env, texts, statuses.len() * TEXTS)?;
    let array = env.new_long_array(all.len())?;
    array.set_region(env, 0, &all)?;
    let pair = env.new_object_type_array::<JObject<'_>>(2, JObject::null())?;
    pair.set_element(env, 0, &texts)?;
    pair.set_element(env, 1, &array)?;
    Ok(pair)
}

/// A call on one path.
fn on_path<'local, T: Default>(
    env: EnvUnowned<'local>,
    fs: jlong,
    path: &JString<'local>,
    (timeout_ms, interrupt): (jlong, jint),
    body: impl FnOnce(&mut Env<'local>, &Metadata, &str, Deadline) -> Outcome<T>,
) -> T {
    call(env, |env| {
        let metadata = handles::file_system(fs)?.metadata()?;
        let path = text(env, path, "the path")?;
        body(env, &metadata, &path, deadline(timeout_ms, interrupt)?)
    })
}

/// `Object[] stat(long fs, String path, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn stat<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    timeout_ms: jlong,
    interrupt: jint,
) -> JObjectArray<'local, JObject<'local>> {
    on_path(env, fs, &path, (timeout_ms, interrupt), |env, metadata, path, d| {
        let status = metadata.stat(path, d)?;
        pack(env, &[status])
    })
}

/// `Object[] list(long fs, String path, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn list<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    timeout_ms: jlong,
    interrupt: jint,
) -> JObjectArray<'local, JObject<'local>> {
    on_path(env, fs, &path, (timeout_ms, interrupt), |env, metadata, path, d| {
        let statuses = metadata.list(path, d)?.collect(d)?;
        pack(env, &statuses)
    })
}

/// `void mkdir(long fs, String path, int mode, boolean parents, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn mkdir<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    mode: jint,
    parents: jboolean,
    timeout_ms: jlong,
    interrupt: jint,
) {
    on_path(env, fs, &path, (timeout_ms, interrupt), |_, metadata, path, d| {
        let mode = u32::try_from(mode).map_err(|_| {
            Error::new(Status::InvalidArgument, format!("the mode {mode} is negative"))
        })?;
        Ok(metadata.mkdir(path, mode, parents, d)?)
    })
}

/// `boolean delete(long fs, String path, boolean recursive, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn delete<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    recursive: jboolean,
    timeout_ms: jlong,
    interrupt: jint,
) -> jboolean {
    on_path(env, fs, &path, (timeout_ms, interrupt), |_, metadata, path, d| {
        Ok(metadata.delete(path, recursive, d)?)
    })
}

/// `void rename(long fs, String from, String to, boolean overwrite, long timeoutMs,
/// int interrupt)`.
pub(crate) extern "system" fn rename<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    from: JString<'local>,
    to: JString<'local>,
    overwrite: jboolean,
    timeout_ms: jlong,
    interrupt: jint,
) {
    on_path(env, fs, &from, (timeout_ms, interrupt), |env, metadata, from, d| {
        let to = text(env, &to, "the new path")?;
        Ok(metadata.rename(from, &to, overwrite, d)?)
    })
}

/// `boolean truncate(long fs, String path, long length, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn truncate<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    length: jlong,
    timeout_ms: jlong,
    interrupt: jint,
) -> jboolean {
    on_path(env, fs, &path, (timeout_ms, interrupt), |_, metadata, path, d| {
        Ok(metadata.truncate(path, position(length)?, d)?)
    })
}

/// `boolean recoverLease(long fs, String path, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn recover_lease<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    timeout_ms: jlong,
    interrupt: jint,
) -> jboolean {
    on_path(env, fs, &path, (timeout_ms, interrupt), |_, metadata, path, d| {
        Ok(metadata.recover_lease(path, d)?)
    })
}

/// `boolean isFileClosed(long fs, String path, long timeoutMs, int interrupt)`.
pub(crate) extern "system" fn is_file_closed<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    timeout_ms: jlong,
    interrupt: jint,
) -> jboolean {
    on_path(env, fs, &path, (timeout_ms, interrupt), |_, metadata, path, d| {
        Ok(metadata.is_file_closed(path, d)?)
    })
}
