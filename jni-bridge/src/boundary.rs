//! The wall between the JVM and Rust: panics and errors become exceptions here, and only here is
//! memory of Java touched.
use dfs::error::{Error, Result as DfsResult, Status};
use jni::errors::ErrorPolicy;
use jni::objects::{JByteArray, JByteBuffer, JClass, JObject, JString, JThrowable, JValue};
use jni::refs::Global;
use jni::{Env, EnvUnowned, jni_sig, jni_str};
use std::any::Any;
use std::sync::OnceLock;

/// Why a native method failed.
pub(crate) enum Failure {
    /// The library's own error.
    Dfs(Error),
    /// A call into the JVM failed; mostly an exception is pending then.
    Jni(jni::errors::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Dfs(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Failure {
        Failure::Jni(error)
    }
}

/// What the body of a native method returns.
pub(crate) type Outcome<T> = Result<T, Failure>;

static EXCEPTION: OnceLock<Global<JClass<'static>>> = OnceLock::new();

/// Looks up the classes that natives need while the loader of the Java half is at hand.
///
/// # Errors
/// When a class is missing: the jar and the library do not belong together.
pub(crate) fn cache_classes(env: &mut Env<'_>) -> jni::errors::Result<()> {
    let class = env.find_class(jni_str!("io/libdfs/DfsException"))?;
    let class = env.new_global_ref(class)?;
    // A second load by another loader is another copy of this library, with its own statics.
    let _ = EXCEPTION.set(class);
    Ok(())
}

/// Turns failures into exceptions.
struct Throw;

fn nullable<'local>(
    env: &mut Env<'local>,
    text: Option<&str>,
) -> jni::errors::Result<JObject<'local>> {
    match text {
        Some(text) => Ok(env.new_string(text)?.into()),
        None => Ok(JObject::null()),
    }
}

fn throw_dfs(env: &mut Env<'_>, error: &Error) -> jni::errors::Result<()> {
    let Some(class) = EXCEPTION.get() else {
        return env.throw_new(
            jni_str!("java/lang/IllegalStateException"),
            jni_str!("libdfs: a native method ran before the library was set up"),
        );
    };
    // The frame ends with the native method, so these references need no care.
    let message = env.new_string(error.to_string())?;
    let remote_class = nullable(env, error.remote_class())?;
    let remote_message = nullable(env, error.remote_message())?;
    let server = nullable(env, error.server())?;
    let durable = error.durable_bytes().and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    let object = env.new_object(
        class,
        jni_sig!("(ILjava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;JZZ)V"),
        &[
            JValue::Int(error.status() as i32),
            JValue::Object(&message),
            JValue::Object(&remote_class),
            JValue::Object(&remote_message),
            JValue::Object(&server),
            JValue::Long(durable),
            JValue::Bool(error.is_fatal()),
            JValue::Bool(error.is_retriable()),
        ],
    )?;
    let throwable = env.cast_local::<JThrowable<'_>>(object)?;
    env.throw(throwable)
}

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'local: 'method, 'method> = ();

    fn on_error<'local: 'method, 'method>(
        env: &mut Env<'local>,
        _captures: &mut (),
        failure: Failure,
    ) -> jni::errors::Result<T> {
        if env.exception_check() {
            return Ok(T::default());
        }
        let thrown = match &failure {
            Failure::Dfs(error) => throw_dfs(env, error),
            Failure::Jni(error) => {
                let error = Error::new(Status::Internal, format!("a JVM call failed: {error}"));
                throw_dfs(env, &error)
            }
        };
        finish(thrown)
    }

    fn on_panic<'local: 'method, 'method>(
        env: &mut Env<'local>,
        _captures: &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let text = format!("internal error of libdfs (panic): {text}");
        // Dropping a payload may panic again; a leak of one is harmless.
        std::mem::forget(payload);
        if env.exception_check() {
            env.exception_clear();
        }
        let class = jni_str!("java/lang/RuntimeException");
        finish(env.throw_new(class, jni::strings::JNIString::from(text)))
    }
}

/// `Error::JavaException` is how a thrown exception reports its success.
fn finish<T: Default>(thrown: jni::errors::Result<()>) -> jni::errors::Result<T> {
    match thrown {
        Ok(()) | Err(jni::errors::Error::JavaException) => Ok(T::default()),
        Err(other) => Err(other),
    }
}

/// Runs the body of a native method.
#[inline]
pub(crate) fn call<'local, T: Default>(
    mut env: EnvUnowned<'local>,
    body: impl FnOnce(&mut Env<'local>) -> Outcome<T>,
) -> T {
    env.with_env(body).resolve::<Throw>()
}

/// A string argument.
///
/// # Errors
/// `NullPointer`, naming the argument.
pub(crate) fn text(env: &Env<'_>, string: &JString<'_>, name: &str) -> Outcome<String> {
    optional_text(env, string)?.ok_or_else(|| null(name).into())
}

