//! A DataNode in place of one that failed: the NameNode names it, and a node of the pipeline copies
//! its replica to it.
use super::output_stream::{Stream, Writer};
use super::pipeline::{self, Target};
use super::recovery_state::{ReplaceQuestion, goes_on_without, wants_replacement};
use crate::datanode::peer::ip_port;
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
use std::collections::HashSet;

/// Attempts to find and fill a replacement.
// Hadoop 3.4 DataStreamer#addDatanode2ExistingPipeline.
const TRANSFER_ATTEMPTS: usize = 3;

/// Why there is no replacement.
pub(super) enum NoReplacement {
    /// The NameNode could not be asked, or refused.
    NameNode(Error),
    /// It had no node to offer.
    NoNode(Error),
    /// No replica could be copied to those that it offered.
    Copy(Error),
}

impl NoReplacement {
    fn error(&self) -> &Error {
        let (NoReplacement::NameNode(e) | NoReplacement::NoNode(e) | NoReplacement::Copy(e)) = self;
        e
    }

    fn context(self, attempt: &str) -> NoReplacement {
        match self {
            NoReplacement::NameNode(e) => NoReplacement::NameNode(e),
            NoReplacement::NoNode(e) => NoReplacement::NoNode(e.context(attempt)),
            NoReplacement::Copy(e) => NoReplacement::Copy(e.context(attempt)),
        }
    }
}

impl Stream {
    /// Asks for a replacement where the policy wants one.
    pub(super) fn replace(
        &self,
        w: &mut Writer,
        deadline: Deadline,
    ) -> std::result::Result<(), NoReplacement> {
        let config = &self.ctx.config;
        let Some(block) = w.block.as_ref() else { return Ok(()) };
        let nodes = block.target.nodes.len();
        let question = ReplaceQuestion {
            enabled: config.replace_datanode_enable,
            policy: config.replace_datanode_policy,
            replication: self.options.replication as usize,
            nodes,
            append: w.appended,
            flushed: self.acks.lock().flushed,
        };
        if !wants_replacement(&question) {
            return Ok(());
        }
        let Err(found) = self.add_datanode(w, deadline) else { return Ok(()) };
        let min = config.replace_datanode_min_replication as usize;
        let no_node = matches!(found, NoReplacement::NoNode(_));
        let best_effort = config.replace_datanode_best_effort && !deadline.passed();
        if goes_on_without(best_effort, min, nodes, no_node) {
            let error = found.error();
            dfs_log!(Warn, "{}: going on with {nodes} DataNodes: {error}", self.file.path);
            return Ok(());
        }
        // Hadoop 3.4 DataStreamer#findNewDatanode: the words that users search for.
        Err(found.context(
            "Failed to replace a bad datanode on the existing pipeline due to no more good \
             datanodes being available to try (a client may configure this via \
             dfs.client.block.write.replace-datanode-on-failure.policy)",
        ))
    }

    /// Finds one more node and has the replica copied to it.
    fn add_datanode(
        &self,
        w: &mut Writer,
        deadline: Deadline,
    ) -> std::result::Result<(), NoReplacement> {
        let Some(block) = w.block.as_mut() else { return Ok(()) };
        let original = block.target.clone();
        let mut excludes = w.failed.clone();
        let mut last = None;
        for attempt in 0..TRANSFER_ATTEMPTS {
            let answer = self.ctx.namenode.get_additional_datanode(
                &self.file.path,
                self.file.file_id,
                &original.block,
                &original.nodes,
                &original.storage_ids,
                &excludes,
                1,
                deadline,
            );
            let target = answer
                .and_then(Target::new)
                .map_err(|e| NoReplacement::NameNode(e.with_stage("finding a new DataNode")))?;
            let known: HashSet<_> = original.nodes.iter().map(|n| ip_port(&n.id)).collect();
            let new = target.nodes.iter().position(|n| !known.contains(&ip_port(&n.id)));
            let Some(index) = new.filter(|_| target.nodes.len() == original.nodes.len() + 1) else {
                let text = format!(
                    "the NameNode offered no DataNode beyond the {} of {}",
                    original.nodes.len(),
                    original.block_name()
                );
                return Err(NoReplacement::NoNode(Error::new(Status::NoDataNodes, text)));
            };
            let source = attempt % original.nodes.len().max(1);
            match self.transfer(&original, source, &target, index, w.sealed_in_block, deadline) {
                Ok(()) => {
                    let mut target = target;
                    // The block itself (stamp, length) stays; order, storages and token are new.
                    target.block = original.block;
                    block.target = target;
                    return Ok(());
                }
                Err(error) => {
                    dfs_log!(Warn, "{}: {error}", self.file.path);
                    if let Some(node) = target.nodes.get(index) {
                        excludes.push(node.clone());
                    }
                    last = Some(error);
                }
            }
            if deadline.passed() {
                break;
            }
        }
        let error = last.unwrap_or_else(|| Error::new(Status::Internal, "no transfer was tried"));
        Err(NoReplacement::Copy(error))
    }

    /// Has node `source` copy its replica to the new node of `target`.
    fn transfer(
        &self,
        original: &Target,
        source: usize,
        target: &Target,
        new: usize,
        sent_bytes: u64,
        deadline: Deadline,
    ) -> Result<()> {
        let (Some(from), Some(to)) = (original.nodes.get(source), target.nodes.get(new)) else {
            return Err(Error::new(Status::Internal, "a transfer without source or target"));
        };
        let packets = sent_bytes / self.options.packet_bytes.max(1) as u64;
        let request = pipeline::TransferRequest {
            block: &original.block,
            token: &target.token,
            client_name: self.ctx.namenode.client_name(),
            to,
            storage_type: target.storage_types.get(new).copied(),
            storage_id: target.storage_ids.get(new).cloned(),
            extra_ms: 5000 * (2 + packets / 200),
        };
        pipeline::transfer(from, &request, &self.ctx.config, deadline).map_err(|e| {
            let what = format!(
                "copying {} from {} to {}",
                original.block_name(),
                ip_port(&from.id),
                ip_port(&to.id)
            );
            e.with_stage("copying a replica").context(what)
        })
    }
}
