//! Positional reads: no cursor, no shared lock on the way of the data.
use super::context::ReadStats;
use super::failover::Failover;
use super::input_stream::{InputStream, delivered};
use super::located::Block;
use super::race::Job;
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
use std::sync::Arc;

/// Ranges at most this far apart are fetched by one request: the bytes between them cost less than
/// another request does.
const MERGE_GAP_BYTES: u64 = 64 << 10;

/// Longest range that one request fetches when reads are hedged: a hedge needs memory for it, and
/// the time after which it is sent means the same for every read.
const HEDGED_BYTES_MAX: usize = 1 << 20;

/// A part of one block and the memory for it.
pub(super) struct Segment<'a> {
    pub(super) block_offset: u64,
    pub(super) buf: &'a mut [u8],
}

impl Segment<'_> {
    pub(super) fn end(&self) -> u64 {
        self.block_offset + self.buf.len() as u64
    }
}

/// Ascending segments of one block that one request fetches.
type Group<'a> = (Arc<Block>, Vec<Segment<'a>>);

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
            let n = clip_to(block.end() - at, want - done).min(self.request_bytes_max());
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
        let mut groups = self.group(pieces, d)?;
        if let [(block, segments)] = &mut groups[..] {
            self.read_segments(Arc::clone(block), segments, d)?;
        } else {
            self.read_groups(&mut groups, d)?;
        }
        ReadStats::add(&self.ctx.stats.bytes, counts.iter().map(|n| *n as u64).sum());
        Ok(counts)
    }

    /// Splits ascending pieces of the file at the ends of blocks and joins those that are near.
    fn group<'m>(&self, pieces: Vec<(u64, &'m mut [u8])>, d: Deadline) -> Result<Vec<Group<'m>>> {
        let max = self.request_bytes_max();
        let mut groups: Vec<Group<'m>> = Vec::new();
        for (mut at, mut buf) in pieces {
            while !buf.is_empty() {
                let block = match groups.last() {
                    Some((block, _)) if block.offset <= at && at < block.end() => Arc::clone(block),
                    _ => self.file.block_at(at, self.closed(), d)?,
                };
                let take = clip_to(block.end() - at, buf.len()).min(max);
                let (head, rest) = buf.split_at_mut(take);
                let segment = Segment { block_offset: at - block.offset, buf: head };
                at += take as u64;
                buf = rest;
                match groups.last_mut() {
                    Some((old, segments))
                        if Arc::ptr_eq(old, &block) && joins(segments, &segment, max) =>
                    {
                        segments.push(segment);
                    }
                    _ => groups.push((block, vec![segment])),
                }
            }
        }
        Ok(groups)
    }

    /// Fetches groups from several DataNodes at once; what fails there goes on alone afterwards,
    /// since that may take pauses.
    fn read_groups(&self, groups: &mut [Group<'_>], d: Deadline) -> Result<()> {
        let jobs = groups.iter_mut().map(|(block, segments)| Job::new(Arc::clone(block), segments));
        let mut jobs: Vec<Job<'_, '_>> = jobs.collect();
        self.race(&mut jobs, d)?;
        for job in jobs {
            if job.is_exhausted() {
                let Job { block, failover, segments, .. } = job;
                let (fresh, failover) = self.after_exhaustion(block, failover, d)?;
                self.read_on(fresh, segments, failover, d)?;
            } else {
                self.report_corrupt(&job.failover, &job.block, d);
            }
        }
        Ok(())
    }

    /// Longest range that one request may fetch.
    fn request_bytes_max(&self) -> usize {
        if self.hedges() { HEDGED_BYTES_MAX } else { usize::MAX }
    }

    /// Whether positional reads are hedged.
    pub(super) fn hedges(&self) -> bool {
        self.ctx.config.hedged_read_pool_size > 0
    }

    /// How many of `len` bytes from `offset` lie inside the file.
    fn clip(&self, offset: u64, len: usize) -> usize {
        clip_to(self.file.len().saturating_sub(offset), len)
    }

    /// Fills ascending segments of one block by one request, over all replicas.
    fn read_segments(
        &self,
        block: Arc<Block>,
        segments: &mut [Segment<'_>],
        d: Deadline,
    ) -> Result<()> {
        self.read_on(block, segments, Failover::default(), d)
    }

    /// As [`Self::read_segments`], after the attempts that `failover` knows.
    fn read_on(
        &self,
        mut block: Arc<Block>,
        segments: &mut [Segment<'_>],
        mut failover: Failover,
        d: Deadline,
    ) -> Result<()> {
        if self.hedges() {
            return self.read_hedged(block, segments, failover, d);
        }
        let result = loop {
            let Some(node) = failover.next_node(&block, |_| Some(0)) else {
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

    /// As [`Self::read_on`], asking another replica too when one is late.
    fn read_hedged(
        &self,
        mut block: Arc<Block>,
        segments: &mut [Segment<'_>],
        mut failover: Failover,
        d: Deadline,
    ) -> Result<()> {
        loop {
            let mut job = [Job::new(block, &mut *segments)];
            let [only] = &mut job;
            only.failover = failover;
            let result = self.race(&mut job, d);
            let [Job { block: now, failover: tried, exhausted, .. }] = job;
            if !exhausted {
                self.report_corrupt(&tried, &now, d);
                return result;
            }
            (block, failover) = self.after_exhaustion(now, tried, d)?;
        }
    }

    /// Every replica of a block failed: see [`Self::next_round`].
    fn after_exhaustion(
        &self,
        block: Arc<Block>,
        mut failover: Failover,
        d: Deadline,
    ) -> Result<(Arc<Block>, Failover)> {
        match self.next_round(&mut failover, &block, d) {
            Ok(fresh) => Ok((fresh, failover)),
            Err(e) => {
                self.report_corrupt(&failover, &block, d);
                Err(e)
            }
        }
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
        check_len(block, end)?;
        let mut reader = self.open_reader(block, node, first, end - first, &wire)?;
        for segment in segments {
            reader.skip_to(segment.block_offset);
            let mut done = 0;
            while done < segment.buf.len() {
                let room = segment.buf.get_mut(done..).unwrap_or_default();
                let n = reader.read(room, &wire).and_then(delivered)?;
                if n == 0 {
                    return Err(Error::new(Status::Internal, "a reader ended before its request"));
                }
                done += n;
            }
        }
        if let (Some(latency), Some(node)) = (reader.take_latency(), block.nodes.get(node)) {
            node.standing.on_data(latency);
        }
        ReadStats::add(&self.ctx.stats.requests, 1);
        if let Some(peer) = reader.finish(&wire) {
            self.ctx.peers.put(peer);
        }
        Ok(())
    }
}

/// Whether a segment can be fetched by the request of those before it, which fetches at most `max`
/// bytes.
fn joins(segments: &[Segment<'_>], next: &Segment<'_>, max: usize) -> bool {
    let start = segments.first().map_or(0, |first| first.block_offset);
    let end = segments.last().map_or(0, Segment::end);
    next.block_offset.checked_sub(end).is_some_and(|gap| gap <= MERGE_GAP_BYTES)
        && next.end() - start <= max as u64
}

/// The file may have been truncated to before what is wanted, while locations were fetched again.
pub(super) fn check_len(block: &Block, end: u64) -> Result<()> {
    if end <= block.len {
        return Ok(());
    }
    // A block that is being written may grow again: other replicas, and later rounds, may have it.
    let status = if block.open { Status::DataNode } else { Status::OutOfRange };
    let text = format!("{} has {} bytes now, wanted up to {end}", block.name(), block.len);
    Err(Error::new(status, text))
}

/// The smaller of the two.
fn clip_to(bytes: u64, len: usize) -> usize {
    usize::try_from(bytes).map_or(len, |bytes| bytes.min(len))
}
