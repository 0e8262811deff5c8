//! Lease recovery, and the end of a block recovery that DataNodes carried out.
use std::time::{Duration, Instant};

use dfs::proto::hdfs::ExtendedBlockProto;

use super::blocks::{BlockState, Stored};
use super::dispatch::Context;
use super::error::{self, NnResult};
use super::{Command, NameSystem};

/// After this an attempt that said nothing is given up.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);
/// Holder of leases that the NameNode took over.
const NAMENODE_HOLDER: &str = "HDFS_NameNode";

/// Which call wants the lease.
#[derive(Clone, Copy)]
pub(super) enum LeaseOp {
    Create,
    Append,
    Truncate,
    Recover,
}

impl LeaseOp {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE_FILE",
            Self::Append => "APPEND_FILE",
            Self::Truncate => "TRUNCATE_FILE",
            Self::Recover => "RECOVER_LEASE",
        }
    }
}

/// Result of a block recovery on DataNodes.
pub(crate) struct Recovered {
    pub(crate) block: u64,
    pub(crate) recovery_id: u64,
    pub(crate) len: u64,
    /// Nothing was there to recover.
    pub(crate) delete: bool,
    pub(crate) nodes: Vec<usize>,
}

impl NameSystem {
    /// Hadoop 3.4 FSNamesystem#recoverLease.
    pub(super) fn recover_lease(
        &mut self,
        src: &str,
        holder: &str,
        ctx: &Context<'_>,
    ) -> NnResult<bool> {
        self.check_safe_mode(&format!("Cannot recover the lease of {src}"))?;
        let id = self.existing_file(src)?;
        if self.tree.file(id)?.writer.is_none() {
            return Ok(true);
        }
        self.recover_lease_internal(LeaseOp::Recover, id, ctx, holder, true)
    }

    /// Hadoop 3.4 FSNamesystem#recoverLeaseInternal: true when the file is closed.
    pub(super) fn recover_lease_internal(
        &mut self,
        op: LeaseOp,
        file: u64,
        ctx: &Context<'_>,
        holder: &str,
        force: bool,
    ) -> NnResult<bool> {
        let Some(writer) = self.tree.file(file)?.writer.clone() else { return Ok(true) };
        let src = self.tree.path_of(file);
        let text = |reason: String| {
            format!(
                "Failed to {} {src} for {holder} on {} because {reason}",
                op.name(),
                ctx.client_ip
            )
        };
        if !force && writer.client_name == holder {
            return Err(error::already_being_created(text(format!(
                "{holder} is already the current lease holder."
            ))));
        }
        if self.leases.get(&writer.client_name).is_none() {
            return Err(error::already_being_created(text(
                "the file is under construction but no leases found.".to_owned(),
            )));
        }
        if force {
            return self.release_lease(file, Some(holder));
        }
        if self.leases.older_than(&writer.client_name, self.cfg.lease_soft_limit) {
            if self.release_lease(file, None)? {
                return Ok(true);
            }
            return Err(error::recovery_in_progress(text(
                "lease recovery is in progress. Try again later.".to_owned(),
            )));
        }
        let last = self.tree.file(file)?.blocks.last().and_then(|b| self.blocks.get(b));
        if last.is_some_and(|b| b.state == BlockState::UnderRecovery) {
            return Err(error::recovery_in_progress(text(format!(
                "another recovery is in progress by {} on {}",
                writer.client_name, writer.client_machine
            ))));
        }
        Err(error::already_being_created(text(format!(
            "this file lease is currently owned by {} on {}",
            writer.client_name, writer.client_machine
        ))))
    }

    /// Hadoop 3.4 FSNamesystem#internalReleaseLease: closes the file, or starts the recovery of
    /// its last block and answers false.
    fn release_lease(&mut self, file: u64, new_holder: Option<&str>) -> NnResult<bool> {
        let ids = self.tree.file(file)?.blocks.clone();
        let first_open =
            ids.iter().position(|b| !self.blocks.get(b).is_some_and(super::BlockInfo::is_complete));
        let Some(first_open) = first_open else {
            self.close_file(file)?;
            return Ok(true);
        };
        let state = |id: &u64| self.blocks.get(id).map(|b| b.state);
        let penultimate_committed =
            ids.get(first_open).is_some_and(|b| state(b) == Some(BlockState::Committed));
        if first_open + 2 < ids.len() || (first_open + 2 == ids.len() && !penultimate_committed) {
            return Err(error::io(format!(
                "DIR* NameSystem.internalReleaseLease: attempt to release a create lock on {} but \
                 file is already closed.",
                self.tree.path_of(file)
            )));
        }
        let Some(last) = ids.last().copied() else { return Ok(true) };
        let info = self.known_block(last)?;
        if info.state == BlockState::Committed {
            // Not replicated yet, or it would be complete.
            return Err(error::already_being_created(format!(
                "DIR* NameSystem.internalReleaseLease: Failed to release lease for file {}. \
                 Committed blocks are waiting to be minimally replicated. Try again later.",
                self.tree.path_of(file)
            )));
        }
        if info.targets.is_empty() && info.stored.is_empty() && info.len == 0 {
            self.tree.file_mut(file)?.blocks.pop();
            self.remove_block(last);
            self.close_file(file)?;
            return Ok(true);
        }
        // Hadoop 3.4 BlockManager#addBlockRecoveryAttempt: one attempt at a time.
        let busy = info.recovery_started.is_some_and(|t| t.elapsed() < RECOVERY_LIMIT);
        self.reassign_lease(file, new_holder)?;
        if !busy {
            self.start_recovery(last)?;
        }
        Ok(false)
    }

