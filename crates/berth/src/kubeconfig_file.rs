//! The administrator's kubeconfig of a running control plane.

use berth_apiserver::Kubeconfig;
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The name of the cluster, the user and the context.
const NAME: &str = "berth";

/// A kubeconfig that was written. One outside the data folder is removed when the value is dropped, unless another process has changed it.
#[derive(Debug)]
pub(crate) struct KubeconfigFile {
    path: PathBuf,
    text: String,
    stays: bool,
}

/// The server's address and the client's credentials.
pub(crate) struct Access<'a> {
    /// `https://127.0.0.1:6443`
    pub(crate) server: &'a str,
    /// PEM of the server's authority.
    pub(crate) ca_certificate: &'a str,
    /// PEM of certificate and key.
    pub(crate) client: (&'a str, &'a str),
}

/// Why berth cannot write a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeconfigError {
    #[error(
        "berth did not write {}: {what} would be lost. Choose another file with --kubeconfig-file, and list both files in KUBECONFIG",
        path.display()
    )]
    Foreign { path: PathBuf, what: String },
    #[error("cannot write the kubeconfig (--kubeconfig-file)")]
    Write(#[source] io::Error),
}

impl KubeconfigFile {
    /// Whether berth may write `path`: it does not exist, or is a kubeconfig of berth. The write reports unreadable files.
    ///
    /// # Errors
    /// The file has other contents.
    pub(crate) fn check(path: &Path) -> Result<(), KubeconfigError> {
        let foreign = |what: String| Err(KubeconfigError::Foreign { path: path.to_path_buf(), what });
        let Ok(text) = fs::read_to_string(path) else { return Ok(()) };
        if text.trim().is_empty() {
            return Ok(());
        }
        let config: Value = serde_saphyr::from_str(&text).unwrap_or_default();
        let Some(clusters) = config["clusters"].as_array().filter(|_| config["kind"] == "Config") else {
            return foreign("its content, which is not a kubeconfig,".to_owned());
        };
        let names: Vec<_> = clusters.iter().filter_map(|cluster| cluster["name"].as_str()).filter(|name| *name != NAME).collect();
        if names.is_empty() { Ok(()) } else { foreign(format!("its entry {}", names.join(", "))) }
    }

    /// Writes the kubeconfig to `asked`, or else into the data folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(asked: Option<&Path>, data_dir: &Path, access: &Access<'_>) -> Result<Self, KubeconfigError> {
        let kubeconfig = Kubeconfig {
            name: NAME,
            server: access.server,
            ca_certificate: access.ca_certificate,
            client_certificate: access.client.0,
            client_key: access.client.1,
        };
        let path = asked.map_or_else(|| data_dir.join("kubeconfig"), Path::to_path_buf);
        kubeconfig.write(&path).map_err(KubeconfigError::Write)?;
        // The absolute path, so that other processes find it from any folder.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let stays = path.starts_with(data_dir);
        Ok(Self { path, text: kubeconfig.render(), stays })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if !self.stays && fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            // At worst, a file with the address of a stopped server remains.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESS: Access<'_> = Access { server: "https://[::1]:6443", ca_certificate: "ca", client: ("certificate", "key") };

    #[test]
    fn it_goes_with_its_server_unless_it_is_in_the_data_folder_or_of_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let (data_dir, asked) = (fs::canonicalize(folder.path()).expect("there").join("data"), folder.path().join("config"));
        let write = |asked: Option<&Path>| KubeconfigFile::write(asked, &data_dir, &ACCESS).expect("written");
        let kept = write(None);
        let path = kept.path().to_path_buf();
        drop(kept);
        assert!(path.exists() && path.starts_with(&data_dir), "the data folder stays");
        let removed = write(Some(&asked));
        assert!(asked.exists());
        drop(removed);
        assert!(!asked.exists());
        let replaced = write(Some(&asked));
        fs::write(&asked, "of another server").expect("written");
        drop(replaced);
        assert_eq!(fs::read_to_string(&asked).expect("there"), "of another server");
    }

    #[test]
    fn only_what_is_berths_own_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        let check = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(&path, text).expect("written");
            }
            KubeconfigFile::check(&path).map_err(|error| error.to_string().replace(path.to_str().expect("UTF-8"), "FILE"))
        };
        assert_eq!(check(None), Ok(()));
        assert_eq!(check(Some("")), Ok(()));
        assert_eq!(check(Some("kind: Config\nclusters: [{name: berth}]")), Ok(()));
        let rest = "would be lost. Choose another file with --kubeconfig-file, and list both files in KUBECONFIG";
        let others = "kind: Config\nclusters: [{name: prod}, {name: berth}, {name: test}]";
        assert_eq!(check(Some(others)), Err(format!("berth did not write FILE: its entry prod, test {rest}")));
        assert_eq!(check(Some("a letter")), Err(format!("berth did not write FILE: its content, which is not a kubeconfig, {rest}")));
    }
}
