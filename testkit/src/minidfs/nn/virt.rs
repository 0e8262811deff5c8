//! Virtual files of the sink mode: they exist as soon as somebody asks for them.
use super::NameSystem;
use super::blocks::{BlockState, Stored};
use super::error::NnResult;
use super::path;
use super::tree::{FileNode, Inode, Kind, now_ms};

const PREFIX: &str = "/virt/";

impl NameSystem {
    /// Makes a closed file of the configured length, with one replica of each block.
    pub(super) fn make_virtual(&mut self, src: &str) -> NnResult<()> {
        if !self.cfg.sink || !src.starts_with(PREFIX) || !path::is_valid_name(src) {
            return Ok(());
        }
        let at = self.tree.resolve(src)?;
        if at.last().is_some() || self.nodes.is_empty() {
            return Ok(());
        }
        let parent = self.make_ancestors(&at, "hdfs")?;
        let block_size = self.cfg.block_size.max(1);
        let now = now_ms();
        let node = Inode {
            id: 0,
            parent,
            name: at.name().to_owned(),
            permission: 0o644,
            owner: "hdfs".to_owned(),
            group: "supergroup".to_owned(),
            mtime: now,
            atime: now,
            policy: 0,
            kind: Kind::File(FileNode {
                replication: 1,
                block_size,
                blocks: Vec::new(),
                writer: None,
            }),
        };
        let file = self.tree.insert(parent, node)?;
        let mut left = self.cfg.virtual_length;
        while left > 0 {
            let node = self.rng.below(self.nodes.len());
            let id = self.new_block(file, vec![node])?;
            let info = self.known_block_mut(id)?;
            info.len = left.min(block_size);
            info.state = BlockState::Complete;
            let (gs, len) = (info.gs, info.len);
            info.stored.push(Stored { node, gs, len, finalized: true, corrupt: false });
            left -= len;
        }
        Ok(())
    }
}
