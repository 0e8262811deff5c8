//! The entries of a directory, fetched page by page.
use super::status::FileStatus;
use crate::error::{Error, Result, Status};
use crate::namenode::NameNode;
use crate::proto::hdfs::DirectoryListingProto;
use crate::time::Deadline;
use std::sync::Arc;

/// An iterator over a directory, in the order of the names' bytes. Entries that appear or vanish
/// meanwhile may or may not be seen. Not for several threads at once.
#[derive(Debug)]
pub struct Listing {
    namenode: Arc<NameNode>,
    path: String,
    page: std::vec::IntoIter<FileStatus>,
    /// Name of the last entry of the page: the next one begins behind it.
    last_name: Vec<u8>,
    more: bool,
}

impl Listing {
    /// Fetches the first page of `path` (in normal form). A file lists itself.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub(super) fn open(namenode: Arc<NameNode>, path: String, d: Deadline) -> Result<Listing> {
        let mut listing = Listing {
            namenode,
            path,
            page: Vec::new().into_iter(),
            last_name: Vec::new(),
            more: true,
        };
        listing.fetch(d)?;
        Ok(listing)
    }

    fn fetch(&mut self, d: Deadline) -> Result<()> {
        let page = self.namenode.get_listing(&self.path, &self.last_name, false, d)?;
        let Some(DirectoryListingProto { partial_listing, remaining_entries }) = page else {
            // Hadoop 3.4 DistributedFileSystem#listStatusInternal: also when it went away between
            // two pages.
            let message = format!("getListing {}: file does not exist", self.path);
            return Err(Error::new(Status::NotFound, message));
        };
        self.more = remaining_entries > 0;
        match partial_listing.last() {
            Some(last) if last.path > self.last_name || !self.more => {
                self.last_name.clone_from(&last.path);
            }
            // Such an answer would be fetched for ever.
            _ if self.more => {
                let message = format!("getListing {}: a page brings nothing new", self.path);
                return Err(Error::protocol(message));
            }
            _ => {}
        }
        let entries: Result<Vec<_>> = partial_listing
            .into_iter()
            .map(|entry| FileStatus::from_proto(&self.path, entry))
            .collect();
        self.page = entries?.into_iter();
        Ok(())
    }

    /// The next entry; `None` at the end. Asks the NameNode when a page is used up.
    ///
    /// # Errors
    /// `NotFound` when the directory was deleted meanwhile; those of the NameNode.
    pub fn next_entry(&mut self, d: Deadline) -> Result<Option<FileStatus>> {
        loop {
            if let Some(entry) = self.page.next() {
                return Ok(Some(entry));
            }
            if !self.more {
                return Ok(None);
            }
            self.fetch(d)?;
        }
    }

    /// All entries that are left.
    ///
    /// # Errors
    /// As [`Listing::next_entry`].
    pub fn collect(mut self, d: Deadline) -> Result<Vec<FileStatus>> {
        let mut all = Vec::new();
        while let Some(entry) = self.next_entry(d)? {
            all.push(entry);
        }
        Ok(all)
    }
}
