//! rename, rename2 and concat.
use super::error::{self, NnResult};
use super::tree::{Resolved, now_ms};
use super::{BlockInfo, NameSystem, path};

impl NameSystem {
    fn rename_paths(&self, src: &str, dst: &str) -> NnResult<(Resolved, Resolved)> {
        path::check_length(dst, "rename")?;
        self.check_safe_mode(&format!("Cannot rename {src}"))?;
        if !path::is_valid_name(dst) {
            return Err(error::invalid_path(format!("Invalid path name Invalid name: {dst}")));
        }
        Ok((self.tree.resolve(src)?, self.tree.resolve(dst)?))
    }

    /// Hadoop 3.4 FSDirRenameOp#unprotectedRenameTo, the old form: false instead of exceptions,
    /// and a directory as target takes the source in.
    pub(super) fn rename(&mut self, src: &str, dst: &str) -> NnResult<bool> {
        let (from, mut to) = self.rename_paths(src, dst)?;
        let Some(id) = from.last() else { return Ok(false) };
        if from.is_root() {
            return Ok(false);
        }
        let into = to.last().filter(|t| self.tree.get(*t).is_some_and(super::tree::Inode::is_dir));
        if into.is_some() {
            let inside = if to.is_root() {
                format!("/{}", from.name())
            } else {
                format!("{}/{}", to.path, from.name())
            };
            to = self.tree.resolve(&inside)?;
        }
        if to.path == from.path {
            return Ok(true);
        }
        let inside_itself = to.path.starts_with(&format!("{}/", from.path));
        let has_parent = to.inodes.len() == to.names.len();
        if inside_itself || to.last().is_some() || !has_parent {
            return Ok(false);
        }
        self.move_node(id, &to)?;
        Ok(true)
    }

    /// Hadoop 3.4 FSDirRenameOp#unprotectedRenameTo with options.
    pub(super) fn rename2(&mut self, src: &str, dst: &str, overwrite: bool) -> NnResult<()> {
        let (from, to) = self.rename_paths(src, dst)?;
        let Some(id) = from.last() else {
            return Err(error::file_not_found(format!(
                "rename source {} is not found.",
                from.path
            )));
        };
        if from.is_root() {
            return Err(error::io("rename source cannot be the root"));
        }
        if from.path == to.path {
            return Err(error::file_already_exists(format!(
                "The source {} and destination {} are the same",
                from.path, to.path
            )));
        }
        if to.path.starts_with(&format!("{}/", from.path)) {
            return Err(error::io(format!(
                "Rename destination {} is a directory or file under source {}",
                to.path, from.path
            )));
        }
        if to.is_root() {
            return Err(error::io("rename destination cannot be the root"));
        }
        if let Some(old) = to.last() {
            self.check_overwrite(&from, &to, id, old, overwrite)?;
            self.remove_tree(old)?;
        } else if to.inodes.len() < to.names.len() {
            return Err(error::file_not_found(format!(
                "rename destination parent {} not found.",
                to.path
            )));
        }
        self.move_node(id, &to)
    }

    fn check_overwrite(
        &self,
        from: &Resolved,
        to: &Resolved,
        id: u64,
        old: u64,
        overwrite: bool,
    ) -> NnResult<()> {
        let (source, target) = (self.tree.known(id)?, self.tree.known(old)?);
        if source.is_dir() != target.is_dir() {
            return Err(error::io(format!(
                "Source {} and destination {} must both be directories or files",
                from.path, to.path
            )));
        }
        if !overwrite {
            return Err(error::file_already_exists(format!(
                "rename destination {} already exists",
                to.path
            )));
        }
        if target.dir().is_some_and(|d| !d.children.is_empty()) {
            return Err(error::io(format!(
                "rename destination directory is not empty: {}",
                to.path
            )));
        }
        Ok(())
    }

    fn move_node(&mut self, id: u64, to: &Resolved) -> NnResult<()> {
        path::check_component(to.name(), &to.parent_path())?;
        let parent = to
            .inodes
            .get(to.names.len() - 1)
            .copied()
            .ok_or_else(|| error::io(format!("no directory for {}", to.path)))?;
        let usage = self.usage(id)?;
        let old_parent = self.tree.known(id)?.parent;
        if old_parent != parent {
            self.check_quota(parent, usage.files + usage.dirs, usage.space)?;
        }
        self.tree.detach(id)?;
        self.tree.attach(id, parent, to.name())
    }

    /// Hadoop 3.4 FSDirConcatOp.
    pub(super) fn concat(&mut self, target: &str, sources: &[String]) -> NnResult<()> {
        self.check_safe_mode(&format!("Cannot concat {target}"))?;
        let id = self.existing_file(target)?;
        if sources.is_empty() {
            return Err(error::hadoop_illegal_argument(format!(
                "concat: source file list is empty, target: {target}"
            )));
        }
        if self.tree.file(id)?.writer.is_some() {
            return Err(error::hadoop_illegal_argument(format!(
                "concat: target file {target} is under construction"
            )));
        }
        let mut found = Vec::new();
        for source in sources {
            let from = self.existing_file(source)?;
            self.check_concat_source(target, id, source, from)?;
            if found.contains(&from) {
                return Err(error::hadoop_illegal_argument(format!(
                    "concat: at least two of the source files are the same: {source}"
                )));
            }
            found.push(from);
        }
        for from in found {
            let blocks = std::mem::take(&mut self.tree.file_mut(from)?.blocks);
            for block in &blocks {
                self.known_block_mut(*block)?.file = id;
            }
            self.tree.file_mut(id)?.blocks.extend(blocks);
            self.remove_tree(from)?;
        }
        self.tree.known_mut(id)?.mtime = now_ms();
        Ok(())
    }

    fn check_concat_source(&self, target: &str, id: u64, source: &str, from: u64) -> NnResult<()> {
        if id == from {
            return Err(error::hadoop_illegal_argument(format!(
                "concat: the src file {source} is the same with the target file {target}"
            )));
        }
        if self.tree.known(from)?.parent != self.tree.known(id)?.parent {
            return Err(error::hadoop_illegal_argument(format!(
                "Source file {source} is not in the same directory with the target {target}"
            )));
        }
        let file = self.tree.file(from)?;
        let complete =
            file.blocks.iter().all(|b| self.blocks.get(b).is_some_and(BlockInfo::is_complete));
        if file.writer.is_some() || file.blocks.is_empty() || !complete {
            return Err(error::hadoop_illegal_argument(format!(
                "concat: source file {source} is invalid or empty or underConstruction"
            )));
        }
        if file.block_size > self.tree.file(id)?.block_size {
            return Err(error::hadoop_illegal_argument(format!(
                "concat: source file {source} has preferred block size {} which is greater than \
                 the target file's preferred block size {}",
                file.block_size,
                self.tree.file(id)?.block_size
            )));
        }
        Ok(())
    }
}
