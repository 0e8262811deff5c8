//! Reads delimited messages (the connect ack, then pipeline acks) from a pipeline's socket.
use super::pipeline::Conn;
use crate::error::{Error, Result};
use crate::time::Deadline;
use crate::wire::packet::{PipelineAck, decode_ack};
use crate::wire::varint::{self, Get};
use std::io::{self, IoSliceMut};
use std::sync::Arc;

/// Longest message accepted: a connect ack may carry a DataNode's exception text.
const MAX_MESSAGE: usize = 64 * 1024;
/// Buffer of one stream, bytes: many acks fit, and an idle stream stays small.
const INITIAL: usize = 1024;

/// The receiving end of a pipeline. Whoever holds it is the one that reads acks.
pub(crate) struct AckReader {
    pub(crate) conn: Arc<Conn>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// What one receive brought.
pub(crate) enum Received {
    /// Some bytes.
    Bytes,
    /// Nothing within the slice.
    Nothing,
}

impl AckReader {
    pub(crate) fn new(conn: Arc<Conn>) -> AckReader {
        AckReader { conn, buffer: vec![0; INITIAL], start: 0, end: 0 }
    }

    /// The next whole message in the buffer, if there is one.
    fn message(&mut self) -> Result<Option<&[u8]>> {
        let bytes = self.buffer.get(self.start..self.end).unwrap_or_default();
        let (len, prefix) = match varint::get(bytes) {
            Get::Short => return Ok(None),
            Get::Bad => return Err(Error::protocol("an ack has a malformed length")),
            Get::Value(len, prefix) => (usize::try_from(len).unwrap_or(usize::MAX), prefix),
        };
        if len > MAX_MESSAGE {
            return Err(Error::protocol(format!("an ack claims {len} bytes")));
        }
        let total = prefix + len;
        if bytes.len() < total {
            if self.buffer.len() < total {
                self.buffer.resize(total, 0);
            }
            return Ok(None);
        }
        let from = self.start + prefix;
        self.start += total;
        Ok(self.buffer.get(from..from + len))
    }

    /// The next whole pipeline ack in the buffer, if there is one.
    ///
    /// # Errors
    /// `Protocol` when the bytes are no ack.
    pub(crate) fn next_ack(&mut self) -> Result<Option<PipelineAck>> {
        match self.message()? {
            Some(bytes) => decode_ack(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The next whole message, decoded by `decode`, waiting for it until `deadline`.
    ///
    /// # Errors
    /// The I/O error in words, or `Protocol`.
    pub(crate) fn wait_message<T>(
        &mut self,
        deadline: Deadline,
        decode: impl Fn(&[u8]) -> Result<T>,
    ) -> Result<T> {
        loop {
            if let Some(bytes) = self.message()? {
                return decode(bytes);
            }
            let got = self.receive(deadline, true);
            let server = &self.conn.server;
            match got.map_err(|e| self.conn.io_error(&e, "waiting for the answer of"))? {
                Received::Bytes => {}
                Received::Nothing if deadline.passed() => {
                    let e = io::Error::from_raw_os_error(libc::ETIMEDOUT);
                    return Err(crate::net::tcp::io_error(&e, "waiting for the answer of", server));
                }
                Received::Nothing => {}
            }
        }
    }

    /// One receive: waits up to a slice (or not at all). The end of the stream is an error.
    ///
    /// # Errors
    /// The system's error; `UnexpectedEof` when the DataNode closed the connection.
    pub(crate) fn receive(&mut self, deadline: Deadline, wait: bool) -> io::Result<Received> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        let mut parts = [IoSliceMut::new(free)];
        let got = if wait {
            self.conn.socket.recv_slice(&mut parts, deadline)?
        } else {
            self.conn.socket.try_recv(&mut parts)?
        };
        match got {
            None => Ok(Received::Nothing),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(n) => {
                self.end += n;
                Ok(Received::Bytes)
            }
        }
    }
}
