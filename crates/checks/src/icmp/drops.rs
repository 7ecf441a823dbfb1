//! How many packets the kernel threw away because our socket buffer was full.
//!
//! Read from `/proc/net`, since `SO_RXQ_OVFL` is never delivered on ping sockets.

use civ_types::Family;

/// Drops of this socket so far, or `None` where it is not listed.
pub(super) fn of_socket(descriptor: i32, family: Family, raw: bool) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    let inode = inode(link.to_str()?)?;
    let file = match (family, raw) {
        (Family::V4, false) => "/proc/net/icmp",
        (Family::V6, false) => "/proc/net/icmp6",
        (Family::V4, true) => "/proc/net/raw",
        (Family::V6, true) => "/proc/net/raw6",
    };
    in_table(&std::fs::read_to_string(file).ok()?, inode)
}

/// The number in `socket:[12345]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// Column `drops` of the line with that inode.
fn in_table(table: &str, inode: u64) -> Option<u64> {
    let inode = inode.to_string();
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let ours = columns.get(9).is_some_and(|column| *column == inode);
        if !ours {
            return None;
        }
        columns.get(12)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::{in_table, inode};

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout \
inode ref pointer drops
    1: 00000000:0001 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 \
69 2 0000000000000000 17
";

    #[test]
    fn drops_are_found_by_inode() {
        assert_eq!(inode("socket:[69]"), Some(69));
        assert_eq!(inode("/dev/null"), None);
        assert_eq!(in_table(TABLE, 69), Some(17));
        assert_eq!(in_table(TABLE, 70), None);
    }
}
