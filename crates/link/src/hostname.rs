//! The name of this host, for people who look at a list of agents.

/// What `hostname` prints; `None` where the kernel does not show it.
#[must_use]
pub fn hostname() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
