//! The file with which kubectl and every client library find the server and prove who they are.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// What a kubeconfig says: one cluster, one user, one context, all of the same name.
#[derive(Clone, Debug)]
pub struct Kubeconfig<'a> {
    /// Name of cluster, user and context.
    pub name: &'a str,
    /// `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// PEM of the authority that signed the server's certificate.
    pub ca_certificate: &'a str,
    /// PEM of the client certificate.
    pub client_certificate: &'a str,
    /// PEM of its key.
    pub client_key: &'a str,
}

impl Kubeconfig<'_> {
    /// Its YAML, certificates embedded.
    #[must_use]
    pub fn render(&self) -> String {
        let Self { name, server, .. } = self;
        let [ca, certificate, key] = [self.ca_certificate, self.client_certificate, self.client_key].map(|pem| STANDARD.encode(pem));
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: {name}\n\
             \x20 cluster:\n\
             \x20   server: {server}\n\
             \x20   certificate-authority-data: {ca}\n\
             users:\n\
             - name: {name}\n\
             \x20 user:\n\
             \x20   client-certificate-data: {certificate}\n\
             \x20   client-key-data: {key}\n\
             contexts:\n\
             - name: {name}\n\
             \x20 context:\n\
             \x20   cluster: {name}\n\
             \x20   user: {name}\n\
             current-context: {name}\n"
        )
    }

    /// Writes it to `path`, readable by its owner only. Readers see the old file or the new one, never a part; missing folders are made.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_private(path, self.render().as_bytes())
    }
}

/// Replaces a file at once, with mode 0600.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let beside = temporary_beside(path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = private_folder().create(parent).and_then(|()| {
        // A file left behind by a writer that died has an owner and a mode of its own, so it is never written into.
        let _ = fs::remove_file(&beside);
        let mut file = private_file().open(&beside)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // Else a power loss may bring the old file back, or none.
        fs::File::open(parent)?.sync_all()
    });
    written.map_err(|error| io::Error::new(error.kind(), format!("could not write {}: {error}", path.display())))
}

/// Makes a file with mode 0600.
///
/// # Errors
/// There is one of that name already, or what the file system says.
pub(crate) fn create_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = private_file().open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Hidden, and always the same: what is left behind by a writer that died goes with the next write.
fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

pub(crate) fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const CONFIG: Kubeconfig<'_> =
        Kubeconfig { name: "berth", server: "https://[::1]:6443", ca_certificate: "ca", client_certificate: "cert", client_key: "key" };

    #[test]
    fn it_is_yaml_that_points_at_the_server() {
        let found: Value = serde_saphyr::from_str(&CONFIG.render()).expect("YAML");
        assert_eq!(found["current-context"], "berth");
        assert_eq!(found["clusters"][0]["cluster"]["server"], "https://[::1]:6443");
        assert_eq!(found["users"][0]["user"]["client-key-data"], "a2V5");
        assert_eq!(found["contexts"][0]["context"]["user"], "berth");
    }

    #[test]
    fn it_replaces_a_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/config");
        write_private(&path, b"old").expect("written");
        fs::write(folder.path().join("deep/.config.tmp"), "of a writer that died").expect("written");
        CONFIG.write(&path).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), CONFIG.render());
        assert_eq!(fs::read_dir(folder.path().join("deep")).expect("read").count(), 1);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).expect("there").permissions()) & 0o777, 0o600);
    }
}
