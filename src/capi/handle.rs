//! Handles: what the pointers that C holds really are.
//!
//! A handle is no address. It names a slot of a process-wide table, and the slot's generation and
//! kind at the time the handle was made, so a freed, foreign or forged handle is recognised, never
//! dereferenced. (A magic word in the object itself would be read from freed memory.) The price
//! is one atomic addition when a call begins and one when it ends, about 6 ns together, and for
//! it a `free` that races with a call is harmless: the object goes when its last call ends.
//!
//! The table only grows, its parts are never moved or unmapped, and every step is lock-free: a
//! child forked at any moment finds it usable.
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::sys::fork;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles need 64-bit pointers");

/// Kind of object behind a handle; stored in handle and slot, 4 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Error = 1,
    Config = 2,
    FileSystem = 3,
    File = 4,
    FileStatus = 5,
    ListIterator = 6,
    Blocks = 7,
}

impl Kind {
    fn type_name(bits: u8) -> &'static str {
        match bits {
            1 => "dfs_error",
            2 => "dfs_config",
            3 => "dfs_fs",
            4 => "dfs_file",
            5 => "dfs_file_status",
            6 => "dfs_list_iter",
            7 => "dfs_blocks",
            _ => "unknown kind",
        }
    }
}

/// An object that C may hold.
pub(super) trait Object: Send + Sync + 'static {
    /// The opaque C type of the handle.
    type C;
    /// Tells the handles of the types apart.
    const KIND: Kind;
    /// Whether the object is plain memory, which a forked child may go on using.
    const SURVIVES_FORK: bool;
}

// Handle: tag 8 bits, kind 4, generation 28, index 24. With the tag the value is no valid user
// space address on x86_64 and aarch64, so that C code which follows it by mistake stops at once.
const TAG: u64 = 0x5D;
const TAG_SHIFT: u32 = 56;
const IDENTITY_SHIFT: u32 = 24;
const INDEX_MASK: u64 = (1 << IDENTITY_SHIFT) - 1;
/// Kind and generation are one number, the identity.
const KIND_SHIFT: u32 = 28;
const GENERATION_MAX: u32 = (1 << KIND_SHIFT) - 1;

// State of a slot: identity 32 bits, then flags, then the count of running calls.
const STATE_IDENTITY_SHIFT: u32 = 32;
const LIVE: u64 = 1 << 24;
const POISONED: u64 = 1 << 25;
/// Freed while calls were running; the last of them destroys the object.
const DYING: u64 = 1 << 26;
const PINS: u64 = LIVE - 1;

/// Slots of the first segment; each further one is twice as large.
const FIRST_SEGMENT: u32 = 1 << 10;
const SEGMENTS: usize = 14;
/// Slots of all segments; the index needs 24 bits.
const SLOTS_MAX: u32 = FIRST_SEGMENT * ((1 << SEGMENTS) - 1);

#[repr(align(64))]
struct Slot {
    state: AtomicU64,
    object: AtomicPtr<()>,
    /// Fork generation at birth.
    fork: AtomicU32,
    /// Next free slot, as index + 1.
    next: AtomicU32,
}

static TABLE: [AtomicPtr<Slot>; SEGMENTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SEGMENTS];
/// Slots ever handed out.
static USED: AtomicU32 = AtomicU32::new(0);
/// Free slots: a count that makes each value of the head unique, and index + 1.
static FREE: AtomicU64 = AtomicU64::new(0);

fn place(index: u32) -> (usize, u32) {
    let shifted = index + FIRST_SEGMENT;
    let segment = shifted.ilog2() - FIRST_SEGMENT.ilog2();
    (segment as usize, shifted - (FIRST_SEGMENT << segment))
}

/// The slot of an index that was handed out; `None` for one that never was.
#[inline]
fn slot(index: u32) -> Option<&'static Slot> {
    if index >= SLOTS_MAX {
        return None;
    }
    let (segment, offset) = place(index);
    let base = NonNull::new(TABLE.get(segment)?.load(Ordering::Acquire))?;
    // SAFETY: a published segment has FIRST_SEGMENT << segment slots, and `place` keeps below.
    let slot = unsafe { base.add(offset as usize) };
    // SAFETY: the slot was initialised before it was published and is never unmapped.
    Some(unsafe { slot.as_ref() })
}

