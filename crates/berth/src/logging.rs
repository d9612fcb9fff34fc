//! The log on standard error, including panics.

use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::json;
use std::{
    io::IsTerminal,
    sync::atomic::{AtomicBool, Ordering},
};
use tracing_subscriber::EnvFilter;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Whether lines for users are JSON objects like those of the log.
static LINES_ARE_JSON: AtomicBool = AtomicBool::new(false);

/// A line that the process prints besides its log. It has the format of the log, so that a program that reads both needs to parse only one
/// format.
pub(crate) fn line(level: &str, text: &str) -> String {
    if LINES_ARE_JSON.load(Ordering::Acquire) { json_line(level, text, Timestamp::now()) } else { text.to_owned() }
}

fn json_line(level: &str, text: &str, at: Timestamp) -> String {
    json!({"timestamp": at.to_string(), "level": level, "fields": {"message": text}, "target": "berth"}).to_string()
}

/// Starts logging. `verbose` counts -v. The filter in the variable `BERTH_LOG` overrides it.
pub(crate) fn start(format: LogFormat, verbose: u8) {
    let filter = EnvFilter::try_from_env("BERTH_LOG").unwrap_or_else(|_| EnvFilter::new(filter(verbose)));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(has_colors());
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => {
            LINES_ARE_JSON.store(true, Ordering::Release);
            log.json().init();
        }
    }
    // The panic is a log line like all others. The code that catches the panic reports its message.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a panic");
    }));
}

/// Controllers and nodes log at the level that the other crates use for every request. Any client that reaches the server can cause endless
/// warnings of rustls, so the server itself logs failed handshakes and their number. Callers of kube's client report its errors, together
/// with the request.
fn filter(verbose: u8) -> &'static str {
    match verbose {
        0 => "warn,rustls=error,kube_client=off",
        1 => "info,berth_controllers=debug,berth_node=debug,rustls=error,kube_client=off",
        2 => "debug",
        _ => "trace",
    }
}

/// Files get no colors, and neither do users who set NO_COLOR: <https://no-color.org>.
fn has_colors() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_json_log_is_one_object_with_the_text() {
        let line = json_line("ERROR", "berth: \"lease\" lost\nand gone", Timestamp::UNIX_EPOCH);
        assert!(!line.contains('\n'), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let wanted = json!({"timestamp": "1970-01-01T00:00:00Z", "level": "ERROR", "fields": {"message": "berth: \"lease\" lost\nand gone"}, "target": "berth"});
        assert_eq!(read, wanted);
    }
}
