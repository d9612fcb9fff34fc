//! `berth version`: prints the version of the build.

use crate::{cli::VersionOptions, progress::line};
use berth_registry::discovery;
use jiff::Timestamp;
use serde::Serialize;

/// The version of a build. Its JSON is stable: fields are only ever added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: &'static str,
    /// The commit of release builds from a repository.
    commit: Option<&'static str>,
    /// The build date of release builds.
    build_date: Option<String>,
    /// The Kubernetes release whose API `berth up` serves.
    kubernetes_version: String,
    platform: String,
}

impl Version {
    fn of_this_build() -> Self {
        let seconds = option_env!("BERTH_BUILT_AT").and_then(|text| text.parse().ok());
        let built = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let served = discovery::version_info();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("BERTH_COMMIT"),
            build_date: built.map(|time| time.to_string()),
            kubernetes_version: format!("{}.{}", served.major, served.minor),
            platform: served.platform,
        }
    }
}

/// Prints the version.
pub(crate) fn run(options: &VersionOptions) {
    let version = Version::of_this_build();
    if options.output.is_some() {
        return line(&serde_json::to_string_pretty(&version).expect("all of it is text"));
    }
    let commit = version.commit.unwrap_or("unknown: a development build, or a build without a repository");
    let built = version.build_date.as_deref().unwrap_or("unknown: a development build");
    line(&format!("berth:      {}", version.version));
    line(&format!("commit:     {commit}"));
    line(&format!("built:      {built}"));
    line(&format!("Kubernetes: {}", version.kubernetes_version));
    line(&format!("platform:   {}", version.platform));
}
