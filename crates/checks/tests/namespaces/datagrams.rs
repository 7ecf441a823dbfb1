//! What routers say about datagrams.

use std::time::Duration;

use civ_checks::{Code, Kind};

use crate::stage::{Rights, check, engine, inside};

const REJECTING: &str = "nft -f - <<END
table inet t { chain in_ { type filter hook input priority 0;
  meta l4proto != udp accept
  ip daddr 127.0.0.11 reject with icmp type host-unreachable
  ip daddr 127.0.0.12 reject with icmp type net-unreachable
  ip daddr 127.0.0.13 reject with icmp type admin-prohibited
  ip6 daddr fd00::11 reject with icmpv6 type addr-unreachable
  ip6 daddr fd00::12 reject with icmpv6 type no-route
  ip6 daddr fd00::13 reject with icmpv6 type admin-prohibited
}
}
END
for last in 11 12 13 14; do ip addr add fd00::$last/128 dev lo; done";

#[test]
fn rejects_of_datagrams_are_told_apart() {
    let name = "datagrams::rejects_of_datagrams_are_told_apart";
    inside(name, Rights::None, REJECTING, || async {
        let engine = engine(Duration::from_millis(700));
        for (last, code) in [
            (11, Code::UnreachableHost),
            (12, Code::UnreachableNet),
            (13, Code::AdminProhibited),
            (14, Code::Refused),
        ] {
            for server in [format!("127.0.0.{last}"), format!("[fd00::{last}]:53")] {
                let target = format!("{server}/example.org");
                let outcome = engine.run(&check(Kind::Dns, &target)).await;
                assert_eq!(outcome.verdict.code(), Some(code), "{}", outcome.detail);
                assert!(outcome.detail.contains(": ICMP "), "{}", outcome.detail);
            }
        }
    });
}
