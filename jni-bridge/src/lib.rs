//! The native half of the `io.libdfs` Java packages.
//!
//! The JVM sees one symbol, `JNI_OnLoad`; it registers the functions of the modules below as the
//! static natives of `io.libdfs.Natives`. Java holds handles, never pointers. The calling Java
//! thread does all the work, as everywhere in libdfs; the two background threads of the core never
//! call Java. A second class loader loads a second copy of this library with its own state.
#![deny(unsafe_op_in_unsafe_fn)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(panic = "abort")]
compile_error!("the JVM boundary turns panics into exceptions, so it needs panic = \"unwind\"");

mod boundary;
mod cancel;
mod file_system;
mod handles;
mod input;
mod log_ring;
mod output;

use boundary::call;
use jni::objects::{JClass, JString};
use jni::sys::{JNI_ERR, JNI_VERSION_1_8, JavaVM as RawVm, jboolean, jint, jlong};
use jni::{EnvUnowned, JavaVM, NativeMethod, jni_str};
use std::ffi::c_void;
use std::time::Duration;

/// `String version()`: of the library, to be compared with the jar's.
extern "system" fn version<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
) -> JString<'local> {
    call(env, |env| Ok(env.new_string(env!("CARGO_PKG_VERSION"))?))
}

/// `void free(long handle)`: forgets an object; an unclosed writer is abandoned. Stale is fine.
extern "system" fn free<'local>(env: EnvUnowned<'local>, _class: JClass<'local>, handle: jlong) {
    call(env, |_| {
        handles::free(handle);
        Ok(())
    })
}

/// `long liveHandles()`.
extern "system" fn live_handles<'local>(env: EnvUnowned<'local>, _class: JClass<'local>) -> jlong {
    call(env, |_| Ok(i64::try_from(handles::live()).unwrap_or(i64::MAX)))
}

/// `int interruptFlag()`: makes a flag.
extern "system" fn interrupt_flag<'local>(env: EnvUnowned<'local>, _class: JClass<'local>) -> jint {
    call(env, |_| Ok(cancel::create()?))
}

/// `void setInterruptFlag(int flag, boolean on)`.
extern "system" fn set_interrupt_flag<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    flag: jint,
    on: jboolean,
) {
    call(env, |_| Ok(cancel::set(flag, on)?))
}

/// `void setLogLevel(int level)`.
extern "system" fn set_log_level<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    level: jint,
) {
    call(env, |_| {
        log_ring::set_level(level);
        Ok(())
    })
}

/// `String takeLogLine(int waitMs)`: level digit and text, or null.
extern "system" fn take_log_line<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    wait_ms: jint,
) -> JString<'local> {
    call(env, |env| {
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
        match log_ring::take(wait) {
            Some(line) => Ok(env.new_string(line)?),
            None => Ok(JString::null()),
        }
    })
}

/// `void panic()`: for the test that a panic becomes an exception.
extern "system" fn panic<'local>(env: EnvUnowned<'local>, _class: JClass<'local>) {
    call(env, |_| std::panic::panic_any("on request"))
}

/// Name, signature and function of each native; the second parameter of all is the class.
macro_rules! natives {
    ($($name:literal $signature:literal $function:expr;)+) => {
        [$({
            let function = $function as *mut c_void;
            // SAFETY: the function has the parameters of the signature beside it, behind an
            // environment and the class; both lists are compared when either is changed, and
            // every native is called by the Java tests.
            unsafe {
                NativeMethod::from_raw_parts(jni_str!($name), jni_str!($signature), function)
            }
        }),+]
    };
}

fn register(env: &mut jni::Env<'_>) -> jni::errors::Result<()> {
    boundary::cache_classes(env)?;
    let class = env.find_class(jni_str!("io/libdfs/Natives"))?;
    let methods = natives! {
        "version" "()Ljava/lang/String;" version;
        "free" "(J)V" free;
        "liveHandles" "()J" live_handles;
        "interruptFlag" "()I" interrupt_flag;
        "setInterruptFlag" "(IZ)V" set_interrupt_flag;
        "setLogLevel" "(I)V" set_log_level;
        "takeLogLine" "(I)Ljava/lang/String;" take_log_line;
        "panic" "()V" panic;
        "connect" "(Ljava/lang/String;ILjava/lang/String;[Ljava/lang/String;JI)J"
            file_system::connect;
        "closeFileSystem" "(J)V" file_system::close;
        "uri" "(J)Ljava/lang/String;" file_system::uri;
        "statistics" "(J[J)V" file_system::statistics;
        "stat" "(JLjava/lang/String;JI)[Ljava/lang/Object;" file_system::stat;
        "list" "(JLjava/lang/String;JI)[Ljava/lang/Object;" file_system::list;
        "mkdir" "(JLjava/lang/String;IZJI)V" file_system::mkdir;
        "delete" "(JLjava/lang/String;ZJI)Z" file_system::delete;
        "rename" "(JLjava/lang/String;Ljava/lang/String;ZJI)V" file_system::rename;
        "truncate" "(JLjava/lang/String;JJI)Z" file_system::truncate;
        "recoverLease" "(JLjava/lang/String;JI)Z" file_system::recover_lease;
        "isFileClosed" "(JLjava/lang/String;JI)Z" file_system::is_file_closed;
        "create" "(JLjava/lang/String;IIIJIIIILjava/lang/String;IJI)J" output::create;
        "write" "(JLjava/nio/ByteBuffer;IIJI)V" output::write;
        "writeArray" "(J[BIIJI)V" output::write_array;
        "flush" "(JIJI)V" output::flush;
        "closeOutput" "(JJI)V" output::close;
        "outputPosition" "(J)J" output::position;
        "durable" "(J)J" output::durable;
        "pipeline" "(J)[Ljava/lang/String;" output::pipeline;
        "open" "(JLjava/lang/String;ZJIJI)J" input::open;
        "read" "(JLjava/nio/ByteBuffer;IIJI)I" input::read;
        "readArray" "(J[BIIJI)I" input::read_array;
        "pread" "(JJLjava/nio/ByteBuffer;IIJI)I" input::pread;
        "preadArray" "(JJ[BIIJI)I" input::pread_array;
        "preadVector" "(J[J[I[Ljava/nio/ByteBuffer;[IJI)V" input::pread_vector;
        "seek" "(JJ)V" input::seek;
        "inputPosition" "(J)J" input::tell;
        "inputLength" "(J)J" input::length;
        "refresh" "(JJI)J" input::refresh;
        "setReadahead" "(JJ)V" input::set_readahead;
        "setDropBehind" "(JI)V" input::set_drop_behind;
        "unbuffer" "(J)V" input::unbuffer;
        "closeInput" "(J)V" input::close;
    };
    // SAFETY: every method of the table is static and has the class as second parameter.
    unsafe { env.register_native_methods(class, &methods) }
}

/// Called by the JVM when `System.load` loads the library. A failure leaves its exception
/// (NoSuchMethodError, NoClassDefFoundError) or makes the JVM throw UnsatisfiedLinkError.
///
/// # Safety
/// `vm` is what the JVM passes: its own, valid pointer.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn JNI_OnLoad(vm: *mut RawVm, _reserved: *mut c_void) -> jint {
    let loaded = std::panic::catch_unwind(|| {
        // SAFETY: the caller's promise.
        let vm = unsafe { JavaVM::from_raw(vm) };
        vm.attach_current_thread(register)
    });
    match loaded {
        Ok(Ok(())) => JNI_VERSION_1_8,
        _ => JNI_ERR,
    }
}
