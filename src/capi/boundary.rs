//! The wall between C and Rust: every exported function runs through here, and only here are raw
//! pointers of a caller followed.
//!
//! The header's chapters say what a caller promises about pointers: a string is NUL-terminated, a
//! buffer has the length given with it, a struct has the size that it states, and all stay valid
//! and unchanged during the call. What can be checked (NULL, UTF-8, sizes, handles, panics, forks)
//! is checked here; the rest rests on that promise, which the SAFETY comments call "the promise".
use super::error::dfs_error;
use super::handle::{self, Object, Pin};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A result type of the C API: 0 or more is success, a negative value is a status.
pub(super) trait Outcome {
    /// The value that stands for a failure.
    fn failure(status: Status) -> Self;
}

impl Outcome for i32 {
    fn failure(status: Status) -> i32 {
        status as i32
    }
}

impl Outcome for i64 {
    fn failure(status: Status) -> i64 {
        i64::from(status as i32)
    }
}

/// `*mut *mut dfs_error` of a caller.
pub(super) type ErrorOut = *mut *mut dfs_error;

/// Runs a call that has no handle of its own.
pub(super) fn run<R: Outcome>(error: ErrorOut, body: impl FnOnce() -> Result<R>) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(e)) => fail(error, e),
        Err(panic) => fail(error, panic_error(panic.as_ref())),
    }
}

/// Runs a call on the object behind `handle`; `name` is the argument's. A panic poisons the handle.
#[inline]
pub(super) fn on<T: Object, R: Outcome>(
    handle: *const T::C,
    name: &str,
    error: ErrorOut,
    body: impl FnOnce(&T) -> Result<R>,
) -> R {
    let object: Pin<T> = match handle::pin(handle, name) {
        Ok(object) => object,
        Err(e) => return fail(error, e),
    };
    let result = catch_unwind(AssertUnwindSafe(|| body(&object)));
    let result = match result {
        Ok(result) => result,
        Err(panic) => {
            object.poison();
            Err(panic_error(panic.as_ref()))
        }
    };
    // If it was freed meanwhile, this is its end.
    drop(object);
    match result {
        Ok(value) => value,
        Err(e) => fail(error, e),
    }
}

/// Takes a handle back; never fails, so a wrong handle is only logged.
pub(super) fn free<T: Object>(handle: *mut T::C, name: &str) {
    if let Err(e) = handle::free::<T>(handle, name) {
        dfs_log!(Error, "a free was ignored: {e}");
    }
}

#[cold]
fn panic_error(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Error::new(Status::Panic, format!("internal error (panic): {text}")).into_fatal()
}

/// Hands the error over, if the caller wants it, and gives the result value.
#[cold]
fn fail<R: Outcome>(error: ErrorOut, e: Error) -> R {
    let status = e.status();
    if let Some(slot) = NonNull::new(error) {
        // Nothing is left to report to if there is no room even for the error: NULL then.
        let made = super::error::make(e).unwrap_or(std::ptr::null_mut());
        // SAFETY: the promise: `error` is NULL or points to a pointer of the caller.
        unsafe { slot.write(made) };
    }
    R::failure(status)
}

fn null(name: &str) -> Error {
    Error::new(Status::NullPointer, format!("{name} is NULL"))
}

/// A string argument.
///
/// # Errors
/// `NullPointer`, `BadUtf8`, naming the argument.
pub(super) fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    optional_text(pointer, name)?.ok_or_else(|| null(name))
}

/// A string argument that may be NULL.
///
/// # Errors
/// `BadUtf8`, naming the argument.
pub(super) fn optional_text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the promise: NUL-terminated and unchanged during the call.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    match bytes.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(e) => {
            let at = e.valid_up_to();
            let byte = bytes.to_bytes().get(at).copied().unwrap_or_default();
            let text = format!("{name} is not UTF-8: byte {at} is 0x{byte:02x}");
            Err(Error::new(Status::BadUtf8, text))
        }
    }
}

/// An array of strings.
///
/// # Errors
/// `NullPointer`, `BadUtf8`, `InvalidArgument` for an impossible count.
pub(super) fn texts(
    pointer: *const *const c_char,
    count: usize,
    name: &str,
) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for (index, &item) in slice(pointer, count, name)?.iter().enumerate() {
        all.push(text(item, &format!("{name}[{index}]"))?.to_owned());
    }
    Ok(all)
}

