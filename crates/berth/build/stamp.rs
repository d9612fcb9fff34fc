//! The commit and the time of a build. Works without git and outside a repository: the commit is then unknown.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// The commit that is checked out in `root`. `None` if `root` is not the root of a repository, or git is missing.
pub(crate) fn commit(root: &Path) -> Option<String> {
    // An unpacked source tree inside another repository is not part of that repository.
    let top = fs::canonicalize(git(root, &["rev-parse", "--show-toplevel"])?).ok()?;
    (top == fs::canonicalize(root).ok()?).then(|| git(root, &["rev-parse", "HEAD"]))?
}

/// The existing files of the repository that change when a user checks out or creates a commit.
pub(crate) fn changing_files(root: &Path) -> Vec<PathBuf> {
    let files = ["HEAD", "logs/HEAD"].into_iter().filter_map(|name| git(root, &["rev-parse", "--git-path", name]));
    files.map(|path| root.join(path)).filter(|path| path.exists()).collect()
}

/// The time of the build, in seconds since 1970: `epoch`, else `now`.
///
/// # Errors
/// `epoch` is not a valid number.
pub(crate) fn built_at(epoch: Option<&str>, now: SystemTime) -> Result<u64, String> {
    match epoch.filter(|epoch| !epoch.is_empty()) {
        Some(epoch) => epoch.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is {epoch:?}, no number of seconds")),
        None => Ok(now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
