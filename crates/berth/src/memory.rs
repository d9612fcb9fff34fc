//! The memory of the machine, and the share that the process uses.

use berth_registry::Pressure;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The quota where the machine does not report its memory: etcd's default.
const QUOTA_BYTES: u64 = 2 << 30;

/// The shortest and the longest interval between reads of the process's memory. Ten reads a second would be most of the work of an idle
/// server.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Memory below the watermark that takes more than a second to fill, in bytes. An object takes about four times its bytes, so 20,000
/// creates of 1 KiB a second fill less than a twentieth of it.
const FILLED_IN_A_SECOND: u64 = 2 << 30;

/// The default quota in bytes. An object takes about four times its bytes, for the controllers' views and for copies during processing.
pub(crate) fn default_quota() -> u64 {
    available(Path::new("/")).map_or(QUOTA_BYTES, |bytes| bytes / 8)
}

/// The default limit of the process's memory in bytes. `None`: the machine does not report its memory.
pub(crate) fn default_watermark() -> Option<u64> {
    available(Path::new("/")).map(|bytes| bytes / 4 * 3)
}

/// Reports the process's memory to `pressure` for as long as the runtime lives.
pub(crate) fn watch(pressure: Pressure, watermark: u64) {
    tokio::spawn(async move {
        loop {
            let used = resident(Path::new("/"));
            if let Some(used) = used {
                pressure.set(used, watermark);
            }
            tokio::time::sleep(until_next_read(used, watermark)).await;
        }
    });
}

/// How long even a flood of writes cannot fill the remaining memory. A process with plenty of memory rarely wakes up.
fn until_next_read(used: Option<u64>, watermark: u64) -> Duration {
    let left = used.map_or(0, |used| watermark.saturating_sub(used));
    INTERVAL.1.mul_f64(left as f64 / FILLED_IN_A_SECOND as f64).clamp(INTERVAL.0, INTERVAL.1)
}

/// This process's memory in bytes. `None`: the machine does not report it.
pub(crate) fn of_this_process() -> Option<u64> {
    resident(Path::new("/"))
}

/// The memory that the process uses, in bytes.
fn resident(root: &Path) -> Option<u64> {
    kilobytes(&fs::read_to_string(root.join("proc/self/status")).ok()?, "VmRSS:")
}

/// The memory that the machine has or that the cgroups allow, in bytes.
fn available(root: &Path) -> Option<u64> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| kilobytes(&text, "MemTotal:"));
    machine.into_iter().chain(allowed(root)).min()
}

/// The value of a line `Name:   123 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limits of the process's cgroup and of its ancestors, in both versions of cgroups.
fn allowed(root: &Path) -> Vec<u64> {
    let lines = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let read = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let mut found = Vec::new();
    for line in lines.lines() {
        // `0::/path` is version 2; `7:memory:/path` version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (folder, file) = match controllers {
            "" => (root.join("sys/fs/cgroup"), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // A container sees its own cgroup as the root. The path is then invisible, and only the root has the limit.
        let path = Path::new(path.trim_start_matches('/'));
        found.extend(path.ancestors().filter_map(|above| read(folder.join(above).join(file))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_machine_and_cgroups_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            fs::write(file, text).expect("written");
        };
        assert_eq!(available(root.path()), None);
        write("proc/meminfo", "MemTotal:       16000 kB\nMemFree:  5 kB\n");
        assert_eq!(available(root.path()), Some(16_000 << 10));
        write("proc/self/cgroup", "0::/user.slice/a.scope\n");
        write("sys/fs/cgroup/user.slice/a.scope/memory.max", "max\n");
        assert_eq!(available(root.path()), Some(16_000 << 10));
        write("sys/fs/cgroup/user.slice/memory.max", "9000000\n");
        assert_eq!(available(root.path()), Some(9_000_000));
        write("sys/fs/cgroup/memory.max", "8000000\n");
        assert_eq!(available(root.path()), Some(8_000_000));
        write("proc/self/cgroup", "7:cpu:/x\n4:memory:/docker/abc\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");
        assert_eq!(available(root.path()), Some(7_000_000));
        write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(available(root.path()), Some(7_000_000));
    }

    #[test]
    fn the_less_memory_is_left_the_sooner_is_the_next_read() {
        const GIB: u64 = 1 << 30;
        assert_eq!(until_next_read(Some(GIB), 16 * GIB), Duration::from_secs(1));
        assert_eq!(until_next_read(Some(15 * GIB), 16 * GIB), Duration::from_millis(500));
        assert_eq!(until_next_read(Some(16 * GIB - GIB / 2), 16 * GIB), Duration::from_millis(250));
        for used in [Some(16 * GIB), Some(20 * GIB), None] {
            assert_eq!(until_next_read(used, 16 * GIB), Duration::from_millis(100), "{used:?}");
        }
    }

    #[test]
    fn the_process_s_own_memory_is_read() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("proc/self")).expect("made");
        fs::write(root.path().join("proc/self/status"), "Name:\tberth\nVmRSS:\t   46000 kB\nRssAnon: 1 kB\n").expect("written");
        assert_eq!(resident(root.path()), Some(46_000 << 10));
    }
}
