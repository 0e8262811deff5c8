//! Natives of files that are read.
use crate::boundary::{Outcome, call, check_array, direct_mut, long, position, signed, text};
use crate::cancel::deadline;
use crate::handles::{self, Input, Object};
use crate::output::three_states;
use dfs::error::{Error, Status};
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use jni::objects::{JByteArray, JByteBuffer, JClass, JIntArray, JLongArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, EnvUnowned};
use std::sync::Arc;

/// Bytes that a read into an array fetches before it copies them.
const READ_BYTES: usize = 128 << 10;
/// The same for positional reads, where each fetch is a request of its own.
const PREAD_BYTES: usize = 1 << 20;
/// Ranges of one vectored read.
const RANGES_MAX: usize = 1 << 16;

/// `long open(long fs, String path, boolean verify, long readahead, int dropBehind,
/// long timeoutMs, int interrupt)`; -1 means the default.
pub(crate) extern "system" fn open<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    fs: jlong,
    path: JString<'local>,
    verify: jboolean,
    readahead: jlong,
    drop_behind: jint,
    timeout_ms: jlong,
    interrupt: jint,
) -> jlong {
    call(env, |env| {
        let fs = handles::file_system(fs)?;
        let path = text(env, &path, "the path")?;
        let options = ReadOptions {
            verify_checksum: verify,
            readahead: u64::try_from(readahead).ok(),
            drop_behind: three_states(drop_behind),
        };
        let stream = fs.open(&path, options, deadline(timeout_ms, interrupt)?)?;
        let input = Input { stream, fs: (*fs).clone() };
        Ok(handles::insert(Object::Input(Arc::new(input)))?)
    })
}

fn int(bytes: usize) -> Outcome<jint> {
    let large = |_| Error::new(Status::Internal, format!("read {bytes} bytes, more than asked"));
    Ok(jint::try_from(bytes).map_err(large)?)
}

/// `int read(long stream, ByteBuffer direct, int offset, int length, long timeoutMs,
/// int interrupt)`: 0 at the end of the file.
pub(crate) extern "system" fn read<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    buffer: JByteBuffer<'local>,
    offset: jint,
    len: jint,
    timeout_ms: jlong,
    interrupt: jint,
) -> jint {
    call(env, |env| {
        let input = handles::input(stream)?;
        let deadline = deadline(timeout_ms, interrupt)?;
        let bytes = direct_mut(env, &buffer, offset, len)?;
        int(input.stream.read(bytes, deadline)?)
    })
}

/// `int pread(long stream, long position, ByteBuffer direct, int offset, int length,
/// long timeoutMs, int interrupt)`: 0 behind the end of the file.
#[allow(clippy::too_many_arguments, reason = "one crossing of the boundary, no object to unpack")]
pub(crate) extern "system" fn pread<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    at: jlong,
    buffer: JByteBuffer<'local>,
    offset: jint,
    len: jint,
    timeout_ms: jlong,
    interrupt: jint,
) -> jint {
    call(env, |env| {
        let input = handles::input(stream)?;
        let deadline = deadline(timeout_ms, interrupt)?;
        let at = position(at)?;
        let bytes = direct_mut(env, &buffer, offset, len)?;
        int(input.stream.pread(at, bytes, deadline)?)
    })
}

/// Fetches into pooled memory, `limit` bytes at a time, and copies to the array.
fn into_array(
    env: &Env<'_>,
    input: &Input,
    (array, offset, len): (&JByteArray<'_>, jint, jint),
    limit: usize,
    deadline: Deadline,
    mut fetch: impl FnMut(usize, &mut [u8]) -> dfs::error::Result<usize>,
) -> Outcome<jint> {
    let (start, count) = check_array(env, array, offset, len)?;
    if count == 0 {
        return Ok(0);
    }
    let mut copy = input.fs.read_context().pool.take(count.min(limit), deadline)?;
    let mut done = 0;
    while done < count {
        let part = copy.get_mut(..(count - done).min(limit)).unwrap_or_default();
        let n = fetch(done, part)?;
        let got = part.get_mut(..n).unwrap_or_default();
        // The sum is at most the array's length, so it fits.
        array.set_region(env, (start + done) as jint, signed(got))?;
        done += n;
        if n < limit {
            break;
        }
    }
    int(done)
}

/// `int readArray(long stream, byte[] array, int offset, int length, long timeoutMs,
/// int interrupt)`.
pub(crate) extern "system" fn read_array<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    array: JByteArray<'local>,
    offset: jint,
    len: jint,
    timeout_ms: jlong,
    interrupt: jint,
) -> jint {
    call(env, |env| {
        let input = handles::input(stream)?;
        let deadline = deadline(timeout_ms, interrupt)?;
        into_array(env, &input, (&array, offset, len), READ_BYTES, deadline, |done, bytes| {
            match input.stream.read(bytes, deadline) {
                // The cursor has moved past the bytes before, so they must be reported.
                Err(_) if done > 0 => Ok(0),
                result => result,
            }
        })
    })
}

