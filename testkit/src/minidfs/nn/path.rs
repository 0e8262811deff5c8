//! Path rules of the NameNode.
use super::error::{self, NnResult};

/// Hadoop 3.4 FSNamesystem: `create: Pathname too long`.
const PATH_CHARS_MAX: usize = 8000;
const PATH_DEPTH_MAX: usize = 1000;
/// `dfs.namenode.fs-limits.max-component-length`.
const COMPONENT_BYTES_MAX: usize = 255;

/// Splits an absolute path into its components; the root has none.
///
/// Hadoop 3.4 INode#checkAbsolutePath: anything else is an AssertionError.
pub(crate) fn components(path: &str) -> NnResult<Vec<&str>> {
    if !path.starts_with('/') {
        return Err(error::assertion(format!("Absolute path required, but got '{path}'")));
    }
    Ok(path.split('/').filter(|c| !c.is_empty()).collect())
}

/// Hadoop 3.4 DFSUtil#isValidName: what may be created, and the target of a rename.
pub(crate) fn is_valid_name(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else { return false };
    let parts: Vec<&str> = rest.split('/').collect();
    parts.iter().enumerate().all(|(i, part)| {
        let last = i + 1 == parts.len();
        !matches!(*part, "." | "..") && !part.contains(':') && (last || !part.is_empty())
    })
}

/// Checks a name that is about to appear in the namespace.
pub(crate) fn check_new(path: &str) -> NnResult<()> {
    if is_valid_name(path) {
        Ok(())
    } else {
        Err(error::invalid_path(format!("Invalid path name Invalid file name: {path}")))
    }
}

/// Hadoop 3.4 NameNodeRpcServer#checkPathLength.
pub(crate) fn check_length(path: &str, what: &str) -> NnResult<()> {
    let depth = path.split('/').filter(|c| !c.is_empty()).count();
    if path.encode_utf16().count() > PATH_CHARS_MAX || depth > PATH_DEPTH_MAX {
        return Err(error::io(format!(
            "{what}: Pathname too long.  Limit {PATH_CHARS_MAX} characters, {PATH_DEPTH_MAX} \
             levels."
        )));
    }
    Ok(())
}

/// Hadoop 3.4 FSDirectory#verifyMaxComponentLength.
pub(crate) fn check_component(name: &str, parent: &str) -> NnResult<()> {
    if name.len() > COMPONENT_BYTES_MAX {
        return Err(error::component_too_long(format!(
            "The maximum path component name limit of {name} in directory {parent} is exceeded: \
             limit={COMPONENT_BYTES_MAX} length={}",
            name.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["/", "/a", "/a/", "/a b/c.d"] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in ["", "a", "/a//b", "/a/./b", "/a/..", "/a:b", "//a"] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
