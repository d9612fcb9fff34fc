//! Shows ten thousand changing pods in Debian's Chromium. `cargo xtask test` installs its driver. The test prints times
//! and fails only for extreme ones.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; the figures are for people")]

use crate::common::{PODS, many, pod, start};
use berth_testing::{Tool, skip};
use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{task::spawn_blocking, time::interval};

/// How often pods change: about as often as a page is rendered.
const PACE: Duration = Duration::from_millis(200);
/// How many pods change at once.
const AT_ONCE: usize = 20;
/// How long the browser shows the page.
const SECONDS: &str = "15";

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_pods_that_change_keep_no_browser_busy() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = manifest.join("../../target/tools/javascript");
    let node = tools.join("node_modules/.bin/node");
    if !node.exists() || !Path::new("/usr/bin/chromium").exists() {
        return skip(Tool::Browser, "no chromium, or no target/tools/javascript: `cargo xtask test` installs it where it can be had");
    }
    let running = start(many()).await;
    let cluster = Arc::clone(&running.cluster);
    let changing = tokio::spawn(async move {
        let mut pace = interval(PACE);
        for round in 0_usize.. {
            pace.tick().await;
            let first = round * AT_ONCE;
            (first..first + AT_ONCE).for_each(|number| cluster.put("pods", pod(number % PODS, (number / PODS + round).is_multiple_of(2))));
        }
    });
    // Node searches for packages in the script's folder and above.
    let there = TempDir::new_in(&tools).unwrap();
    for name in ["browser.mjs", "large.mjs"] {
        fs::copy(manifest.join("../../tests/javascript").join(name), there.path().join(name)).unwrap();
    }
    let mut travelling = Command::new(node);
    travelling.arg(there.path().join("large.mjs")).args([&running.link, SECONDS]);
    let output = spawn_blocking(move || travelling.output()).await.unwrap().unwrap();
    changing.abort();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}
