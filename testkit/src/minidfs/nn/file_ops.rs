//! append and truncate.
use dfs::proto::hdfs::{AppendResponseProto, LocatedBlockProto};

use super::NameSystem;
use super::blocks::BlockState;
use super::dispatch::Context;
use super::error::{self, NnResult};
use super::recovery::LeaseOp;
use super::tree::Writer;

const FLAG_NEW_BLOCK: u32 = 32;
const POLICY_LAZY_PERSIST: u32 = 15;

impl NameSystem {
    fn open_for_write(&mut self, file: u64, client: &str, ctx: &Context<'_>) -> NnResult<()> {
        self.tree.file_mut(file)?.writer = Some(Writer {
            client_name: client.to_owned(),
            client_machine: ctx.client_ip.to_owned(),
        });
        self.leases.add(client, file);
        Ok(())
    }

    /// Hadoop 3.4 FSDirAppendOp#appendFile.
    pub(super) fn append(
        &mut self,
        ctx: &Context<'_>,
        src: &str,
        client: &str,
        flag: u32,
    ) -> NnResult<AppendResponseProto> {
        self.check_safe_mode(&format!("Cannot append to file{src}"))?;
        if client.is_empty() {
            return Err(error::illegal_argument(format!("append {src}: empty client name")));
        }
        let at = self.tree.resolve(src)?;
        let Some(id) = at.last() else {
            return Err(error::file_not_found(format!(
                "Failed to append to non-existent file {} for client {}",
                at.path, ctx.client_ip
            )));
        };
        let inode = self.tree.known(id)?;
        if inode.is_dir() {
            return Err(error::file_already_exists(format!(
                "Cannot append to directory {}; already exists as a directory.",
                at.path
            )));
        }
        if inode.policy == POLICY_LAZY_PERSIST {
            return Err(error::unsupported(format!(
                "Cannot append to lazy persist file {}",
                at.path
            )));
        }
        self.recover_lease_internal(LeaseOp::Append, id, ctx, client, false)?;
        self.check_last_for_append(id, src)?;
        self.open_for_write(id, client, ctx)?;
        let block = if flag & FLAG_NEW_BLOCK != 0 {
            let last = self.tree.file(id)?.blocks.last().copied();
            let length = self.file_length(id)?;
            let info = last.and_then(|b| self.blocks.get(&b));
            info.map(|i| self.located(self.extended(i), length - i.len, &[], false))
        } else {
            self.reopen_last_block(id)?
        };
        Ok(AppendResponseProto { block, stat: Some(self.status(id, "", false)?) })
    }

    fn check_last_for_append(&self, file: u64, src: &str) -> NnResult<()> {
        let last = self.tree.file(file)?.blocks.last().and_then(|b| self.blocks.get(b));
        let Some(last) = last else { return Ok(()) };
        if last.state == BlockState::Committed {
            return Err(error::retriable(format!(
                "append: lastBlock={} of src={src} is COMMITTED but not yet COMPLETE.",
                last.describe()
            )));
        }
        let live = last.live().into_iter().filter(|n| self.is_alive(*n)).count();
        if live < usize::try_from(self.cfg.min_replication).unwrap_or(1) {
            return Err(error::io(format!(
                "append: lastBlock={} of src={src} is not sufficiently replicated yet.",
                last.describe()
            )));
        }
        Ok(())
    }

    /// Hadoop 3.4 BlockManager#convertLastBlockToUnderConstruction: none when the block is full.
    fn reopen_last_block(&mut self, file: u64) -> NnResult<Option<LocatedBlockProto>> {
        let (last, block_size) = {
            let node = self.tree.file(file)?;
            (node.blocks.last().copied(), node.block_size)
        };
        let Some(last) = last else { return Ok(None) };
        let info = self.known_block(last)?;
        if info.len >= block_size {
            return Ok(None);
        }
        let mut targets = info.live();
        targets.retain(|n| self.is_alive(*n));
        let info = self.known_block_mut(last)?;
        info.state = BlockState::UnderConstruction;
        info.targets = targets;
        let offset = self.file_length(file)? - self.known_block(last)?.len;
        let info = self.known_block(last)?;
        Ok(Some(self.located(self.extended(info), offset, &info.targets, false)))
    }

    /// Hadoop 3.4 FSDirTruncateOp: true when the new length lies on a block boundary, false when
    /// the last block has to be cut by a recovery first.
    pub(super) fn truncate(
        &mut self,
        ctx: &Context<'_>,
        src: &str,
        new_length: u64,
        client: &str,
    ) -> NnResult<bool> {
        if i64::try_from(new_length).is_err() {
            return Err(error::hadoop_illegal_argument(format!(
                "Cannot truncate to a negative file size: {}.",
                new_length.cast_signed()
            )));
        }
        self.check_safe_mode(&format!("Cannot truncate for {src}"))?;
        let id = self.existing_file(src)?;
        self.recover_lease_internal(LeaseOp::Truncate, id, ctx, client, false)?;
        let old = self.file_length(id)?;
        if new_length == old {
            return Ok(true);
        }
        if new_length > old {
            return Err(error::hadoop_illegal_argument(format!(
                "Cannot truncate to a larger file size. Current size: {old}, truncate size: \
                 {new_length}."
            )));
        }
        let mut left = old;
        while let Some(last) = self.tree.file(id)?.blocks.last().copied() {
            let len = self.known_block(last)?.len;
            if left - len < new_length {
                break;
            }
            left -= len;
            self.tree.file_mut(id)?.blocks.pop();
            self.remove_block(last);
        }
        self.tree.known_mut(id)?.mtime = super::tree::now_ms();
        if left == new_length {
            return Ok(true);
        }
        let Some(last) = self.tree.file(id)?.blocks.last().copied() else { return Ok(true) };
        let start = left - self.known_block(last)?.len;
        let targets = self.known_block(last)?.live();
        self.open_for_write(id, client, ctx)?;
        let info = self.known_block_mut(last)?;
        info.targets = targets;
        info.len = new_length - start;
        info.truncate_to = Some(new_length - start);
        self.start_recovery(last)?;
        Ok(false)
    }
}
