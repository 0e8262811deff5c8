//! Several requests at once on the caller's thread: hedged reads, and the parts of a vectored one.
//!
//! Nobody waits for one DataNode here: every operation is driven as far as what has come allows,
//! and one `poll` waits for all of them.
use super::context::{HedgePermit, ReadStats};
use super::failover::Failover;
use super::input_stream::InputStream;
use super::located::{Block, Node};
use super::operation::Operation;
use super::positional::{Segment, check_len};
use super::receive::Wire;
use crate::buf::PooledBuf;
use crate::error::{Error, Result, Status};
use crate::sys::socket::{POLL_MAX, WAIT_SLICE_MS, poll_many};
use crate::time::{Deadline, now};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests of one call that are under way at once, hedges not counted.
const JOBS_MAX: usize = 8;
/// Requests for one range that are under way at once.
const ATTEMPTS_MAX: usize = POLL_MAX / JOBS_MAX;

/// A range of one block to be fetched, from whichever replica.
pub(super) struct Job<'j, 'm> {
    pub(super) block: Arc<Block>,
    pub(super) segments: &'j mut [Segment<'m>],
    pub(super) failover: Failover,
    /// Every replica failed.
    pub(super) exhausted: bool,
    /// When the first request was sent, and whether it may be hedged still.
    begun: Option<Instant>,
    hedged: bool,
    attempts: [Option<Attempt>; ATTEMPTS_MAX],
}

/// One request of a job.
struct Attempt {
    operation: Operation,
    block: Arc<Block>,
    /// Where the bytes go; `None`: to the segments themselves.
    buffer: Option<PooledBuf>,
    /// Segment that is being filled, and bytes of it (or of the buffer) that are there.
    segment: usize,
    done: usize,
    /// Something may have come.
    ready: bool,
    /// For a request that was sent because others were late.
    permit: Option<HedgePermit>,
}

impl<'j, 'm> Job<'j, 'm> {
    pub(super) fn new(block: Arc<Block>, segments: &'j mut [Segment<'m>]) -> Job<'j, 'm> {
        Job {
            block,
            segments,
            failover: Failover::default(),
            exhausted: false,
            begun: None,
            hedged: false,
            attempts: [const { None }; ATTEMPTS_MAX],
        }
    }

    /// Every replica failed, and the segments are not filled.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Start and end of the range in the block.
    fn range(&self) -> (u64, u64) {
        let start = self.segments.first().map_or(0, |s| s.block_offset);
        (start, self.segments.last().map_or(start, Segment::end))
    }

    fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().flatten()
    }

    fn is_at(&self, node: &Node) -> bool {
        self.attempts().any(|attempt| attempt.node().is_some_and(|n| n.server == node.server))
    }
}

impl Attempt {
    fn node(&self) -> Option<&Node> {
        self.block.nodes.get(self.operation.node)
    }

