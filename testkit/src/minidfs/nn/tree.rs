//! Inodes and the directory tree.
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use super::super::rpc::RpcError;
use super::error::{self, NnResult};
use super::path;

pub(crate) const ROOT_ID: u64 = 16385;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Who writes an open file.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    pub(crate) client_name: String,
    pub(crate) client_machine: String,
}

#[derive(Debug, Default)]
pub(crate) struct FileNode {
    pub(crate) replication: u32,
    pub(crate) block_size: u64,
    pub(crate) blocks: Vec<u64>,
    /// Present while the file is under construction.
    pub(crate) writer: Option<Writer>,
}

#[derive(Debug, Default)]
pub(crate) struct DirNode {
    pub(crate) children: BTreeMap<String, u64>,
    pub(crate) ns_quota: Option<u64>,
    pub(crate) ds_quota: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Dir(DirNode),
    File(FileNode),
}

#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) id: u64,
    /// 0 for the root and for inodes that were taken out of the tree.
    pub(crate) parent: u64,
    pub(crate) name: String,
    pub(crate) permission: u32,
    pub(crate) owner: String,
    pub(crate) group: String,
    pub(crate) mtime: u64,
    pub(crate) atime: u64,
    pub(crate) policy: u32,
    pub(crate) kind: Kind,
}

impl Inode {
    pub(crate) fn file(&self) -> Option<&FileNode> {
        match &self.kind {
            Kind::File(f) => Some(f),
            Kind::Dir(_) => None,
        }
    }

    pub(crate) fn dir(&self) -> Option<&DirNode> {
        match &self.kind {
            Kind::Dir(d) => Some(d),
            Kind::File(_) => None,
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.dir().is_some()
    }
}

/// The part of a path that exists, and its missing rest.
pub(crate) struct Resolved {
    /// Absolute path in normal form.
    pub(crate) path: String,
    pub(crate) names: Vec<String>,
    /// Inodes from the root on; complete when it is one longer than `names`.
    pub(crate) inodes: Vec<u64>,
}

impl Resolved {
    /// The inode of the whole path.
    pub(crate) fn last(&self) -> Option<u64> {
        if self.inodes.len() == self.names.len() + 1 { self.inodes.last().copied() } else { None }
    }

    /// The deepest inode that exists.
    pub(crate) fn deepest(&self) -> u64 {
        self.inodes.last().copied().unwrap_or(ROOT_ID)
    }

    pub(crate) fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn parent_path(&self) -> String {
        join(self.names.get(..self.names.len().saturating_sub(1)).unwrap_or_default())
    }

    pub(crate) fn name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }
}

pub(crate) fn join(names: &[String]) -> String {
    if names.is_empty() { "/".to_owned() } else { format!("/{}", names.join("/")) }
}

pub(crate) struct Tree {
    inodes: HashMap<u64, Inode>,
    next_id: u64,
}

