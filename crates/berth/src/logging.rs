//! The log on standard error, of panics as well.

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `verbose` counts -v; the variable `BERTH_LOG` overrides it with a filter of its own.
pub(crate) fn start(format: LogFormat, verbose: u8) {
    let filter = EnvFilter::try_from_env("BERTH_LOG").unwrap_or_else(|_| EnvFilter::new(filter(verbose)));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(has_colours());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    // A line like all others. What the panic says is told by whoever catches it.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a panic");
    }));
}

/// Controllers and nodes say what they do on the level that others use for every request. What rustls warns of, whoever can reach the
/// server can cause without end; the server itself tells of handshakes that fail, and how many. What kube's client calls errors, whoever asked tells of
/// in words that say what was asked.
fn filter(verbose: u8) -> &'static str {
    match verbose {
        0 => "warn,rustls=error,kube_client=off",
        1 => "info,berth_controllers=debug,berth_node=debug,rustls=error,kube_client=off",
        2 => "debug",
        _ => "trace",
    }
}

/// A file gets none; nor does somebody who does not want any: <https://no-color.org>.
fn has_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