/// Makes sure that the segment of `index` exists.
fn ensure_segment(index: u32) -> Option<()> {
    let (segment, _) = place(index);
    let entry = TABLE.get(segment)?;
    if !entry.load(Ordering::Acquire).is_null() {
        return Some(());
    }
    let count = (FIRST_SEGMENT as usize) << segment;
    let slots: Box<[Slot]> = (0..count)
        .map(|_| Slot {
            state: AtomicU64::new(0),
            object: AtomicPtr::new(std::ptr::null_mut()),
            fork: AtomicU32::new(0),
            next: AtomicU32::new(0),
        })
        .collect();
    let fresh = Box::into_raw(slots);
    let published = entry.compare_exchange(
        std::ptr::null_mut(),
        fresh.cast::<Slot>(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if published.is_err() {
        // SAFETY: another thread published its segment, so ours is still only ours.
        drop(unsafe { Box::from_raw(fresh) });
    }
    Some(())
}

fn pop_free() -> Option<u32> {
    let mut head = FREE.load(Ordering::Acquire);
    loop {
        let index = (head as u32).checked_sub(1)?;
        let next = slot(index)?.next.load(Ordering::Relaxed);
        let changed = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
        match FREE.compare_exchange_weak(head, changed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(index),
            Err(other) => head = other,
        }
    }
}

fn push_free(index: u32, slot: &Slot) {
    let mut head = FREE.load(Ordering::Acquire);
    loop {
        slot.next.store(head as u32, Ordering::Relaxed);
        let changed = ((head >> 32).wrapping_add(1) << 32) | u64::from(index + 1);
        match FREE.compare_exchange_weak(head, changed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(other) => head = other,
        }
    }
}

fn take_index() -> Option<u32> {
    if let Some(index) = pop_free() {
        return Some(index);
    }
    let below = |used: u32| (used < SLOTS_MAX).then_some(used + 1);
    let index = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).ok()?;
    ensure_segment(index)?;
    Some(index)
}

/// Gives an object to C.
///
/// # Errors
/// `NoMemory` when 16 million handles are alive.
pub(super) fn insert<T: Object>(object: T) -> Result<*mut T::C> {
    let full = || Error::new(Status::NoMemory, format!("all {SLOTS_MAX} handles are in use"));
    let index = take_index().ok_or_else(full)?;
    let slot = slot(index).ok_or_else(full)?;
    slot.object.store(Box::into_raw(Box::new(object)).cast(), Ordering::Relaxed);
    slot.fork.store(fork::generation(), Ordering::Relaxed);
    let generation = (slot.state.load(Ordering::Relaxed) >> STATE_IDENTITY_SHIFT) as u32;
    let identity = (T::KIND as u32) << KIND_SHIFT | (generation & GENERATION_MAX);
    // A free slot is touched by nobody else, so a plain store does; it publishes the object.
    slot.state.store(u64::from(identity) << STATE_IDENTITY_SHIFT | LIVE, Ordering::Release);
    let value = TAG << TAG_SHIFT | u64::from(identity) << IDENTITY_SHIFT | u64::from(index);
    Ok(std::ptr::without_provenance_mut(value as usize))
}

struct Parts {
    index: u32,
    identity: u32,
}

impl Parts {
    #[inline]
    fn kind(&self) -> u8 {
        (self.identity >> KIND_SHIFT) as u8
    }
}

#[inline]
fn parts(value: usize) -> Option<Parts> {
    let value = value as u64;
    if value >> TAG_SHIFT != TAG {
        return None;
    }
    let index = (value & INDEX_MASK) as u32;
    Some(Parts { index, identity: (value >> IDENTITY_SHIFT) as u32 })
}

#[cold]
fn bad_handle<T: Object>(value: usize, name: &str) -> Error {
    let wanted = Kind::type_name(T::KIND as u8);
    if value == 0 {
        return Error::new(Status::NullPointer, format!("{name} is NULL"));
    }
    let why = match parts(value) {
        None => "not a handle of this library",
        Some(p) if p.kind() != T::KIND as u8 => {
            let is = Kind::type_name(p.kind());
            let text = format!("{name} is no {wanted} but a {is}");
            return Error::new(Status::BadHandle, text);
        }
        Some(_) => "freed",
    };
    let text = format!("{name} is no valid {wanted}: the handle is {why}");
    Error::new(Status::BadHandle, text)
}

/// A running call's hold on an object: it stays alive, even if it is freed meanwhile.
pub(super) struct Pin<T: Object> {
    slot: &'static Slot,
    index: u32,
    object: NonNull<T>,
    owner: PhantomData<T>,
}

/// Takes hold of the object behind a handle; `name` is the argument's, for the message.
///
/// # Errors
/// `NullPointer`, `BadHandle`, `Forked`, `Panic` (an earlier call on the handle panicked).
#[inline]
pub(super) fn pin<T: Object>(handle: *const T::C, name: &str) -> Result<Pin<T>> {
    let value = handle.addr();
    let found = parts(value).and_then(|p| slot(p.index).map(|slot| (p, slot)));
    let Some((p, slot)) = found else {
        return Err(bad_handle::<T>(value, name));
    };
    if p.kind() != T::KIND as u8 {
        return Err(bad_handle::<T>(value, name));
    }
    let mut state = slot.state.load(Ordering::Relaxed);
    loop {
        if (state >> STATE_IDENTITY_SHIFT) as u32 != p.identity || state & LIVE == 0 {
            return Err(bad_handle::<T>(value, name));
        }
        // Only this child's copy of the table would be touched, but a pin of a parent's thread
        // may be counted in it for ever: so no pin is taken, and no object of the parent's used.
        if !T::SURVIVES_FORK && slot.fork.load(Ordering::Relaxed) != fork::generation() {
            return Err(forked(name));
        }
        if state & POISONED != 0 {
            return Err(poisoned(name));
        }
        match slot.state.compare_exchange_weak(
            state,
            state + 1,
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            Ok(_) => break,
            Err(other) => state = other,
        }
    }
    let object = slot.object.load(Ordering::Relaxed).cast::<T>();
    let Some(object) = NonNull::new(object) else {
        return Err(bad_handle::<T>(value, name));
    };
    Ok(Pin { slot, index: p.index, object, owner: PhantomData })
}

#[cold]
fn forked(name: &str) -> Error {
    let text =
        format!("{name} was made before a fork, and this is the child: it can only be freed");
    Error::new(Status::Forked, text)
}

#[cold]
fn poisoned(name: &str) -> Error {
    let text = format!("{name} can only be freed, since an earlier call on it panicked");
    Error::new(Status::Panic, text).into_fatal()
}

impl<T: Object> Pin<T> {
    /// Lets every later call on the handle fail, except for `free`.
    pub(super) fn poison(&self) {
        self.slot.state.fetch_or(POISONED, Ordering::Relaxed);
    }
}

impl<T: Object> Deref for Pin<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the kind in the handle says that the object is a T, and it is destroyed by the
        // last pin at the earliest; objects are only ever shared.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Object> Drop for Pin<T> {
    #[inline]
    fn drop(&mut self) {
        let before = self.slot.state.fetch_sub(1, Ordering::AcqRel);
        if before & (PINS | DYING) == DYING | 1 {
            destroy::<T>(self.index, self.slot);
        }
    }
}

