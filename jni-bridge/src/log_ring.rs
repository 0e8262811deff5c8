//! Log lines on their way to Java: a bounded ring that a Java thread drains. The threads of the
//! library never call Java.
use dfs::log::Level;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// Lines kept while nobody drains; older ones go first, and are counted.
const LINES_MAX: usize = 1024;

struct Ring {
    lines: VecDeque<(Level, String)>,
    lost: u64,
}

static RING: Mutex<Ring> = Mutex::new(Ring { lines: VecDeque::new(), lost: 0 });
static FILLED: Condvar = Condvar::new();

/// Directs the library's log into the ring, up to `level` (0: nothing, 4: every decision).
pub(crate) fn set_level(level: i32) {
    dfs::log::set_sink(Some(Box::new(push)), level);
}

fn push(level: Level, text: &str) {
    let mut ring = RING.lock();
    if ring.lines.len() >= LINES_MAX {
        ring.lines.pop_front();
        ring.lost += 1;
    }
    ring.lines.push_back((level, text.to_owned()));
    FILLED.notify_one();
}

/// The oldest line as its level's number and text; waits for one up to `wait`.
pub(crate) fn take(wait: Duration) -> Option<String> {
    let mut ring = RING.lock();
    if ring.lines.is_empty() {
        FILLED.wait_for(&mut ring, wait);
    }
    if ring.lost > 0 {
        let lost = std::mem::take(&mut ring.lost);
        return Some(format!("{}{lost} log lines were lost", Level::Warn as i32));
    }
    ring.lines.pop_front().map(|(level, text)| format!("{}{text}", level as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_and_says_what_it_lost() {
        for n in 0..LINES_MAX + 3 {
            push(Level::Info, &format!("line {n}"));
        }
        assert_eq!(take(Duration::ZERO).as_deref(), Some("23 log lines were lost"));
        assert_eq!(take(Duration::ZERO).as_deref(), Some("3line 3"));
        while take(Duration::ZERO).is_some() {}
        assert_eq!(take(Duration::from_millis(1)), None);
    }
}
