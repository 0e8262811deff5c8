//! Directory listings.
use super::boundary::{self, Info, Out, on, text};
use super::error::dfs_error;
use super::file_system::{FileSystemObject, Limit, dfs_fs};
use super::handle::{Kind, Object};
use super::metadata::{StatusTexts, dfs_file_info};
use crate::client::listing::Listing;
use crate::error::{Error, Status};
use parking_lot::Mutex;
use std::ffi::c_char;

/// An iterator over the entries of a directory.
pub struct dfs_list_iter {
    _opaque: [u8; 0],
}

struct ListObject {
    state: Mutex<ListState>,
    limit: Limit,
}

struct ListState {
    listing: Listing,
    /// The entry that the caller is looking at.
    current: Option<StatusTexts>,
}

impl Object for ListObject {
    type C = dfs_list_iter;
    const KIND: Kind = Kind::ListIterator;
    const SURVIVES_FORK: bool = false;
}

/// Begins to list a directory; a file lists itself. Entries come in the order of their names'
/// bytes, fetched page by page; those that appear or vanish meanwhile may be seen or not.
///
/// `path`: absolute. `out`: receives the iterator, to be freed with dfs_list_free. `error`: may be
/// NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_list(
    fs: *mut dfs_fs,
    path: *const c_char,
    out: *mut *mut dfs_list_iter,
    error: *mut *mut dfs_error,
) -> i32 {
    let out = Out::handle(out, "out");
    on(fs, "fs", error, |fs: &FileSystemObject| {
        out.check()?;
        let listing = fs.metadata()?.list(text(path, "path")?, fs.deadline())?;
        let state = Mutex::new(ListState { listing, current: None });
        out.give(ListObject { state, limit: fs.file_limit(0) })
    })
}

/// Moves to the next entry.
///
/// `info`: `size` is set; filled if there is an entry. Its texts live until the next call on the
/// iterator. `error`: may be NULL.
///
/// Returns 1 if there is an entry, 0 at the end; DFS_E_NOT_FOUND if the directory was deleted
/// meanwhile; DFS_E_INVALID_ARGUMENT (an impossible `info->size`); DFS_E_WOULD_BLOCK if another
/// thread is using the iterator; network statuses, DFS_E_CLOSED, DFS_E_NULL_POINTER,
/// DFS_E_BAD_HANDLE, DFS_E_FORKED. After a failure of the network the call may be repeated.
///
/// Threads: any, one at a time per handle. Blocks as dfs_stat where a page ends. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_list_next(
    iter: *mut dfs_list_iter,
    info: *mut dfs_file_info,
    error: *mut *mut dfs_error,
) -> i32 {
    on(iter, "iter", error, |list: &ListObject| {
        let info = Info::new(info, "info")?;
        let busy = || Error::new(Status::WouldBlock, "another thread is using the iterator");
        let mut state = list.state.try_lock().ok_or_else(busy)?;
        let next = state.listing.next_entry(list.limit.deadline())?;
        state.current = next.map(StatusTexts::new);
        let Some(current) = &state.current else {
            return Ok(0);
        };
        info.fill(&current.info());
        Ok(1)
    })
}

/// Frees an iterator and the texts of its entry. NULL is fine.
///
/// Threads: any. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_list_free(iter: *mut dfs_list_iter) {
    boundary::free::<ListObject>(iter, "iter");
}
