//! Log lines: a level, a process-wide sink, nothing on stdout or stderr.
use parking_lot::RwLock;
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};

/// How much a line matters. The numbers are part of the ABI.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something the operator must know.
    Error = 1,
    /// Something went wrong and was handled.
    Warn = 2,
    /// Rare, normal events.
    Info = 3,
    /// Every decision.
    Debug = 4,
}

/// Receives every enabled line, on whatever thread produced it; it must not call this library.
pub type Sink = Box<dyn Fn(Level, &str) + Send + Sync>;

static LEVEL: AtomicI32 = AtomicI32::new(0);
static SINK: RwLock<Option<Sink>> = RwLock::new(None);

/// Sets or clears the sink and the most verbose level it receives.
pub fn set_sink(sink: Option<Sink>, level: i32) {
    let mut slot = SINK.write();
    LEVEL.store(if sink.is_some() { level } else { 0 }, Ordering::Relaxed);
    *slot = sink;
}

/// Whether lines of `level` go anywhere; one relaxed load.
#[inline]
pub fn enabled(level: Level) -> bool {
    level as i32 <= LEVEL.load(Ordering::Relaxed)
}

/// Hands one line to the sink.
#[cold]
pub fn write(level: Level, args: fmt::Arguments<'_>) {
    if let Some(sink) = SINK.read().as_ref() {
        sink(level, &args.to_string());
    }
}

/// Logs at `Level::$level` with `format!` arguments, which are evaluated only if somebody listens.
#[macro_export]
macro_rules! dfs_log {
    ($level:ident, $($arg:tt)+) => {
        if $crate::log::enabled($crate::log::Level::$level) {
            $crate::log::write($crate::log::Level::$level, format_args!($($arg)+));
        }
    };
}
