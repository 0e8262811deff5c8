//! `cargo xtask dist`: an archive of what `make install` installs.
use crate::run;
use std::path::Path;
use std::process::Command;

/// Writes `target/dist/libdfs-<version>-linux-<machine>.tar.gz`, an installed tree that works from
/// wherever it is unpacked.
///
/// # Errors
/// When the build, the installation or tar fails.
pub(crate) fn dist(root: &Path) -> Result<(), String> {
    let name = format!("libdfs-{}-linux-{}", run::version(root)?, std::env::consts::ARCH);
    let folder = run::target_dir(root).join("dist");
    let tree = folder.join(&name);
    if tree.exists() {
        std::fs::remove_dir_all(&tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    }
    install(root, &tree, "release")?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        std::fs::copy(root.join(file), tree.join(file)).map_err(|e| format!("{file}: {e}"))?;
    }
    let archive = format!("{name}.tar.gz");
    // The same input gives the same bytes.
    let sorted = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    run::capture("tar", &[&sorted[..], &["-czf", &archive, &name]].concat(), &folder)?;
    println!("{}", run::relative(root, &folder.join(&archive)));
    Ok(())
}

/// Installs the build of a cargo profile below `prefix`.
///
/// # Errors
/// When make fails.
pub(crate) fn install(root: &Path, prefix: &Path, profile: &str) -> Result<(), String> {
    let status = Command::new("make")
        .args(["--silent", "install", "DESTDIR=", "LIBDIR=", "INCLUDEDIR="])
        .arg(format!("PREFIX={}", prefix.display()))
        .arg(format!("PROFILE={profile}"))
        .current_dir(root)
        .status()
        .map_err(|e| format!("make cannot be run: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("make install: {status}")) }
}