fn check_len<T>(count: usize, name: &str) -> Result<()> {
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => {
            let text = format!("the length {count} of {name} is larger than memory can be");
            Err(Error::new(Status::InvalidArgument, text))
        }
    }
}

/// An array that is read. The pointer does not matter if `count` is 0.
///
/// # Errors
/// `NullPointer`, `InvalidArgument` for an impossible count.
pub(super) fn slice<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    check_len::<T>(count, name)?;
    // SAFETY: the promise: `count` items, unchanged during the call; their size was checked.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// An array that is written, and that nobody else uses during the call.
///
/// # Errors
/// As [`slice`].
pub(super) fn slice_mut<'a, T>(pointer: *mut T, count: usize, name: &str) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    check_len::<T>(count, name)?;
    // SAFETY: the promise: `count` items that only this call uses; their size was checked.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// Bytes that are read.
///
/// # Errors
/// As [`slice`].
#[inline]
pub(super) fn bytes<'a>(pointer: *const c_void, len: usize, name: &str) -> Result<&'a [u8]> {
    slice(pointer.cast::<u8>(), len, name)
}

/// Bytes that are written.
///
/// # Errors
/// As [`slice`].
#[inline]
pub(super) fn bytes_mut<'a>(pointer: *mut c_void, len: usize, name: &str) -> Result<&'a mut [u8]> {
    slice_mut(pointer.cast::<u8>(), len, name)
}

/// Where a call puts a new handle, or another plain result.
pub(super) struct Out<T> {
    to: *mut T,
    name: &'static str,
}

impl<C> Out<*mut C> {
    /// An out parameter for a handle; it is NULL until [`Out::give`].
    pub(super) fn handle(to: *mut *mut C, name: &'static str) -> Out<*mut C> {
        let out = Out { to, name };
        out.write(std::ptr::null_mut());
        out
    }

    /// Hands an object over to the caller.
    ///
    /// # Errors
    /// `NoMemory` when there are too many handles.
    pub(super) fn give<T: Object<C = C>>(&self, object: T) -> Result<i32> {
        self.write(handle::insert(object)?);
        Ok(0)
    }
}

impl<T: Copy> Out<T> {
    /// An out parameter for a plain value, which may be NULL if [`Out::check`] is not called.
    pub(super) fn plain(to: *mut T, name: &'static str) -> Out<T> {
        Out { to, name }
    }

    /// Refuses NULL; called before the work, so that nothing is done in vain.
    ///
    /// # Errors
    /// `NullPointer`, naming the argument.
    pub(super) fn check(&self) -> Result<()> {
        if self.to.is_null() { Err(null(self.name)) } else { Ok(()) }
    }

    /// Stores the value, if the caller wants it.
    pub(super) fn write(&self, value: T) {
        if let Some(to) = NonNull::new(self.to) {
            // SAFETY: the promise: NULL or a variable of the caller of this type.
            unsafe { to.write(value) };
        }
    }
}

/// A struct of the API that begins with its size in bytes as the caller knows it, and to which
/// later releases append fields.
///
/// # Safety
/// The type is `repr(C)`, begins with that `u32`, has no padding, and all zeroes as well as all
/// byte patterns are valid values of it.
pub(super) unsafe trait Sized32: Copy {}

/// Largest believable size of such a struct: more is taken for memory that was not initialised.
const STRUCT_BYTES_MAX: usize = 4096;

fn stated_size<T: Sized32>(pointer: *const T, name: &str) -> Result<usize> {
    let size = NonNull::new(pointer.cast_mut()).ok_or_else(|| null(name))?.cast::<u32>();
    // SAFETY: the promise: it points to a struct that begins with its size.
    let size = unsafe { size.read() } as usize;
    if !(size_of::<u32>()..=STRUCT_BYTES_MAX).contains(&size) {
        let text = format!("{name}->size is {size}: set it to sizeof *{name}");
        return Err(Error::new(Status::InvalidArgument, text));
    }
    Ok(size)
}

