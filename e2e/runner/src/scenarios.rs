//! Owns the list of scenarios. Each is a file, and ends with the same audit.

mod acknowledged;
mod auto_cycle;
mod cancel;
mod crash;
mod fail;
mod happy_path;
mod identity;
mod kill9;
mod kill9_ten;
mod late_data_plane;
mod no_timer;
mod occupied;
mod occupied_race;
mod partial;
mod release_cuts;
mod rivals;
mod scan;
mod self_check_retry;
mod stage_alone;
mod walk_through;

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Result;

use crate::stage::plan::Plan;
use crate::world::House;

/// How long a handful of addresses may take.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A story being played.
pub(crate) type Play<'a> = Pin<Box<dyn Future<Output = Result<String>> + 'a>>;

/// A story, and what it needs of the ground.
pub(crate) struct Scenario {
    /// Its name on the command line, in the table and of its folder.
    pub(crate) name: &'static str,
    /// Why loopback cannot carry it; `None`: it can.
    pub(crate) needs_packets: Option<&'static str>,
    /// Plays it and returns what there is to tell.
    pub(crate) play: for<'a> fn(&'a House) -> Play<'a>,
}

/// All scenarios, in the order in which they are played.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "stage_alone",
        needs_packets: Some("shows the router's NAT, and loopback has none"),
        play: |house| Box::pin(stage_alone::play(house)),
    },
    Scenario {
        name: "happy_path",
        needs_packets: None,
        play: |house| Box::pin(happy_path::play(house)),
    },
    Scenario {
        name: "no_timer",
        needs_packets: None,
        play: |house| Box::pin(no_timer::play(house)),
    },
    Scenario {
        name: "partial",
        needs_packets: None,
        play: |house| Box::pin(partial::play(house)),
    },
    Scenario {
        name: "identity",
        needs_packets: Some("needs a second host on an address, and loopback has one host"),
        play: |house| Box::pin(identity::play(house)),
    },
    Scenario {
        name: "fail",
        needs_packets: Some("needs packets to be lost, which loopback cannot do"),
        play: |house| Box::pin(fail::play(house)),
    },
    Scenario {
        name: "occupied",
        needs_packets: None,
        play: |house| Box::pin(occupied::play(house)),
    },
    Scenario {
        name: "occupied_race",
        needs_packets: None,
        play: |house| Box::pin(occupied_race::play(house)),
    },
    Scenario {
        name: "late_data_plane",
        needs_packets: None,
        play: |house| Box::pin(late_data_plane::play(house)),
    },
    Scenario {
        name: "self_check_retry",
        needs_packets: None,
        play: |house| Box::pin(self_check_retry::play(house)),
    },
    Scenario {
        name: "kill9",
        needs_packets: None,
        play: |house| Box::pin(kill9::play(house)),
    },
    Scenario {
        name: "kill9_ten",
        needs_packets: None,
        play: |house| Box::pin(kill9_ten::play(house)),
    },
    Scenario {
        name: "scan",
        needs_packets: None,
        play: |house| Box::pin(scan::play(house)),
    },
    Scenario {
        name: "auto_cycle",
        needs_packets: None,
        play: |house| Box::pin(auto_cycle::play(house)),
    },
    Scenario {
        name: "cancel",
        needs_packets: None,
        play: |house| Box::pin(cancel::play(house)),
    },
    Scenario {
        name: "rivals",
        needs_packets: None,
        play: |house| Box::pin(rivals::play(house)),
    },
    Scenario {
        name: "release_cuts",
        needs_packets: Some("needs the router's NAT and its connection tracking"),
        play: |house| Box::pin(release_cuts::play(house)),
    },
    Scenario {
        name: "walk_through",
        needs_packets: Some("its documentation address is none of this machine without NAT"),
        play: |house| Box::pin(walk_through::play(house)),
    },
];

/// What production does to a process, a disk and a file; played by `civ-e2e crash`.
pub(crate) const CRASHES: &[Scenario] = &[
    Scenario {
        name: "crash_remotes",
        needs_packets: None,
        play: |house| Box::pin(crash::remotes(house)),
    },
    Scenario {
        name: "crash_stopped",
        needs_packets: None,
        play: |house| Box::pin(crash::stopped(house)),
    },
    Scenario {
        name: "crash_disk_full",
        needs_packets: Some("mounts a small disk, which only namespaces allow"),
        play: |house| Box::pin(crash::disk_full(house)),
    },
    Scenario {
        name: "crash_read_only",
        needs_packets: Some("mounts a disk read-only, which only namespaces allow"),
        play: |house| Box::pin(crash::read_only(house)),
    },
    Scenario {
        name: "crash_torn_log",
        needs_packets: None,
        play: |house| Box::pin(crash::torn_log(house)),
    },
];

/// The first `n` floating addresses.
pub(crate) fn floats(plan: &Plan, n: u8) -> Vec<Ipv4Addr> {
    (0..n).map(|i| plan.floating(i)).collect()
}

/// The same result for all of them.
pub(crate) fn all_are<'a>(addresses: &[Ipv4Addr], result: &'a str) -> Vec<(Ipv4Addr, &'a str)> {
    addresses.iter().map(|address| (*address, result)).collect()
}