    fn reassign_lease(&mut self, file: u64, new_holder: Option<&str>) -> NnResult<()> {
        let Some(writer) = self.tree.file_mut(file)?.writer.as_mut() else { return Ok(()) };
        let old = writer.client_name.clone();
        if let Some(new) = new_holder {
            writer.client_name = new.to_owned();
            self.leases.remove(&old, file);
            self.leases.add(new, file);
        }
        let holder = new_holder.unwrap_or(&old).to_owned();
        self.leases.renew(&holder);
        Ok(())
    }

    /// Starts, or starts anew, the recovery of a block.
    pub(super) fn start_recovery(&mut self, block: u64) -> NnResult<()> {
        let recovery_id = self.bump_gs();
        let info = self.known_block_mut(block)?;
        info.state = BlockState::UnderRecovery;
        info.recovery_id = recovery_id;
        info.recovery_started = Some(Instant::now());
        let mut nodes = info.targets.clone();
        for stored in &info.stored {
            if !nodes.contains(&stored.node) {
                nodes.push(stored.node);
            }
        }
        let (gs, truncate_to) = (info.gs, info.truncate_to);
        self.commands.push(Command::Recover { block, gs, recovery_id, nodes, truncate_to });
        Ok(())
    }

    /// Hadoop 3.4 FSNamesystem#commitBlockSynchronization with closeFile = true.
    pub(crate) fn commit_recovery(&mut self, done: &Recovered) -> NnResult<()> {
        let Some(info) = self.blocks.get_mut(&done.block) else { return Ok(()) };
        if info.state != BlockState::UnderRecovery {
            return Ok(());
        }
        if info.recovery_id != done.recovery_id {
            return Err(error::io(format!(
                "The recovery id {} does not match current recovery id {} for block {}",
                done.recovery_id, info.recovery_id, done.block
            )));
        }
        let file = info.file;
        if done.delete {
            self.tree.file_mut(file)?.blocks.retain(|b| *b != done.block);
            self.remove_block(done.block);
            return self.close_file(file);
        }
        info.gs = done.recovery_id;
        info.len = done.len;
        info.truncate_to = None;
        info.recovery_started = None;
        info.targets.clone_from(&done.nodes);
        let replaced = std::mem::take(&mut info.stored);
        info.stored = done
            .nodes
            .iter()
            .map(|n| Stored {
                node: *n,
                gs: done.recovery_id,
                len: done.len,
                finalized: true,
                corrupt: false,
            })
            .collect();
        info.state = BlockState::Committed;
        let stale = replaced.iter().filter(|s| !done.nodes.contains(&s.node));
        let stale = stale.map(|s| Command::Delete { node: s.node, block: done.block, gs: s.gs });
        self.commands.extend(stale);
        let commit = ExtendedBlockProto {
            pool_id: self.pool_id.clone(),
            block_id: done.block,
            generation_stamp: done.recovery_id,
            num_bytes: Some(done.len),
        };
        self.commit_last(file, Some(&commit))?;
        self.close_file(file)
    }

    /// A recovery came to nothing: the next caller of recoverLease may try at once.
    pub(crate) fn recovery_failed(&mut self, block: u64, recovery_id: u64) {
        if let Some(info) = self.blocks.get_mut(&block)
            && info.recovery_id == recovery_id
        {
            info.recovery_started = None;
        }
    }

    /// Recovers what nobody renews. Hadoop 3.4 LeaseManager.Monitor.
    pub(crate) fn check_leases(&mut self) {
        if self.safe_mode != super::SafeMode::Off {
            return;
        }
        for (holder, file) in self.leases.expired(self.cfg.lease_hard_limit) {
            // Like Hadoop: a lease that cannot be released now is tried again at the next check.
            if self.release_lease(file, Some(NAMENODE_HOLDER)).is_err() {
                self.leases.renew(&holder);
            }
        }
    }
}