/// A struct of options, of which fields that the caller does not know are 0; NULL gives all zeroes.
///
/// # Errors
/// `InvalidArgument` for an impossible size; `Unsupported` if a field that we do not know is set.
pub(super) fn options<T: Sized32>(pointer: *const T, name: &str) -> Result<T> {
    // SAFETY: Sized32: all zeroes is a valid value.
    let mut value: T = unsafe { std::mem::zeroed() };
    if pointer.is_null() {
        return Ok(value);
    }
    let size = stated_size(pointer, name)?;
    // SAFETY: the promise: the struct has the size that it states.
    let given = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), size) };
    let known = size.min(size_of::<T>());
    let (head, tail) = given.split_at(known);
    if let Some(at) = tail.iter().position(|&b| b != 0) {
        let text = format!(
            "{name} sets a field at byte {} that this version ({}) does not know",
            known + at,
            env!("CARGO_PKG_VERSION")
        );
        return Err(Error::new(Status::Unsupported, text));
    }
    let to = (&raw mut value).cast::<u8>();
    // SAFETY: both hold `known` bytes and are distinct; Sized32: every byte pattern is valid.
    unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), to, known) };
    Ok(value)
}

/// A struct that a call fills; only the fields that the caller knows are written.
pub(super) struct Info<T> {
    to: *mut T,
    size: usize,
}

impl<T: Sized32> Info<T> {
    /// Checks the caller's struct before the work is done.
    ///
    /// # Errors
    /// `NullPointer`; `InvalidArgument` for an impossible size.
    pub(super) fn new(to: *mut T, name: &str) -> Result<Info<T>> {
        Ok(Info { to, size: stated_size(to, name)? })
    }

    /// Fills the struct; fields that the caller knows and we do not become 0.
    pub(super) fn fill(&self, value: &T) {
        const SIZE_FIELD: usize = size_of::<u32>();
        // SAFETY: the promise: the struct has the size that it states, which is at least 4.
        let to = unsafe { self.to.cast::<u8>().add(SIZE_FIELD) };
        // SAFETY: as above; only this call uses it.
        let to = unsafe { std::slice::from_raw_parts_mut(to, self.size - SIZE_FIELD) };
        let from = (&raw const *value).cast::<u8>();
        // SAFETY: Sized32: no padding, so all bytes are initialised.
        let from = unsafe { std::slice::from_raw_parts(from, size_of::<T>()) };
        let from = from.get(SIZE_FIELD..).unwrap_or_default();
        let known = from.len().min(to.len());
        let (head, tail) = to.split_at_mut(known);
        head.copy_from_slice(from.get(..known).unwrap_or_default());
        tail.fill(0);
    }
}

/// A string that C may read: NUL-terminated, with its length beside it.
#[derive(Debug)]
pub(super) struct CText(Box<[u8]>);

impl CText {
    pub(super) fn new(text: impl AsRef<[u8]>) -> CText {
        let text = text.as_ref();
        let mut all = Vec::with_capacity(text.len() + 1);
        all.extend_from_slice(text);
        all.push(0);
        CText(all.into_boxed_slice())
    }

    /// Bytes without the NUL at the end.
    pub(super) fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Lives as long as `self` does, wherever that is moved.
    pub(super) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    /// The text without the NUL.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.get(..self.len()).unwrap_or_default()
    }
}

/// Gives a string of an object to the caller: its length if wanted, and NULL if there is none.
pub(super) fn give_text(text: Option<&CText>, len: *mut usize) -> *const c_char {
    Out::plain(len, "len").write(text.map_or(0, CText::len));
    text.map_or(std::ptr::null(), CText::as_ptr)
}

