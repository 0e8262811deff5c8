//! A close that nobody waits for: a worker thread ends the file.
use super::output_stream::Stream;
use crate::error::{Error, Result, Status};
use crate::keeper::{self, Kind};
use crate::time::Deadline;
use std::sync::Arc;

/// Where the background close of a file stands.
#[derive(Default)]
pub(super) enum Closing {
    /// Not begun, or its failure was told.
    #[default]
    Idle,
    Running,
    Ended(Result<()>),
}

impl Stream {
    /// Has a worker close the file within `limit_ms` (0: only the limits of the steps).
    pub(super) fn close_begin(self: &Arc<Stream>, limit_ms: u64) -> Result<()> {
        {
            let mut closing = self.closing.lock();
            match *closing {
                Closing::Running | Closing::Ended(Ok(())) => return Ok(()),
                Closing::Idle | Closing::Ended(Err(_)) => *closing = Closing::Running,
            }
        }
        let stream = Arc::clone(self);
        let task = move || {
            let result = stream.close(Deadline::after_ms(limit_ms));
            *stream.closing.lock() = Closing::Ended(result);
        };
        keeper::submit(Kind::Close, Box::new(task))
            .inspect_err(|_| *self.closing.lock() = Closing::Idle)
    }

    /// Whether the file is closed; a failed attempt is told once.
    pub(super) fn close_poll(&self) -> Result<bool> {
        let mut closing = self.closing.lock();
        match std::mem::take(&mut *closing) {
            Closing::Running => {
                *closing = Closing::Running;
                Ok(false)
            }
            Closing::Ended(Ok(())) => {
                *closing = Closing::Ended(Ok(()));
                Ok(true)
            }
            Closing::Ended(Err(error)) => Err(error),
            Closing::Idle => {
                drop(closing);
                // Somebody may be closing it in the foreground.
                let Some(writer) = self.writer.try_lock() else { return Ok(false) };
                if writer.closed {
                    return Ok(true);
                }
                let text = format!("no close of {} was begun", self.file.path);
                Err(Error::new(Status::InvalidArgument, text))
            }
        }
    }

    /// Whether a worker is closing the file: it must then not be abandoned.
    pub(super) fn is_closing(&self) -> bool {
        matches!(*self.closing.lock(), Closing::Running)
    }
}
