//! Handles: what the `long`s that Java holds really are.
//!
//! A handle names a slot of a table and the slot's generation when the handle was made. A call
//! takes a counted reference to the object, so `free` during a call is harmless: the object goes
//! with its last call, and a stale handle is recognised.
use dfs::client::file_system::FileSystem;
use dfs::error::{Error, Result, Status};
use dfs::read::InputStream;
use dfs::write::OutputStream;
use parking_lot::{Mutex, RwLock};
use std::sync::{Arc, OnceLock};

/// A file that is written, with the file system that it keeps alive.
pub(crate) struct Output {
    pub(crate) stream: OutputStream,
    pub(crate) fs: FileSystem,
}

/// A file that is read, with the file system that it keeps alive.
pub(crate) struct Input {
    pub(crate) stream: InputStream,
    pub(crate) fs: FileSystem,
}

/// What a handle may stand for.
#[derive(Clone)]
pub(crate) enum Object {
    FileSystem(Arc<FileSystem>),
    Output(Arc<Output>),
    Input(Arc<Input>),
}

#[derive(Default)]
struct Slot {
    generation: u32,
    object: Option<Object>,
}

/// Slots of one segment; segments never move, so a call takes no lock but its slot's.
const SEGMENT: usize = 1 << 10;
const SEGMENTS: usize = 1 << 12;
/// Handles that can be alive at once.
const SLOTS_MAX: usize = SEGMENT * SEGMENTS;

type Segment = Box<[RwLock<Slot>]>;

struct Table {
    segments: [OnceLock<Segment>; SEGMENTS],
    /// Free slots, and how many were ever used.
    free: Mutex<(Vec<u32>, u32)>,
}

static TABLE: Table =
    Table { segments: [const { OnceLock::new() }; SEGMENTS], free: Mutex::new((Vec::new(), 0)) };

fn slot(index: u32) -> Option<&'static RwLock<Slot>> {
    let index = index as usize;
    TABLE.segments.get(index / SEGMENT)?.get()?.get(index % SEGMENT)
}

fn split(handle: i64) -> (u32, u32) {
    let bits = handle as u64;
    ((bits >> 32) as u32, bits as u32)
}

/// Gives an object to Java. A handle is never 0 and never negative.
///
/// # Errors
/// `NoMemory` when 4 million handles are alive.
pub(crate) fn insert(object: Object) -> Result<i64> {
    let full = || Error::new(Status::NoMemory, format!("all {SLOTS_MAX} handles are in use"));
    let index = {
        let mut free = TABLE.free.lock();
        match free.0.pop() {
            Some(index) => index,
            None if (free.1 as usize) < SLOTS_MAX => {
                free.1 += 1;
                free.1 - 1
            }
            None => return Err(full()),
        }
    };
    let segment = TABLE.segments.get(index as usize / SEGMENT).ok_or_else(full)?;
    segment.get_or_init(|| (0..SEGMENT).map(|_| RwLock::default()).collect());
    let mut slot = slot(index).ok_or_else(full)?.write();
    slot.generation = (slot.generation + 1) & 0x7fff_ffff;
    // 0 in the upper half would make handles that look like small numbers.
    slot.generation = slot.generation.max(1);
    slot.object = Some(object);
    Ok((u64::from(slot.generation) << 32 | u64::from(index)) as i64)
}

#[cold]
fn stale(wanted: &str) -> Error {
    Error::new(Status::Closed, format!("this {wanted} is closed"))
}

fn object(handle: i64, wanted: &str) -> Result<Object> {
    let (generation, index) = split(handle);
    let slot = slot(index).ok_or_else(|| stale(wanted))?.read();
    match &slot.object {
        Some(object) if slot.generation == generation => Ok(object.clone()),
        _ => Err(stale(wanted)),
    }
}

fn wrong(wanted: &str) -> Error {
    Error::new(Status::BadHandle, format!("the handle is no {wanted}"))
}

/// The file system behind a handle.
///
/// # Errors
/// `Closed`, `BadHandle`.
pub(crate) fn file_system(handle: i64) -> Result<Arc<FileSystem>> {
    match object(handle, "file system")? {
        Object::FileSystem(fs) => Ok(fs),
        _ => Err(wrong("file system")),
    }
}

/// The written file behind a handle.
///
/// # Errors
/// `Closed`, `BadHandle`.
pub(crate) fn output(handle: i64) -> Result<Arc<Output>> {
    match object(handle, "output stream")? {
        Object::Output(output) => Ok(output),
        _ => Err(wrong("output stream")),
    }
}

/// The read file behind a handle.
///
/// # Errors
/// `Closed`, `BadHandle`.
pub(crate) fn input(handle: i64) -> Result<Arc<Input>> {
    match object(handle, "input stream")? {
        Object::Input(input) => Ok(input),
        _ => Err(wrong("input stream")),
    }
}

/// Takes a handle back; the object goes with the last call on it. False: it was stale.
pub(crate) fn free(handle: i64) -> bool {
    let (generation, index) = split(handle);
    let Some(slot) = slot(index) else { return false };
    let object = {
        let mut slot = slot.write();
        if slot.generation != generation {
            return false;
        }
        slot.object.take()
    };
    let Some(object) = object else { return false };
    TABLE.free.lock().0.push(index);
    // Outside the locks: it may log and give memory back.
    drop(object);
    true
}

/// Number of live handles.
pub(crate) fn live() -> usize {
    let free = TABLE.free.lock();
    free.1 as usize - free.0.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_handles_are_closed() {
        for forged in [0, -1, 1, 1 << 32, i64::MAX, i64::MIN] {
            let e = file_system(forged).map(|_| ()).unwrap_err();
            assert_eq!(e.status(), Status::Closed);
            assert!(!free(forged));
        }
    }
}
