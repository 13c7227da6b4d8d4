//! The machine of a run, read from `/proc`.

use std::fs::read_to_string;

use super::Machine;

impl Machine {
    /// Describes this machine as it is now. A value that cannot be read becomes "unknown" or 0.
    pub fn detect() -> Self {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let load = read_to_string("/proc/loadavg").unwrap_or_default();
        let kib: f64 = field(&memory, "MemTotal").and_then(first).unwrap_or(0.0);
        Self {
            processor: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            memory_gib: kib / f64::from(1 << 20),
            load: first(&load).unwrap_or(0.0),
        }
    }

    /// Returns the description as text.
    pub fn description(&self) -> String {
        format!(
            "{}, {} processors, {:.0} GiB, Linux {}, load average {:.2} at the start",
            self.processor, self.processors, self.memory_gib, self.kernel, self.load
        )
    }
}

/// Returns the first value of this name in lines of the form `name : value`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

fn first(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: Some: processor\nMemTotal:  2097152 kB\n";
        assert_eq!(field(text, "model name"), Some("Some: processor"));
        assert_eq!(field(text, "MemTotal").and_then(first), Some(2_097_152.0));
        assert_eq!(field(text, "name"), None);
    }
}
