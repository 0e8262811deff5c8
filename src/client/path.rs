//! Path texts, checked before they travel.
use crate::error::{Error, Result, Status};

/// Longest path that a NameNode accepts, bytes (its own limit counts UTF-16 units).
// Hadoop 3.4 HdfsServerConstants.MAX_PATH_LENGTH
const PATH_BYTES_MAX: usize = 4 * 8000;

/// An absolute path in the NameNode's form: no repeated or trailing slashes.
///
/// # Errors
/// `BadPath`, naming the path, when it is relative or has a component that HDFS refuses: `.`, `..`,
/// or one with a colon or a NUL byte.
pub fn normalize(path: &str) -> Result<String> {
    let bad = |why: &str| Err(Error::new(Status::BadPath, format!("path {path:?}: {why}")));
    if path.is_empty() {
        return bad("it is empty");
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Error::new(
            Status::BadPath,
            format!("a path of {} bytes is longer than NameNodes accept", path.len()),
        ));
    }
    if !path.starts_with('/') {
        return bad("it is not absolute");
    }
    // Hadoop 3.4 DFSUtilClient#isValidName: inode paths may climb.
    let may_climb = path.starts_with("/.reserved/.inodes/");
    let mut out = String::with_capacity(path.len());
    for component in path.split('/') {
        match component {
            // Hadoop 3.4 Path#normalizePath drops these before the name is judged.
            "" => continue,
            "." => return bad("it has the component \".\""),
            ".." if !may_climb => return bad("it has the component \"..\""),
            _ if component.contains(':') => return bad("a component has a colon"),
            _ if component.contains('\0') => return bad("it has a NUL byte"),
            _ => {}
        }
        out.push('/');
        out.push_str(component);
    }
    if out.is_empty() {
        out.push('/');
    }
    Ok(out)
}

/// `name` below `parent`, both in normal form; an empty name is the parent itself.
#[must_use]
pub fn join(parent: &str, name: &str) -> String {
    match (parent, name) {
        (_, "") => parent.to_owned(),
        ("/", _) => format!("/{name}"),
        _ => format!("{parent}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_put_in_order() {
        for (path, expect) in [
            ("/", "/"),
            ("//", "/"),
            ("/a", "/a"),
            ("/a/", "/a"),
            ("//a///b//", "/a/b"),
            ("/ü/…/x y", "/ü/…/x y"),
            ("/a/.hidden/..b", "/a/.hidden/..b"),
            ("/.reserved/.inodes/16386/..", "/.reserved/.inodes/16386/.."),
        ] {
            assert_eq!(normalize(path).unwrap(), expect);
        }
    }

    #[test]
    fn what_hdfs_refuses_is_named() {
        for path in ["", "a", "a/b", "/.", "/a/./b", "/..", "/a/../b", "/a:b", "/a\0b"] {
            let e = normalize(path).unwrap_err();
            assert_eq!(e.status(), Status::BadPath, "{path:?}");
            assert!(e.message().contains(&format!("{path:?}")), "{e}");
        }
        assert_eq!(normalize(&"/a".repeat(20_000)).unwrap_err().status(), Status::BadPath);
    }

    #[test]
    fn joins() {
        assert_eq!(join("/", "a"), "/a");
        assert_eq!(join("/a", "b"), "/a/b");
        assert_eq!(join("/a", ""), "/a");
    }
}