/// `int preadArray(long stream, long position, byte[] array, int offset, int length,
/// long timeoutMs, int interrupt)`.
#[allow(clippy::too_many_arguments, reason = "one crossing of the boundary, no object to unpack")]
pub(crate) extern "system" fn pread_array<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    at: jlong,
    array: JByteArray<'local>,
    offset: jint,
    len: jint,
    timeout_ms: jlong,
    interrupt: jint,
) -> jint {
    call(env, |env| {
        let input = handles::input(stream)?;
        let deadline = deadline(timeout_ms, interrupt)?;
        let at = position(at)?;
        into_array(env, &input, (&array, offset, len), PREAD_BYTES, deadline, |done, bytes| {
            input.stream.pread(at.saturating_add(done as u64), bytes, deadline)
        })
    })
}

/// `void preadVector(long stream, long[] positions, int[] lengths, ByteBuffer[] directs,
/// int[] done, long timeoutMs, int interrupt)`: near ranges are fetched together; each buffer is
/// filled from its index 0.
#[allow(clippy::too_many_arguments, reason = "one crossing of the boundary, no object to unpack")]
pub(crate) extern "system" fn pread_vector<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    positions: JLongArray<'local>,
    lengths: JIntArray<'local>,
    buffers: JObjectArray<'local, JByteBuffer<'local>>,
    done: JIntArray<'local>,
    timeout_ms: jlong,
    interrupt: jint,
) {
    call(env, |env| {
        let input = handles::input(stream)?;
        let deadline = deadline(timeout_ms, interrupt)?;
        let count = positions.len(env)?;
        let same = [lengths.len(env)?, buffers.len(env)?, done.len(env)?];
        if count > RANGES_MAX || same.iter().any(|n| *n != count) {
            let text = format!("a vectored read of {count} ranges has arrays of {same:?}");
            return Err(Error::new(Status::InvalidArgument, text).into());
        }
        let mut at = vec![0; count];
        positions.get_region(env, 0, &mut at)?;
        let mut wanted = vec![0; count];
        lengths.get_region(env, 0, &mut wanted)?;
        let mut counts = vec![0; count];
        read_ranges(env, &input, &buffers, (&at, &wanted), &mut counts, deadline)?;
        done.set_region(env, 0, &counts)?;
        Ok(())
    })
}

fn read_ranges<'local>(
    env: &mut Env<'local>,
    input: &Input,
    buffers: &JObjectArray<'local, JByteBuffer<'local>>,
    (at, wanted): (&[i64], &[i32]),
    counts: &mut [i32],
    deadline: Deadline,
) -> Outcome<()> {
    let mut references = Vec::with_capacity(at.len());
    for index in 0..at.len() {
        references.push(buffers.get_element(env, index)?);
    }
    let mut ranges: Vec<(u64, &mut [u8])> = Vec::with_capacity(at.len());
    for ((buffer, at), len) in references.iter().zip(at).zip(wanted) {
        let memory = direct_mut(env, buffer, 0, *len)?;
        ranges.push((position(*at)?, memory));
    }
    let mut spans: Vec<(usize, usize)> =
        ranges.iter().map(|(_, memory)| (memory.as_ptr().addr(), memory.len())).collect();
    spans.sort_unstable();
    if spans.windows(2).any(|pair| matches!(pair, [(a, n), (b, _)] if a + n > *b)) {
        let text = "the buffers of a vectored read overlap";
        return Err(Error::new(Status::InvalidArgument, text).into());
    }
    let read = input.stream.preadv(&mut ranges, deadline)?;
    for (count, n) in counts.iter_mut().zip(read) {
        *count = int(n)?;
    }
    Ok(())
}

/// `void seek(long stream, long position)`.
pub(crate) extern "system" fn seek<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    at: jlong,
) {
    call(env, |_| Ok(handles::input(stream)?.stream.seek(position(at)?)?))
}

/// `long inputPosition(long stream)`.
pub(crate) extern "system" fn tell<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
) -> jlong {
    call(env, |_| Ok(long(handles::input(stream)?.stream.tell())?))
}

/// `long inputLength(long stream)`: as last known.
pub(crate) extern "system" fn length<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
) -> jlong {
    call(env, |_| Ok(long(handles::input(stream)?.stream.len())?))
}

/// `long refresh(long stream, long timeoutMs, int interrupt)`: asks for the length anew.
pub(crate) extern "system" fn refresh<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    timeout_ms: jlong,
    interrupt: jint,
) -> jlong {
    call(env, |_| {
        let input = handles::input(stream)?;
        Ok(long(input.stream.refresh(deadline(timeout_ms, interrupt)?)?)?)
    })
}

/// `void setReadahead(long stream, long bytes)`; -1 means the default.
pub(crate) extern "system" fn set_readahead<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    bytes: jlong,
) {
    call(env, |_| {
        handles::input(stream)?.stream.set_readahead(u64::try_from(bytes).ok());
        Ok(())
    })
}

/// `void setDropBehind(long stream, int drop)`; -1 means the default.
pub(crate) extern "system" fn set_drop_behind<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
    drop_behind: jint,
) {
    call(env, |_| {
        handles::input(stream)?.stream.set_drop_behind(three_states(drop_behind));
        Ok(())
    })
}

/// `void unbuffer(long stream)`: gives back the connection that sequential reads keep.
pub(crate) extern "system" fn unbuffer<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
) {
    call(env, |_| {
        handles::input(stream)?.stream.unbuffer();
        Ok(())
    })
}

/// `void closeInput(long stream)`: calls that run end within half a second; the handle is freed.
pub(crate) extern "system" fn close<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stream: jlong,
) {
    call(env, |_| {
        handles::input(stream)?.stream.close();
        handles::free(stream);
        Ok(())
    })
}
