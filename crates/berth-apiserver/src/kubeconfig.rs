//! The kubeconfig, with which kubectl and client libraries find the server and authenticate.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The content of a kubeconfig: one cluster, one user and one context, all with the same name.
#[derive(Clone, Debug)]
pub struct Kubeconfig<'a> {
    /// The name of cluster, user and context.
    pub name: &'a str,
    /// `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// The PEM of the CA that signed the server's certificate.
    pub ca_certificate: &'a str,
    /// PEM of the client certificate.
    pub client_certificate: &'a str,
    /// The PEM of the client's key.
    pub client_key: &'a str,
}

impl Kubeconfig<'_> {
    /// Returns the YAML with embedded certificates.
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

    /// Writes the kubeconfig to `path`, readable by its owner only. Readers see the old file or the new one, never a
    /// part. Creates missing folders.
    ///
    /// # Errors
    /// The error of the file system, with the path.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_private(path, self.render().as_bytes())
    }
}

/// Replaces a file atomically, with mode 0600.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let beside = temporary_beside(path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = private_folder().create(parent).and_then(|()| {
        // A file of a crashed writer has its own owner and mode, so it is removed first.
        let _ = fs::remove_file(&beside);
        let mut file = private_file().open(&beside)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // Otherwise a power failure could restore the old file, or none.
        fs::File::open(parent)?.sync_all()
    });
    written.map_err(|error| io::Error::new(error.kind(), format!("could not write {}: {error}", path.display())))
}

/// Creates a file with mode 0600.
///
/// # Errors
/// The file exists, or an error of the file system.
pub(crate) fn create_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = private_file().open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Returns the name of the hidden temporary file. It is always the same, so the next write removes the file of a
/// crashed writer.
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