/// A string argument that may be null.
///
/// # Errors
/// Those of the JVM.
pub(crate) fn optional_text(env: &Env<'_>, string: &JString<'_>) -> Outcome<Option<String>> {
    if string.is_null() {
        return Ok(None);
    }
    Ok(Some(string.try_to_string(env)?))
}

fn null(name: &str) -> Error {
    Error::new(Status::NullPointer, format!("{name} is null"))
}

/// An offset or a length from Java.
///
/// # Errors
/// `InvalidArgument` for a negative one.
pub(crate) fn size(number: i32, name: &str) -> DfsResult<usize> {
    let negative = |_| Error::new(Status::InvalidArgument, format!("{name} {number} is negative"));
    usize::try_from(number).map_err(negative)
}

/// A file position from Java.
///
/// # Errors
/// `OutOfRange` for a negative one.
pub(crate) fn position(number: i64) -> DfsResult<u64> {
    let negative = |_| Error::new(Status::OutOfRange, format!("the position {number} is negative"));
    u64::try_from(number).map_err(negative)
}

/// A number of bytes for Java.
///
/// # Errors
/// `OutOfRange` for more than a `long` holds.
pub(crate) fn long(bytes: u64) -> DfsResult<i64> {
    let large = |_| Error::new(Status::OutOfRange, format!("{bytes} does not fit a long"));
    i64::try_from(bytes).map_err(large)
}

/// Checks that `offset..offset + len` lies within `capacity`.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_range(
    offset: i32,
    len: i32,
    capacity: usize,
    name: &str,
) -> DfsResult<(usize, usize)> {
    let (start, count) = (size(offset, "the offset")?, size(len, "the length")?);
    if start.checked_add(count).is_none_or(|end| end > capacity) {
        let text = format!("{count} bytes from {start} do not lie in the {capacity} of {name}");
        return Err(Error::new(Status::InvalidArgument, text));
    }
    Ok((start, count))
}

/// `len` bytes from `offset` of a direct buffer.
fn direct(
    env: &Env<'_>,
    buffer: &JByteBuffer<'_>,
    offset: i32,
    len: i32,
) -> Outcome<(*mut u8, usize)> {
    if buffer.is_null() {
        return Err(null("the buffer").into());
    }
    let address = env.get_direct_buffer_address(buffer)?;
    let capacity = env.get_direct_buffer_capacity(buffer)?;
    let (start, count) = check_range(offset, len, capacity, "the buffer")?;
    // SAFETY: start is at most the capacity of the buffer's memory (checked above).
    let first = unsafe { address.add(start) };
    Ok((first, count))
}

/// Memory of a direct buffer, to be read.
///
/// # Errors
/// `NullPointer`, `InvalidArgument` for a range outside the buffer.
pub(crate) fn direct_ref<'buffer>(
    env: &Env<'_>,
    buffer: &'buffer JByteBuffer<'_>,
    offset: i32,
    len: i32,
) -> Outcome<&'buffer [u8]> {
    let (start, count) = direct(env, buffer, offset, len)?;
    // SAFETY: the range lies in the buffer's memory, which lives as long as the buffer, and that as
    // long as the reference. Java threads that change it meanwhile change plain bytes that are only
    // copied and summed; no call of ours does, for the Java half holds its stream's lock.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// Memory of a direct buffer, to be filled.
///
/// # Errors
/// As [`direct_ref`].
#[allow(clippy::mut_from_ref, reason = "the reference is Java's, the memory behind it is not")]
pub(crate) fn direct_mut<'buffer>(
    env: &Env<'_>,
    buffer: &'buffer JByteBuffer<'_>,
    offset: i32,
    len: i32,
) -> Outcome<&'buffer mut [u8]> {
    let (start, count) = direct(env, buffer, offset, len)?;
    // SAFETY: as in `direct_ref`; that no other call uses the buffer meanwhile is what
    // java.nio.Buffer demands of its users.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, count) })
}

/// The `jbyte`s of JNI's signatures are bytes.
pub(crate) fn signed(bytes: &mut [u8]) -> &mut [i8] {
    let (start, len) = (bytes.as_mut_ptr().cast::<i8>(), bytes.len());
    // SAFETY: u8 and i8 have one layout, every bit pattern is valid for both, and the borrow of
    // `bytes` goes on as the result's.
    unsafe { std::slice::from_raw_parts_mut(start, len) }
}

/// Checks a range of a byte array.
///
/// # Errors
/// `NullPointer`, `InvalidArgument`.
pub(crate) fn check_array(
    env: &Env<'_>,
    array: &JByteArray<'_>,
    offset: i32,
    len: i32,
) -> Outcome<(usize, usize)> {
    if array.is_null() {
        return Err(null("the array").into());
    }
    let capacity = array.len(env)?;
    Ok(check_range(offset, len, capacity, "the array")?)
}
