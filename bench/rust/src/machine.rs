//! What the numbers were measured on.

use std::path::Path;
use std::process::Command;

fn first_line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}

/// Processor, cores, memory, kernel, compiler, SQLite, and the file system under `dir`; one `name: value` each.
pub fn describe(dir: &Path) -> Vec<(&'static str, String)> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": not told");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory: u64 = memory.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default();
    let rustc = Command::new("rustc")
        .arg("--version")
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    vec![
        ("cpu", format!("{}, {cores} cores, {} GiB", cpu.trim_start_matches([' ', '\t', ':']), memory >> 20)),
        ("kernel", first_line("/proc/sys/kernel/osrelease")),
        ("file system", file_system(dir)),
        ("rustc", rustc.unwrap_or_else(|_| "not found".to_owned())),
        ("SQLite", rusqlite::version().to_owned()),
    ]
}

/// Type and device of the file system that holds `dir`, as the kernel names them.
fn file_system(dir: &Path) -> String {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let found = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        dir.starts_with(place).then(|| (place.len(), format!("{kind} on {device}")))
    });
    found.max_by_key(|(len, _)| *len).map_or_else(|| "not told".to_owned(), |(_, text)| text)
}

/// The load averages over 1 and 5 minutes: other work on the machine shows here.
pub fn load() -> String {
    first_line("/proc/loadavg").split(' ').take(2).collect::<Vec<_>>().join(" and ")
}

/// Processor time this process has used, in seconds.
pub fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