/// Takes a handle back. The object is destroyed now, or by the last call that is still running.
/// In a forked child an object that does not survive forks is only forgotten.
///
/// # Errors
/// `BadHandle`; the caller logs it, since `free` returns nothing. NULL is fine.
pub(super) fn free<T: Object>(handle: *mut T::C, name: &str) -> Result<()> {
    let value = handle.addr();
    if value == 0 {
        return Ok(());
    }
    let found = parts(value).and_then(|p| slot(p.index).map(|slot| (p, slot)));
    let Some((p, slot)) = found.filter(|(p, _)| p.kind() == T::KIND as u8) else {
        return Err(bad_handle::<T>(value, name));
    };
    let mut state = slot.state.load(Ordering::Relaxed);
    loop {
        if (state >> STATE_IDENTITY_SHIFT) as u32 != p.identity || state & LIVE == 0 {
            return Err(bad_handle::<T>(value, name));
        }
        let dying = (state & !LIVE) | DYING;
        match slot.state.compare_exchange_weak(state, dying, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => state = other,
        }
    }
    if state & PINS == 0 {
        destroy::<T>(p.index, slot);
    }
    Ok(())
}

#[cold]
fn destroy<T: Object>(index: u32, slot: &'static Slot) {
    let object = slot.object.swap(std::ptr::null_mut(), Ordering::Relaxed).cast::<T>();
    let ours = T::SURVIVES_FORK || slot.fork.load(Ordering::Relaxed) == fork::generation();
    if ours && !object.is_null() {
        // SAFETY: `insert` made it with Box::into_raw, and the swap hands it to us alone.
        let object = unsafe { Box::from_raw(object) };
        // A panic must not leave through the C function that we are in.
        if catch_unwind(AssertUnwindSafe(|| drop(object))).is_err() {
            dfs_log!(Error, "destroying a {} panicked", Kind::type_name(T::KIND as u8));
        }
    }
    let identity = (slot.state.load(Ordering::Relaxed) >> STATE_IDENTITY_SHIFT) as u32;
    let generation = identity & GENERATION_MAX;
    if generation == GENERATION_MAX {
        // Used up: a further life could not be told from the first one.
        slot.state.store(0, Ordering::Release);
        return;
    }
    slot.state.store(u64::from(generation + 1) << STATE_IDENTITY_SHIFT, Ordering::Release);
    push_free(index, slot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Opaque;

    struct Thing(Arc<AtomicU32>);

    impl Object for Thing {
        type C = Opaque;
        const KIND: Kind = Kind::FileStatus;
        const SURVIVES_FORK: bool = true;
    }

    impl Drop for Thing {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Other;

    impl Object for Other {
        type C = Opaque;
        const KIND: Kind = Kind::Blocks;
        const SURVIVES_FORK: bool = true;
    }

    fn status<T: Object>(handle: *const T::C) -> (Status, String) {
        match pin::<T>(handle, "thing") {
            Ok(_) => panic!("the handle is accepted"),
            Err(e) => (e.status(), e.message().to_owned()),
        }
    }

    #[test]
    fn stale_foreign_and_null_handles_are_told_apart() {
        let drops = Arc::new(AtomicU32::new(0));
        let handle = insert(Thing(Arc::clone(&drops))).unwrap();
        assert!(pin::<Thing>(handle, "thing").is_ok());
        let (s, text) = status::<Other>(handle);
        assert_eq!(s, Status::BadHandle);
        assert!(text.contains("thing is no dfs_blocks but a dfs_file_status"), "{text}");
        assert_eq!(free::<Other>(handle, "thing").unwrap_err().status(), Status::BadHandle);
        free::<Thing>(handle, "thing").unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        let (s, text) = status::<Thing>(handle);
        assert_eq!(s, Status::BadHandle);
        assert!(text.contains("freed"), "{text}");
        assert!(free::<Thing>(handle, "thing").is_err());
        // The slot's next life has another handle; the old one stays dead.
        let again = insert(Thing(Arc::clone(&drops))).unwrap();
        assert_ne!(handle, again);
        assert_eq!(status::<Thing>(handle).0, Status::BadHandle);
        free::<Thing>(again, "thing").unwrap();
        assert_eq!(status::<Thing>(std::ptr::null()).0, Status::NullPointer);
        free::<Thing>(std::ptr::null_mut(), "thing").unwrap();
        for forged in [1, 8, 0x7fff_1234_5678, usize::MAX, (TAG as usize) << TAG_SHIFT] {
            let forged = std::ptr::without_provenance::<Opaque>(forged);
            assert_eq!(status::<Thing>(forged).0, Status::BadHandle);
        }
    }

    #[test]
    fn an_object_outlives_free_until_its_last_call_ends() {
        let drops = Arc::new(AtomicU32::new(0));
        let handle = insert(Thing(Arc::clone(&drops))).unwrap();
        let one = pin::<Thing>(handle, "thing").unwrap();
        let two = pin::<Thing>(handle, "thing").unwrap();
        free::<Thing>(handle, "thing").unwrap();
        assert_eq!(status::<Thing>(handle).0, Status::BadHandle);
        drop(one);
        assert_eq!(two.0.load(Ordering::Relaxed), 0);
        drop(two);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_poisoned_handle_can_only_be_freed() {
        let drops = Arc::new(AtomicU32::new(0));
        let handle = insert(Thing(Arc::clone(&drops))).unwrap();
        pin::<Thing>(handle, "thing").unwrap().poison();
        assert_eq!(status::<Thing>(handle).0, Status::Panic);
        free::<Thing>(handle, "thing").unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn indices_map_to_slots_without_gaps() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(FIRST_SEGMENT - 1), (0, FIRST_SEGMENT - 1));
        assert_eq!(place(FIRST_SEGMENT), (1, 0));
        assert_eq!(place(SLOTS_MAX - 1).0, SEGMENTS - 1);
        assert!(slot(SLOTS_MAX).is_none());
        assert!(u64::from(SLOTS_MAX) <= INDEX_MASK + 1);
    }

    #[test]
    fn threads_that_make_use_and_free_handles_lose_nothing() {
        const ROUNDS: u32 = 2000;
        let drops = Arc::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut held = Vec::new();
                    for round in 0..ROUNDS {
                        held.push(insert(Thing(Arc::clone(&drops))).unwrap());
                        if round % 3 == 0 {
                            let handle = held.swap_remove(held.len() / 2);
                            drop(pin::<Thing>(handle, "thing").unwrap());
                            free::<Thing>(handle, "thing").unwrap();
                            assert_eq!(status::<Thing>(handle).0, Status::BadHandle);
                        }
                    }
                    for handle in held {
                        free::<Thing>(handle, "thing").unwrap();
                    }
                });
            }
        });
        assert_eq!(drops.load(Ordering::Relaxed), 4 * ROUNDS);
    }
}
