//! What DataNodes say about their load in their acks, without I/O: congestion makes the writer
//! pause before its next packet, slowness in many acks on end makes a node leave the pipeline.
use crate::wire::packet::{MAX_REPLIES, PipelineAck};
use std::time::Duration;

/// The pause before a packet, by a decorrelated back-off.
// Hadoop 3.4 DataStreamer#backOffIfNecessary: the next pause lies between three times the last one
// and the mean; an ack without congestion starts over.
#[derive(Debug)]
pub(super) struct Congestion {
    mean_ms: u64,
    max_ms: u64,
    last_ms: u64,
    due: bool,
}

impl Congestion {
    pub(super) fn new(mean_ms: u64, max_ms: u64) -> Congestion {
        Congestion { mean_ms, max_ms, last_ms: 0, due: false }
    }

    /// Takes in whether an ack reported congestion.
    pub(super) fn note(&mut self, congested: bool) {
        self.due = congested;
        if !congested {
            self.last_ms = 0;
        }
    }

    /// Whether the next packet has to wait.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// The pause that is due; `random` is uniform over its range.
    pub(super) fn take(&mut self, random: u32) -> Duration {
        if !std::mem::take(&mut self.due) {
            return Duration::ZERO;
        }
        let thrice = self.last_ms.saturating_mul(3);
        let base = thrice.min(self.mean_ms);
        let range = thrice.abs_diff(self.mean_ms);
        let part = u128::from(range) * u128::from(random) / (u128::from(u32::MAX) + 1);
        let part = u64::try_from(part).unwrap_or(range);
        self.last_ms = base.saturating_add(part).min(self.max_ms);
        Duration::from_millis(self.last_ms)
    }
}

/// Acks on end in which each node of a pipeline called itself slow.
#[derive(Debug)]
pub(super) struct SlowNodes {
    threshold: u32,
    counts: [u32; MAX_REPLIES],
}

impl SlowNodes {
    /// Nodes are blamed at `threshold` acks; 0 = never.
    pub(super) fn new(threshold: u32) -> SlowNodes {
        SlowNodes { threshold, counts: [0; MAX_REPLIES] }
    }

    /// Forgets what an earlier pipeline said.
    pub(super) fn reset(&mut self) {
        self.counts = [0; MAX_REPLIES];
    }

    /// Takes in an ack; the index of a node that reached the threshold.
    // Hadoop 3.4 DataStreamer#markSlowNode. Differs: the only node left is never blamed for being
    // slow, which would end the file.
    pub(super) fn note(&mut self, ack: &PipelineAck) -> Option<usize> {
        if self.threshold == 0 {
            return None;
        }
        let mut blamed = None;
        for (i, count) in self.counts.iter_mut().enumerate().take(ack.count) {
            *count = if ack.slow(i) { count.saturating_add(1) } else { 0 };
            if *count >= self.threshold {
                blamed = Some(i);
            }
        }
        blamed.filter(|_| ack.count > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet::decode_ack;

    const HALF: u32 = 1 << 31;

    #[test]
    fn the_pause_grows_from_the_mean_to_the_cap_and_starts_over() {
        let mut c = Congestion::new(5000, 50_000);
        assert_eq!(c.take(HALF), Duration::ZERO);
        c.note(true);
        assert!(c.is_due());
        assert_eq!(c.take(HALF), Duration::from_millis(2500));
        // One congested ack is one pause.
        assert_eq!(c.take(HALF), Duration::ZERO);
        let mut last = 2500_u64;
        for _ in 0..40 {
            c.note(true);
            let pause = c.take(u32::MAX).as_millis() as u64;
            assert!(pause <= 50_000);
            let (low, high) =
                ((3 * last).min(5000), 5000.min(3 * last) + (3 * last).abs_diff(5000));
            assert!(pause >= low.min(50_000) && pause <= high, "{pause} after {last}");
            last = pause;
        }
        assert_eq!(last, 50_000);
        c.note(false);
        c.note(true);
        assert_eq!(c.take(0), Duration::ZERO);
        assert_eq!(c.last_ms, 0);
    }

    /// An ack whose node `slow` (of three) calls itself slow.
    fn ack(slow: Option<usize>, nodes: usize) -> PipelineAck {
        let mut bytes = vec![8, 2];
        for i in 0..nodes {
            bytes.extend_from_slice(&[16, 0]);
            let flag: u32 = if slow == Some(i) { 2 << 7 } else { 1 << 7 };
            bytes.extend_from_slice(&[32, (flag & 0x7f) as u8 | 0x80, (flag >> 7) as u8]);
        }
        decode_ack(&bytes).unwrap()
    }

    #[test]
    fn a_node_is_blamed_after_slow_acks_on_end() {
        let mut s = SlowNodes::new(3);
        for _ in 0..2 {
            assert_eq!(s.note(&ack(Some(1), 3)), None);
        }
        assert_eq!(s.note(&ack(None, 3)), None);
        for _ in 0..2 {
            assert_eq!(s.note(&ack(Some(1), 3)), None);
        }
        assert_eq!(s.note(&ack(Some(1), 3)), Some(1));
        s.reset();
        assert_eq!(s.note(&ack(Some(1), 3)), None);
        let mut never = SlowNodes::new(0);
        let mut alone = SlowNodes::new(1);
        for _ in 0..20 {
            assert_eq!(never.note(&ack(Some(0), 3)), None);
            assert_eq!(alone.note(&ack(Some(0), 1)), None);
        }
    }
}
