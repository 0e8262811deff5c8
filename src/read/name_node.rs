//! The NameNode's and DataNodes' answers for readers.
use super::context::Locations;
use crate::datanode::rpc;
use crate::error::Result;
use crate::namenode::NameNode;
use crate::proto::hdfs::{
    DatanodeIdProto, ExtendedBlockProto, HdfsFileStatusProto, LocatedBlockProto, LocatedBlocksProto,
};
use crate::time::Deadline;

impl Locations for NameNode {
    fn client_name(&self) -> &str {
        NameNode::client_name(self)
    }

    fn get_file_info(&self, src: &str, d: Deadline) -> Result<Option<HdfsFileStatusProto>> {
        NameNode::get_file_info(self, src, d)
    }

    fn get_block_locations(
        &self,
        src: &str,
        offset: u64,
        length: u64,
        d: Deadline,
    ) -> Result<LocatedBlocksProto> {
        NameNode::get_block_locations(self, src, offset, length, d)
    }

    fn report_bad_blocks(&self, blocks: Vec<LocatedBlockProto>, d: Deadline) -> Result<()> {
        NameNode::report_bad_blocks(self, blocks, d)
    }

    fn replica_visible_length(
        &self,
        id: &DatanodeIdProto,
        block: &ExtendedBlockProto,
        d: Deadline,
    ) -> Result<u64> {
        rpc::replica_visible_length(id, block, self.config(), d)
    }
}