    /// Takes what has come; true when all of the range is there.
    fn step(
        &mut self,
        stream: &InputStream,
        segments: &mut [Segment<'_>],
        len: usize,
        wire: &Wire<'_>,
    ) -> Result<bool> {
        if !self.operation.ready(stream, &self.block, wire)? {
            return Ok(false);
        }
        let reader = self.operation.reader()?;
        loop {
            let room = match &mut self.buffer {
                Some(buffer) => buffer.get_mut(self.done..len).unwrap_or_default(),
                None => {
                    let Some(segment) = segments.get_mut(self.segment) else { return Ok(true) };
                    if self.done == 0 {
                        reader.skip_to(segment.block_offset);
                    }
                    segment.buf.get_mut(self.done..).unwrap_or_default()
                }
            };
            if room.is_empty() {
                if self.buffer.is_some() {
                    return Ok(true);
                }
                (self.segment, self.done) = (self.segment + 1, 0);
                continue;
            }
            match reader.read(room, wire)? {
                None => return Ok(false),
                Some(0) => {
                    return Err(Error::new(Status::Internal, "a reader ended before its request"));
                }
                Some(n) => self.done += n,
            }
        }
    }

    /// Copies what a hedge brought to where it belongs.
    fn deliver(&self, segments: &mut [Segment<'_>]) {
        let Some(buffer) = &self.buffer else { return };
        let start = segments.first().map_or(0, |s| s.block_offset);
        for segment in segments {
            let from = usize::try_from(segment.block_offset - start).unwrap_or(usize::MAX);
            let bytes = buffer.get(from..from.saturating_add(segment.buf.len()));
            segment.buf.copy_from_slice(bytes.unwrap_or_default());
        }
    }
}

impl InputStream {
    /// Fetches all jobs. Jobs whose replicas all failed are marked as exhausted; the others are
    /// done when this returns.
    ///
    /// # Errors
    /// What ends the whole call: `TimedOut`, `Closed`, `NoMemory`, those of fetching a new token.
    pub(super) fn race(&self, jobs: &mut [Job<'_, '_>], d: Deadline) -> Result<()> {
        // Positions in `jobs`; the first `count` are under way, the others not begun from `next`.
        let mut active = [0; JOBS_MAX];
        let (mut count, mut next) = (0, 0);
        let mut load = [0; JOBS_MAX];
        loop {
            while let (Some(slot), true) = (active.get_mut(count), next < jobs.len()) {
                *slot = next;
                (count, next) = (count + 1, next + 1);
            }
            if count == 0 {
                return Ok(());
            }
            let mut kept = 0;
            for i in 0..count {
                let index = active.get(i).copied().unwrap_or_default();
                let running = active.get(..count).unwrap_or_default();
                spread(jobs, running, index, &mut load);
                let Some(job) = jobs.get_mut(index) else { continue };
                if self.drive(job, &load, d)? {
                    continue;
                }
                if let Some(slot) = active.get_mut(kept) {
                    *slot = index;
                    kept += 1;
                }
            }
            if kept == count {
                self.wait(jobs, active.get(..count).unwrap_or_default(), d)?;
            }
            count = kept;
        }
    }

    /// Brings a job forward; true when it is over.
    fn drive(&self, job: &mut Job<'_, '_>, load: &[usize], d: Deadline) -> Result<bool> {
        let wire = Wire { wait: false, ..self.wire(d) };
        for slot in 0..ATTEMPTS_MAX {
            let (start, end) = job.range();
            let len = usize::try_from(end - start).unwrap_or(usize::MAX);
            let Some(Some(attempt)) = job.attempts.get_mut(slot) else { continue };
            let result = if attempt.ready {
                attempt.step(self, job.segments, len, &wire)
            } else {
                Ok(false)
            };
            attempt.ready = false;
            let result = match result {
                Ok(false) => attempt.operation.check_silence(&attempt.block, &wire).map(|()| false),
                other => other,
            };
            match result {
                Ok(true) => {
                    self.won(job, slot, d);
                    return Ok(true);
                }
                Ok(false) => {}
                Err(e) => self.lost(job, slot, &e, d)?,
            }
        }
        if d.passed() {
            // The error names the node that is waited for.
            if let Some(slot) = job.attempts.iter().position(Option::is_some)
                && let Some(Some(attempt)) = job.attempts.get(slot)
            {
                let late = attempt.operation.late(&attempt.block);
                self.lost(job, slot, &late, d)?;
            }
            return Err(job.failover.timed_out(&self.path, &job.block));
        }
        while job.attempts().next().is_none() {
            if !self.add_attempt(job, load, None, d)? {
                job.exhausted = true;
                return Ok(true);
            }
        }
        self.hedge(job, load, d)?;
        Ok(false)
    }

    /// Starts a request to a replica that was not asked yet; false if there is none. Failures of
    /// the start count as those of the replica.
    fn add_attempt(
        &self,
        job: &mut Job<'_, '_>,
        load: &[usize],
        hedge: Option<(HedgePermit, PooledBuf)>,
        d: Deadline,
    ) -> Result<bool> {
        let Some(slot) = job.attempts.iter().position(Option::is_none) else { return Ok(false) };
        let busy = |node: &Node| {
            let index = job.block.nodes.iter().position(|n| n.server == node.server);
            let load = index.and_then(|i| load.get(i)).copied().unwrap_or(0);
            (!job.is_at(node)).then_some(load)
        };
        let Some(node) = job.failover.next_node(&job.block, busy) else { return Ok(false) };
        let (start, end) = job.range();
        let wire = Wire { wait: false, ..self.wire(d) };
        let block = Arc::clone(&job.block);
        let begun = check_len(&block, end)
            .and_then(|()| Operation::start(self, &block, node, start, end - start, &wire));
        job.begun.get_or_insert_with(now);
        match begun {
            Ok(operation) => {
                let (permit, buffer) = hedge.unzip();
                let place = job.attempts.get_mut(slot);
                let attempt =
                    Attempt { operation, block, buffer, segment: 0, done: 0, ready: true, permit };
                if let Some(place) = place {
                    *place = Some(attempt);
                }
            }
            Err(e) => self.failed(job, &block, node, &e, d)?,
        }
        Ok(true)
    }

    /// Sends a second request when the first one is late.
    fn hedge(&self, job: &mut Job<'_, '_>, load: &[usize], d: Deadline) -> Result<()> {
        if job.hedged || !self.hedges() || self.hedge_at(job).is_none_or(|at| now() < at) {
            return Ok(());
        }
        // Hadoop 3.4 DFSInputStream#hedgedFetchBlockByteRange: one more request, and from then on
        // only when one of them fails.
        job.hedged = true;
        let (start, end) = job.range();
        let len = usize::try_from(end - start).unwrap_or(usize::MAX);
        let Some(permit) = HedgePermit::take(&self.ctx) else {
            ReadStats::add(&self.ctx.stats.hedged_refused, 1);
            return Ok(());
        };
        // Whoever waits already shall not wait for memory too.
        let Ok(buffer) = self.ctx.pool.take(len, Deadline::at_once()) else {
            ReadStats::add(&self.ctx.stats.hedged_refused, 1);
            return Ok(());
        };
        let before = job.attempts().count();
        let asked = self.add_attempt(job, load, Some((permit, buffer)), d)?;
        if job.attempts().count() > before {
            ReadStats::add(&self.ctx.stats.hedged_reads, 1);
        } else {
            // Refused at once, or nobody is left; the next look tells.
            job.hedged = !asked;
        }
        Ok(())
    }

    /// When the job's first request is late.
    fn hedge_at(&self, job: &Job<'_, '_>) -> Option<Instant> {
        let threshold = Duration::from_millis(self.ctx.config.hedged_read_threshold_ms);
        job.begun.and_then(|begun| begun.checked_add(threshold))
    }

    /// One attempt has everything: delivers it and gives up the others.
    fn won(&self, job: &mut Job<'_, '_>, slot: usize, d: Deadline) {
        let Some(mut winner) = job.attempts.get_mut(slot).and_then(Option::take) else { return };
        winner.deliver(job.segments);
        let stats = &self.ctx.stats;
        ReadStats::add(&stats.requests, 1);
        if winner.permit.is_some() {
            ReadStats::add(&stats.hedged_wins, 1);
        }
        let latency = winner.operation.reader().ok().and_then(|reader| reader.take_latency());
        if let (Some(latency), Some(node)) = (latency, winner.node()) {
            node.standing.on_data(latency);
        }
        let age = winner.operation.age();
        winner.operation.end(self, &self.wire(d));
        // The rest of a late answer is not waited for: its connection is closed unless all of it
        // has come meanwhile.
        let wire = Wire { wait: false, ..self.wire(d) };
        for loser in job.attempts.iter_mut().filter_map(Option::take) {
            let waited = loser.operation.age();
            if let (Some(waited), Some(node)) = (waited.filter(|w| Some(*w) > age), loser.node()) {
                node.standing.on_slow(waited);
            }
            loser.operation.end(self, &wire);
        }
    }

    /// One attempt failed.
    #[cold]
    fn lost(&self, job: &mut Job<'_, '_>, slot: usize, e: &Error, d: Deadline) -> Result<()> {
        let Some(attempt) = job.attempts.get_mut(slot).and_then(Option::take) else {
            return Ok(());
        };
        let node = attempt.operation.node;
        self.failed(job, &attempt.block, node, e, d)?;
        // A failure, not slowness, is answered by one more request even while another one runs.
        if job.attempts().next().is_some() {
            job.hedged = false;
        }
        Ok(())
    }

    #[cold]
    fn failed(
        &self,
        job: &mut Job<'_, '_>,
        block: &Arc<Block>,
        node: usize,
        error: &Error,
        d: Deadline,
    ) -> Result<()> {
        // The index has a meaning in the list that the attempt was made with.
        let same = Arc::ptr_eq(block, &job.block);
        let server = block.nodes.get(node).map(|n| &n.server);
        let index = if same {
            node
        } else {
            let found = job.block.nodes.iter().position(|n| Some(&n.server) == server);
            found.unwrap_or(usize::MAX)
        };
        let current = Arc::clone(&job.block);
        job.block = self.react(&mut job.failover, &current, index, error, false, d)?;
        Ok(())
    }

    /// Waits until one of the running operations can go on, or something is due.
    fn wait(&self, jobs: &mut [Job<'_, '_>], running: &[usize], d: Deadline) -> Result<()> {
        let wire = Wire { wait: false, ..self.wire(d) };
        let mut limit = d.min(Deadline::after_ms(WAIT_SLICE_MS));
        let mut entries = [(-1, 0, 0); POLL_MAX];
        let mut len = 0;
        for job in running.iter().filter_map(|i| jobs.get(*i)) {
            for attempt in job.attempts() {
                let (fd, events) = attempt.operation.interest();
                if let Some(entry) = entries.get_mut(len) {
                    *entry = (fd, events, 0);
                    len += 1;
                }
                limit = limit.min(attempt.operation.silent_at(&wire));
            }
            if self.hedges() && !job.hedged {
                limit = limit.min(self.hedge_at(job).map_or(Deadline::NONE, Deadline::at));
            }
        }
        let entries = entries.get_mut(..len).unwrap_or_default();
        poll_many(entries, limit)
            .map_err(|e| Error::new(Status::Io, format!("waiting for DataNodes: {e}")))?;
        self.check_open()?;
        let mut happened = entries.iter().map(|entry| entry.2 != 0);
        for index in running {
            let Some(job) = jobs.get_mut(*index) else { continue };
            for attempt in job.attempts.iter_mut().flatten() {
                attempt.ready = happened.next().unwrap_or(true);
            }
        }
        Ok(())
    }
}

/// How many requests of the call each replica of a job's block has now.
fn spread(jobs: &[Job<'_, '_>], running: &[usize], index: usize, load: &mut [usize]) {
    load.fill(0);
    if jobs.len() == 1 {
        return;
    }
    let Some(job) = jobs.get(index) else { return };
    let others = running.iter().filter_map(|i| jobs.get(*i)).flat_map(Job::attempts);
    for attempt in others {
        let server = attempt.node().map(|n| &n.server);
        let place = job.block.nodes.iter().position(|n| Some(&n.server) == server);
        if let Some(count) = place.and_then(|i| load.get_mut(i)) {
            *count += 1;
        }
    }
}
