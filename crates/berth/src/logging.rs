//! The log on standard error.

use crate::cli::LogFormat;
use tracing_subscriber::EnvFilter;

/// Starts logging. `verbose` counts -v; the variable `BERTH_LOG` overrides it with a filter of its own.
pub(crate) fn start(format: LogFormat, verbose: u8) {
    let default = match verbose {
        0 => "warn",
        1 => "info,berth=debug",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("BERTH_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
