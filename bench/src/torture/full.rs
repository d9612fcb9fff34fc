//! A small disk that can be filled: a file system in memory, where one may be mounted.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What a server needs to be free for new values (64 MiB), and as much again to fill.
const MIB: u64 = 128;

/// Mounted until it is dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// One at a new folder; `None` where this process may not mount any.
    pub(crate) fn mount(at: PathBuf) -> io::Result<Option<Self>> {
        fs::create_dir_all(&at)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={MIB}m,mode=0700"), "berth-torture"]).arg(&at).stderr(Stdio::null());
        Ok(mount.status().is_ok_and(|status| status.success()).then_some(Self(at)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Takes space until so many MiB are left.
    pub(crate) fn fill(&self, mib_left: u64) -> io::Result<()> {
        let mut ballast = fs::File::create(self.ballast())?;
        let piece = vec![1; 1 << 20];
        while mib_left << 20 < free_bytes(&self.0)? {
            match io::Write::write_all(&mut ballast, &piece) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                written => written?,
            }
        }
        Ok(())
    }

    /// Gives back what was taken.
    pub(crate) fn empty(&self) -> io::Result<()> {
        fs::remove_file(self.ballast())
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
