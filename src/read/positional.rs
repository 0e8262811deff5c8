//! Positional reads: no cursor, no shared lock on the way of the data.
use super::context::ReadStats;
use super::failover::Failover;
use super::input_stream::InputStream;
use super::located::Block;
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
use std::sync::Arc;

/// Ranges at most this far apart are fetched by one request: the bytes between them cost less than
/// another request does.
const MERGE_GAP_BYTES: u64 = 64 << 10;

/// A part of one block and the memory for it.
struct Segment<'a> {
    block_offset: u64,
    buf: &'a mut [u8],
}

impl Segment<'_> {
    fn end(&self) -> u64 {
        self.block_offset + self.buf.len() as u64
    }
}

impl InputStream {
    /// Reads at `offset`, whatever the cursor: fills `buf` unless the file ends before, and returns
    /// the number of bytes; 0 behind the end. Any thread, concurrent with every other call.
    ///
    /// # Errors
    /// As [`Self::read`]; then nothing is known about the contents of `buf`.
    pub fn pread(&self, offset: u64, buf: &mut [u8], d: Deadline) -> Result<usize> {
        self.check_call(d)?;
        let want = self.clip(offset, buf.len());
        let mut done = 0;
        while done < want {
            let at = offset + done as u64;
            let block = self.file.block_at(at, self.closed(), d)?;
            let n = clip_to(block.end() - at, want - done);
            let buf = buf.get_mut(done..done + n).unwrap_or_default();
            let block_offset = at - block.offset;
            self.read_segments(block, &mut [Segment { block_offset, buf }], d)?;
            done += n;
        }
        ReadStats::add(&self.ctx.stats.bytes, done as u64);
        Ok(done)
    }

    /// Reads several ranges `(offset, memory)` in any order; near ones are fetched together.
    /// Returns the bytes read of each, which are fewer than its memory only at the end of the
    /// file. Any thread, concurrent with every other call.
    ///
    /// # Errors
    /// As [`Self::pread`], for the first range that fails.
    pub fn preadv(&self, ranges: &mut [(u64, &mut [u8])], d: Deadline) -> Result<Vec<usize>> {
        self.check_call(d)?;
        let counts: Vec<usize> =
            ranges.iter().map(|(offset, buf)| self.clip(*offset, buf.len())).collect();
        let clipped = ranges.iter_mut().zip(&counts).filter(|(_, n)| **n > 0);
        let mut pieces: Vec<(u64, &mut [u8])> = clipped
            .map(|((offset, buf), n)| (*offset, buf.get_mut(..*n).unwrap_or_default()))
            .collect();
        pieces.sort_by_key(|piece| piece.0);
        let mut group: Option<(Arc<Block>, Vec<Segment<'_>>)> = None;
        for (mut at, mut buf) in pieces {
            while !buf.is_empty() {
                let block = match &group {
                    Some((block, _)) if block.offset <= at && at < block.end() => Arc::clone(block),
                    _ => self.file.block_at(at, self.closed(), d)?,
                };
                let (head, rest) = buf.split_at_mut(clip_to(block.end() - at, buf.len()));
                let segment = Segment { block_offset: at - block.offset, buf: head };
                at = block.end();
                buf = rest;
                match &mut group {
                    Some((old, segments))
                        if Arc::ptr_eq(old, &block) && joins(segments, &segment) =>
                    {
                        segments.push(segment);
                    }
                    _ => {
                        if let Some((block, mut segments)) = group.take() {
                            self.read_segments(block, &mut segments, d)?;
                        }
                        group = Some((block, vec![segment]));
                    }
                }
            }
        }
        if let Some((block, mut segments)) = group {
            self.read_segments(block, &mut segments, d)?;
        }
        ReadStats::add(&self.ctx.stats.bytes, counts.iter().map(|n| *n as u64).sum());
        Ok(counts)
    }

    /// How many of `len` bytes from `offset` lie inside the file.
    fn clip(&self, offset: u64, len: usize) -> usize {
        clip_to(self.file.len().saturating_sub(offset), len)
    }

    /// Fills ascending segments of one block by one request, over all replicas.
    fn read_segments(
        &self,
        mut block: Arc<Block>,
        segments: &mut [Segment<'_>],
        d: Deadline,
    ) -> Result<()> {
        let mut failover = Failover::default();
        let result = loop {
            let Some(node) = failover.next_node(&block, self.dead_nodes()) else {
                match self.next_round(&mut failover, &block, d) {
                    Ok(fresh) => block = fresh,
                    Err(e) => break Err(e),
                }
                continue;
            };
            match self.attempt(&block, node, segments, d) {
                Ok(()) => break Ok(()),
                Err(e) => match self.react(&mut failover, &block, node, &e, false, d) {
                    Ok(fresh) => block = fresh,
                    Err(e) => break Err(e),
                },
            }
        };
        self.report_corrupt(&failover, &block, d);
        result
    }

    fn attempt(
        &self,
        block: &Block,
        node: usize,
        segments: &mut [Segment<'_>],
        d: Deadline,
    ) -> Result<()> {
        let (Some(first), Some(end)) =
            (segments.first().map(|s| s.block_offset), segments.last().map(Segment::end))
        else {
            return Ok(());
        };
        let wire = self.wire(d);
        let mut reader = self.open_reader(block, node, first, end - first, &wire)?;
        for segment in segments {
            reader.skip_to(segment.block_offset);
            let mut done = 0;
            while done < segment.buf.len() {
                let n = reader.read(segment.buf.get_mut(done..).unwrap_or_default(), &wire)?;
                if n == 0 {
                    return Err(Error::new(Status::Internal, "a reader ended before its request"));
                }
                done += n;
            }
        }
        ReadStats::add(&self.ctx.stats.requests, 1);
        if let Some(peer) = reader.finish(&wire) {
            self.ctx.peers.put(peer);
        }
        Ok(())
    }
}

/// Whether a segment can be fetched by the request of those before it.
fn joins(segments: &[Segment<'_>], next: &Segment<'_>) -> bool {
    let end = segments.last().map_or(0, Segment::end);
    next.block_offset.checked_sub(end).is_some_and(|gap| gap <= MERGE_GAP_BYTES)
}

/// The smaller of the two.
fn clip_to(bytes: u64, len: usize) -> usize {
    usize::try_from(bytes).map_or(len, |bytes| bytes.min(len))
}