impl Tree {
    pub(crate) fn new(owner: &str) -> Self {
        let root = Inode {
            id: ROOT_ID,
            parent: 0,
            name: String::new(),
            permission: 0o755,
            owner: owner.to_owned(),
            group: "supergroup".to_owned(),
            mtime: now_ms(),
            atime: 0,
            policy: 0,
            kind: Kind::Dir(DirNode::default()),
        };
        Self { inodes: HashMap::from([(ROOT_ID, root)]), next_id: ROOT_ID + 1 }
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Inode> {
        self.inodes.get(&id)
    }

    /// An inode that the caller knows to exist; its absence is a defect of minidfs.
    pub(crate) fn known(&self, id: u64) -> NnResult<&Inode> {
        self.inodes.get(&id).ok_or_else(|| gone(id))
    }

    pub(crate) fn known_mut(&mut self, id: u64) -> NnResult<&mut Inode> {
        self.inodes.get_mut(&id).ok_or_else(|| gone(id))
    }

    pub(crate) fn file(&self, id: u64) -> NnResult<&FileNode> {
        self.known(id)?.file().ok_or_else(|| gone(id))
    }

    pub(crate) fn file_mut(&mut self, id: u64) -> NnResult<&mut FileNode> {
        match &mut self.known_mut(id)?.kind {
            Kind::File(f) => Ok(f),
            Kind::Dir(_) => Err(gone(id)),
        }
    }

    pub(crate) fn dir_mut(&mut self, id: u64) -> NnResult<&mut DirNode> {
        match &mut self.known_mut(id)?.kind {
            Kind::Dir(d) => Ok(d),
            Kind::File(_) => Err(gone(id)),
        }
    }

    /// Walks a path; a file where a directory should be is an error.
    ///
    /// Hadoop 3.4 FSPermissionChecker#checkSimpleTraverse: this holds for reads as well.
    pub(crate) fn resolve(&self, path: &str) -> NnResult<Resolved> {
        let mut names: Vec<String> =
            path::components(path)?.into_iter().map(str::to_owned).collect();
        if let [reserved, inodes, id, ..] = names.as_slice()
            && reserved == ".reserved"
            && inodes == ".inodes"
        {
            let id: u64 = id.parse().map_err(|_| {
                error::file_not_found(format!("File for given inode path does not exist: {path}"))
            })?;
            let mut full = self.names_of(id).ok_or_else(|| {
                error::file_not_found(format!("File for given inode path does not exist: {path}"))
            })?;
            full.extend(names.drain(..).skip(3));
            names = full;
        }
        let mut inodes = vec![ROOT_ID];
        for (depth, name) in names.iter().enumerate() {
            let inode = self.known(inodes.last().copied().unwrap_or(ROOT_ID))?;
            let Some(dir) = inode.dir() else {
                return Err(error::parent_not_directory(format!(
                    "{} (is not a directory)",
                    join(names.get(..depth).unwrap_or_default())
                )));
            };
            match dir.children.get(name) {
                Some(id) => inodes.push(*id),
                None => break,
            }
        }
        Ok(Resolved { path: join(&names), names, inodes })
    }

    /// Like `resolve`, but a file id of the client wins over the path, so that writers survive a
    /// rename. `None` when the id is unknown.
    pub(crate) fn resolve_id(&self, path: &str, file_id: u64) -> NnResult<Option<u64>> {
        if file_id == 0 {
            return Ok(self.resolve(path)?.last());
        }
        Ok(self.inodes.contains_key(&file_id).then_some(file_id))
    }

    /// Component names from the root to an inode of the tree.
    pub(crate) fn names_of(&self, id: u64) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT_ID {
            let inode = self.inodes.get(&at)?;
            names.push(inode.name.clone());
            at = inode.parent;
        }
        names.reverse();
        Some(names)
    }

    pub(crate) fn path_of(&self, id: u64) -> String {
        self.names_of(id).map_or_else(|| format!("(inode {id})"), |n| join(&n))
    }

    /// Ids of an inode's directories, nearest first.
    pub(crate) fn ancestors(&self, id: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let mut at = id;
        while let Some(inode) = self.inodes.get(&at) {
            if inode.parent == 0 {
                break;
            }
            found.push(inode.parent);
            at = inode.parent;
        }
        found
    }

    /// Adds a node to a directory and returns its id.
    pub(crate) fn insert(&mut self, parent: u64, mut node: Inode) -> NnResult<u64> {
        let id = self.next_id;
        self.next_id += 1;
        node.id = id;
        node.parent = parent;
        let now = node.mtime;
        self.dir_mut(parent)?.children.insert(node.name.clone(), id);
        self.known_mut(parent)?.mtime = now;
        self.inodes.insert(id, node);
        Ok(id)
    }

    /// Takes a node out of its directory without forgetting it.
    pub(crate) fn detach(&mut self, id: u64) -> NnResult<()> {
        let (parent, name) = {
            let inode = self.known(id)?;
            (inode.parent, inode.name.clone())
        };
        self.dir_mut(parent)?.children.remove(&name);
        self.known_mut(parent)?.mtime = now_ms();
        Ok(())
    }

    /// Puts a detached node below another directory.
    pub(crate) fn attach(&mut self, id: u64, parent: u64, name: &str) -> NnResult<()> {
        self.dir_mut(parent)?.children.insert(name.to_owned(), id);
        self.known_mut(parent)?.mtime = now_ms();
        let inode = self.known_mut(id)?;
        inode.parent = parent;
        inode.name = name.to_owned();
        Ok(())
    }

    /// Ids of a node and everything below it.
    pub(crate) fn subtree(&self, id: u64) -> Vec<u64> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(at) = found.get(next).copied() {
            if let Some(dir) = self.inodes.get(&at).and_then(Inode::dir) {
                found.extend(dir.children.values());
            }
            next += 1;
        }
        found
    }

    pub(crate) fn forget(&mut self, id: u64) -> Option<Inode> {
        self.inodes.remove(&id)
    }
}

fn gone(id: u64) -> RpcError {
    error::io(format!("inode {id} is not in the expected state"))
}
