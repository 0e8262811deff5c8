//! Calls about the blocks of a file that is being written.
use super::{NameNode, checked};
use crate::error::Result;
use crate::proto::hdfs::*;
use crate::time::Deadline;

impl NameNode {
    /// Allocates the next block; `previous` is the last one with its final length. One call: on
    /// `NotReplicated` the writer asks again.
    ///
    /// # Errors
    /// `NotReplicated`, `NoDataNodes`, `LeaseExpired`, `NotFound`, `Quota`...
    #[allow(clippy::too_many_arguments, reason = "the fields of the request")]
    pub fn add_block(
        &self,
        src: &str,
        previous: Option<&ExtendedBlockProto>,
        exclude: &[DatanodeInfoProto],
        file_id: u64,
        favored: &[String],
        flags: &[i32],
        d: Deadline,
    ) -> Result<LocatedBlockProto> {
        let request = AddBlockRequestProto {
            src: src.into(),
            client_name: self.client_name.clone(),
            previous: previous.cloned(),
            exclude_nodes: exclude.to_vec(),
            file_id: Some(file_id),
            favored_nodes: favored.to_vec(),
            flags: flags.to_vec(),
        };
        let response: AddBlockResponseProto = self.call("addBlock", src, &request, d)?;
        checked("addBlock", src, response.block)
    }

    /// Completes the file; false means that its blocks lack replicas still: ask again. One call.
    ///
    /// # Errors
    /// `LeaseExpired`, `NotFound`...
    pub fn complete(
        &self,
        src: &str,
        last: Option<&ExtendedBlockProto>,
        file_id: u64,
        d: Deadline,
    ) -> Result<bool> {
        let request = CompleteRequestProto {
            src: src.into(),
            client_name: self.client_name.clone(),
            last: last.cloned(),
            file_id: Some(file_id),
        };
        let response: CompleteResponseProto = self.call("complete", src, &request, d)?;
        Ok(response.result)
    }

    /// Gives back the last block, to which nothing was written.
    ///
    /// # Errors
    /// `LeaseExpired`, `NotFound`...
    pub fn abandon_block(
        &self,
        src: &str,
        block: &ExtendedBlockProto,
        file_id: u64,
        d: Deadline,
    ) -> Result<()> {
        let request = AbandonBlockRequestProto {
            b: block.clone(),
            src: src.into(),
            holder: self.client_name.clone(),
            file_id: Some(file_id),
        };
        self.call::<AbandonBlockResponseProto>("abandonBlock", src, &request, d)?;
        Ok(())
    }

    /// Makes the NameNode remember the blocks of an open file, and the length of the last one
    /// unless it is −1.
    ///
    /// # Errors
    /// `LeaseExpired`, `NotFound`...
    pub fn fsync(
        &self,
        src: &str,
        file_id: u64,
        last_block_length: i64,
        d: Deadline,
    ) -> Result<()> {
        let request = FsyncRequestProto {
            src: src.into(),
            client: self.client_name.clone(),
            last_block_length: Some(last_block_length),
            file_id: Some(file_id),
        };
        self.call::<FsyncResponseProto>("fsync", src, &request, d)?;
        Ok(())
    }

    /// A new generation stamp and token for a block whose pipeline is set up again.
    ///
    /// # Errors
    /// `LeaseExpired`, `Remote` (the block is not under construction)...
    pub fn update_block_for_pipeline(
        &self,
        block: &ExtendedBlockProto,
        d: Deadline,
    ) -> Result<LocatedBlockProto> {
        let request = UpdateBlockForPipelineRequestProto {
            block: block.clone(),
            client_name: self.client_name.clone(),
        };
        let what = format!("blk_{}_{}", block.block_id, block.generation_stamp);
        let response: UpdateBlockForPipelineResponseProto =
            self.call("updateBlockForPipeline", &what, &request, d)?;
        checked("updateBlockForPipeline", &what, response.block)
    }

    /// Replaces the block's generation stamp, length and replicas after its pipeline was set up
    /// again. `storage_ids` go with `nodes`, in the same order.
    ///
    /// # Errors
    /// `LeaseExpired`, `Remote` (another recovery was faster)...
    pub fn update_pipeline(
        &self,
        old: &ExtendedBlockProto,
        new: &ExtendedBlockProto,
        nodes: &[DatanodeIdProto],
        storage_ids: &[String],
        d: Deadline,
    ) -> Result<()> {
        let request = UpdatePipelineRequestProto {
            client_name: self.client_name.clone(),
            old_block: old.clone(),
            new_block: new.clone(),
            new_nodes: nodes.to_vec(),
            storage_i_ds: storage_ids.to_vec(),
        };
        let what = format_args!(
            "blk_{} from {} to {}",
            old.block_id, old.generation_stamp, new.generation_stamp
        );
        self.call::<UpdatePipelineResponseProto>("updatePipeline", what, &request, d)?;
        Ok(())
    }

    /// `count` more DataNodes for a pipeline; the answer lists old and new ones.
    ///
    /// # Errors
    /// `NoDataNodes`, `Remote` (none to be had), `LeaseExpired`...
    #[allow(clippy::too_many_arguments, reason = "the fields of the request")]
    pub fn get_additional_datanode(
        &self,
        src: &str,
        file_id: u64,
        block: &ExtendedBlockProto,
        existings: &[DatanodeInfoProto],
        existing_storage_ids: &[String],
        excludes: &[DatanodeInfoProto],
        count: u32,
        d: Deadline,
    ) -> Result<LocatedBlockProto> {
        let request = GetAdditionalDatanodeRequestProto {
            src: src.into(),
            blk: block.clone(),
            existings: existings.to_vec(),
            excludes: excludes.to_vec(),
            num_additional_nodes: count,
            client_name: self.client_name.clone(),
            existing_storage_uuids: existing_storage_ids.to_vec(),
            file_id: Some(file_id),
        };
        let response: GetAdditionalDatanodeResponseProto =
            self.call("getAdditionalDatanode", src, &request, d)?;
        checked("getAdditionalDatanode", src, response.block)
    }

    /// Reports replicas whose data does not match their checksums.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn report_bad_blocks(&self, blocks: Vec<LocatedBlockProto>, d: Deadline) -> Result<()> {
        let request = ReportBadBlocksRequestProto { blocks };
        self.call::<ReportBadBlocksResponseProto>("reportBadBlocks", "", &request, d)?;
        Ok(())
    }
}