/// Copies a string into a buffer of the caller as far as it fits, with a NUL at the end; returns
/// the length of all of it, so that a caller can see what is missing.
///
/// # Errors
/// `NullPointer`.
pub(super) fn copy_text(text: &str, buffer: *mut c_char, size: usize) -> Result<i64> {
    let to = slice_mut(buffer.cast::<u8>(), size, "buffer")?;
    let room = to.len().saturating_sub(1);
    let mut fits = text.len().min(room);
    while !text.is_char_boundary(fits) {
        fits -= 1;
    }
    for (to, from) in to.iter_mut().zip(text.bytes().take(fits).chain([0])) {
        *to = from;
    }
    Ok(i64::try_from(text.len()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Sample {
        size: u32,
        small: u32,
        large: u64,
    }

    // SAFETY: repr(C), u32 first, 4 + 4 + 8 bytes without padding, plain numbers.
    unsafe impl Sized32 for Sample {}

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Longer {
        sample: Sample,
        more: u64,
    }

    #[test]
    fn options_of_older_and_newer_callers() {
        let zero = Sample { size: 0, small: 0, large: 0 };
        assert_eq!(options::<Sample>(std::ptr::null(), "o").unwrap(), zero);
        let old = Sample { size: 8, small: 7, large: 9 };
        assert_eq!(options(&raw const old, "o").unwrap(), Sample { large: 0, ..old });
        let mut new = Longer { sample: Sample { size: 24, small: 1, large: 2 }, more: 0 };
        let pointer = (&raw const new).cast::<Sample>();
        assert_eq!(options(pointer, "o").unwrap(), new.sample);
        new.more = 1 << 40;
        let e = options((&raw const new).cast::<Sample>(), "opts").unwrap_err();
        assert_eq!(e.status(), Status::Unsupported);
        assert!(e.message().contains("opts sets a field at byte 21"), "{e}");
        for size in [0, 3, 4097, u32::MAX] {
            let bad = Sample { size, small: 0, large: 0 };
            let e = options(&raw const bad, "o").unwrap_err();
            assert_eq!(e.status(), Status::InvalidArgument);
        }
    }

    #[test]
    fn infos_of_older_and_newer_callers() {
        let value = Sample { size: 16, small: 5, large: 6 };
        let mut old = Sample { size: 8, small: 0, large: 1 };
        Info::new(&raw mut old, "i").unwrap().fill(&value);
        assert_eq!(old, Sample { size: 8, small: 5, large: 1 });
        let mut new = Longer { sample: Sample { size: 24, small: 0, large: 0 }, more: 3 };
        Info::new((&raw mut new).cast::<Sample>(), "i").unwrap().fill(&value);
        assert_eq!(new.sample, Sample { size: 24, small: 5, large: 6 });
        assert_eq!(new.more, 0);
        assert!(Info::<Sample>::new(std::ptr::null_mut(), "i").is_err());
    }

    #[test]
    fn strings_and_arrays() {
        assert_eq!(text(c"x".as_ptr(), "t").unwrap(), "x");
        let e = text(std::ptr::null(), "t").unwrap_err();
        assert_eq!((e.status(), e.message()), (Status::NullPointer, "t is NULL"));
        let e = text(c"ab\xff".as_ptr(), "t").unwrap_err();
        let wanted = (Status::BadUtf8, "t is not UTF-8: byte 2 is 0xff");
        assert_eq!((e.status(), e.message()), wanted);
        assert!(bytes(std::ptr::null(), 0, "d").unwrap().is_empty());
        let e = bytes(std::ptr::null(), 1, "d").unwrap_err();
        assert_eq!(e.status(), Status::NullPointer);
        let one = 0_u8;
        let e = bytes((&raw const one).cast(), usize::MAX, "d").unwrap_err();
        assert_eq!(e.status(), Status::InvalidArgument);
        let mut buffer = [9_u8; 4];
        assert_eq!(copy_text("abcdef", buffer.as_mut_ptr().cast(), 4).unwrap(), 6);
        assert_eq!(&buffer, b"abc\0");
        assert_eq!(copy_text("abé", buffer.as_mut_ptr().cast(), 4).unwrap(), 4);
        assert_eq!(&buffer, b"ab\0\0");
        assert_eq!(copy_text("ab", std::ptr::null_mut(), 0).unwrap(), 2);
    }

    #[test]
    #[allow(clippy::panic, reason = "the test is about panics")]
    fn a_panic_becomes_a_status() {
        let mut error = std::ptr::null_mut();
        let status: i32 = run(&raw mut error, || panic!("broken {}", 1));
        assert_eq!(status, Status::Panic as i32);
        let e = handle::pin::<super::super::error::ErrorObject>(error, "error").unwrap();
        assert!(e.error.message().contains("broken 1"));
        drop(e);
        free::<super::super::error::ErrorObject>(error, "error");
    }

    #[test]
    #[allow(clippy::panic, reason = "the test is about panics")]
    fn a_panic_poisons_the_handle_of_the_call() {
        use super::super::error::{ErrorObject, make};
        let handle = make(Error::new(Status::Io, "x")).unwrap();
        let call = |panics: bool| -> i32 {
            on(handle, "handle", std::ptr::null_mut(), |_: &ErrorObject| {
                if panics { panic!("broken") } else { Ok(7) }
            })
        };
        assert_eq!(call(false), 7);
        assert_eq!(call(true), Status::Panic as i32);
        assert_eq!(call(false), Status::Panic as i32);
        free::<ErrorObject>(handle, "handle");
        assert_eq!(call(false), Status::BadHandle as i32);
    }
}
