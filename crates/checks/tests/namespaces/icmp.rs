//! Rights, loss, refusals near and far, and our own full buffer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use civ_checks::{Blame, Code, IcmpMode, Outcome, Sweep, Verdict};
use socket2::{Domain, Protocol, Socket, Type};

use crate::stage::{Rights, engine, inside, ping};

const SHORT: Duration = Duration::from_millis(700);

#[track_caller]
fn expect(outcome: &Outcome, code: Code, fact: &str) {
    assert_eq!(outcome.verdict.code(), Some(code), "{}", outcome.detail);
    assert!(outcome.detail.contains(fact), "{}", outcome.detail);
}

async fn both_families_pass(socket: &str) {
    let engine = engine(SHORT);
    for target in ["127.0.0.1", "::1"] {
        let outcome = ping(&engine, target).await;
        assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
        let mode = format!("socket={socket}");
        assert!(outcome.detail.contains("received=3"), "{}", outcome.detail);
        assert!(outcome.detail.contains(&mode), "{}", outcome.detail);
        // By the kernel's clock a round trip over loopback is far below this.
        assert!(outcome.latency.unwrap() < Duration::from_millis(20));
    }
}

#[test]
fn ping_sockets_serve_where_only_they_are_allowed() {
    let name = "icmp::ping_sockets_serve_where_only_they_are_allowed";
    inside(name, Rights::Datagram, "", || {
        both_families_pass("datagram")
    });
}

#[test]
fn raw_sockets_serve_where_only_they_are_allowed() {
    let name = "icmp::raw_sockets_serve_where_only_they_are_allowed";
    inside(name, Rights::Raw, "", || both_families_pass("raw"));
}

#[test]
fn without_rights_a_check_says_what_to_set() {
    let name = "icmp::without_rights_a_check_says_what_to_set";
    inside(name, Rights::None, "", || async {
        let engine = engine(SHORT);
        let outcome = ping(&engine, "127.0.0.1").await;
        expect(&outcome, Code::Permission, "net.ipv4.ping_group_range");
        assert_eq!(outcome.verdict, Verdict::Inconclusive(Code::Permission));
        assert_eq!(outcome.blame, Some(Blame::Ourselves));
        assert!(matches!(engine.icmp_mode(), IcmpMode::None { .. }));
        let error = engine.sweep(&sweep(1, 1)).await.unwrap_err();
        assert_eq!(error.code, Code::Permission);
    });
}

/// A sweep of so many addresses of loopback.
fn sweep(addresses: u16, count: u16) -> Sweep {
    let address = |index: u16| IpAddr::from([127, 1, (index >> 8) as u8, (index & 0xff) as u8]);
    Sweep {
        targets: (1..=addresses).map(address).collect(),
        source: None,
        count,
        interval: Duration::from_millis(20),
        wait: Duration::from_millis(500),
    }
}

async fn sweeps_lose_nothing() {
    let engine = engine(SHORT);
    let rows = engine.sweep(&sweep(3000, 3)).await.unwrap();
    assert_eq!(rows.len(), 3000);
    for row in &rows {
        assert_eq!((row.sent, row.received), (3, 3), "{row:?}");
        assert_eq!(row.trips.len(), 3);
    }
}

#[test]
fn a_sweep_over_ping_sockets_loses_nothing() {
    let name = "icmp::a_sweep_over_ping_sockets_loses_nothing";
    inside(name, Rights::Datagram, "", sweeps_lose_nothing);
}

#[test]
fn a_sweep_over_raw_sockets_loses_nothing() {
    let name = "icmp::a_sweep_over_raw_sockets_loses_nothing";
    inside(name, Rights::Raw, "", sweeps_lose_nothing);
}

#[test]
fn sequences_wrap_without_losing_a_reply() {
    let name = "icmp::sequences_wrap_without_losing_a_reply";
    inside(name, Rights::Datagram, "", || async {
        let all = Sweep {
            interval: Duration::ZERO,
            ..sweep(2, 40_000)
        };
        let rows = engine(SHORT).sweep(&all).await.unwrap();
        for row in &rows {
            assert_eq!((row.sent, row.received), (40_000, 40_000), "{:?}", row.code);
        }
    });
}

/// One reply of three is lost, and an address whose replies are all lost.
const LOSSY: &str = "nft -f - <<END
table ip t { chain in_ { type filter hook input priority 0;
  ip saddr 127.0.0.2 icmp type echo-reply drop
  ip saddr 127.1.0.0/16 icmp type echo-reply numgen random mod 100 < 30 drop
}
}
END";

#[test]
fn loss_on_the_way_is_loss() {
    let name = "icmp::loss_on_the_way_is_loss";
    inside(name, Rights::Raw, LOSSY, || async {
        let engine = engine(SHORT);
        let outcome = ping(&engine, "127.0.0.2").await;
        expect(&outcome, Code::TimeoutRead, "sent=3 received=0 loss=100%");
        assert_eq!(outcome.blame, Some(Blame::Path));
        let rows = engine.sweep(&sweep(500, 4)).await.unwrap();
        let received: u32 = rows.iter().map(|row| row.received).sum();
        assert!((1250..1550).contains(&received), "{received} of 2000");
        assert!(rows.iter().all(|row| row.sent == 4 && row.undecided == 0));
    });
}

const REJECTING: &str = "nft -f - <<END
table ip t { chain in_ { type filter hook input priority 0;
  icmp type != echo-request accept
  ip daddr 127.0.0.11 reject with icmp type host-unreachable
  ip daddr 127.0.0.12 reject with icmp type net-unreachable
  ip daddr 127.0.0.13 reject with icmp type admin-prohibited
}
}
table ip6 t { chain in_ { type filter hook input priority 0;
  icmpv6 type != echo-request accept
  ip6 daddr fd00::11 reject with icmpv6 type addr-unreachable
  ip6 daddr fd00::12 reject with icmpv6 type no-route
  ip6 daddr fd00::13 reject with icmpv6 type admin-prohibited
}
}
END
for last in 11 12 13; do ip addr add fd00::$last/128 dev lo; done";

async fn rejects_are_told_apart() {
    let engine = engine(SHORT);
    let codes = [
        (11, Code::UnreachableHost),
        (12, Code::UnreachableNet),
        (13, Code::AdminProhibited),
    ];
    for (last, code) in codes {
        for target in [format!("127.0.0.{last}"), format!("fd00::{last}")] {
            let outcome = ping(&engine, &target).await;
            expect(&outcome, code, &format!("reported by {target}"));
            assert_eq!(outcome.blame, Some(Blame::Path));
            assert!(outcome.duration < SHORT, "an error needs no waiting");
        }
    }
}

#[test]
fn rejects_are_told_apart_on_raw_sockets() {
    let name = "icmp::rejects_are_told_apart_on_raw_sockets";
    inside(name, Rights::Raw, REJECTING, rejects_are_told_apart);
}

#[test]
fn rejects_are_told_apart_on_ping_sockets() {
    let name = "icmp::rejects_are_told_apart_on_ping_sockets";
    inside(name, Rights::Datagram, REJECTING, rejects_are_told_apart);
}

const REFUSING: &str = "nft -f - <<END
table ip t { chain out_ { type filter hook output priority 0;
  ip daddr 127.0.0.21 drop
}
}
END
ip route add prohibit 192.0.2.1; ip route add unreachable 192.0.2.2
ip route add blackhole 192.0.2.3";

async fn refusals_of_this_host_are_told_apart() {
    let engine = engine(SHORT);
    let expected = [
        (
            "127.0.0.21",
            Code::Permission,
            "a packet filter of this host",
        ),
        ("192.0.2.1", Code::Permission, "prohibits"),
        ("192.0.2.2", Code::UnreachableHost, "no route on this host"),
        ("192.0.2.3", Code::Internal, "throws it away"),
        ("192.0.2.4", Code::UnreachableNet, "no route on this host"),
    ];
    for (target, code, fact) in expected {
        expect(&ping(&engine, target).await, code, fact);
    }
    // They say nothing about the next one.
    let outcome = ping(&engine, "127.0.0.1").await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
}

#[test]
fn refusals_of_this_host_are_told_apart_on_raw_sockets() {
    let name = "icmp::refusals_of_this_host_are_told_apart_on_raw_sockets";
    let test = refusals_of_this_host_are_told_apart;
    inside(name, Rights::Raw, REFUSING, test);
}

#[test]
fn refusals_of_this_host_are_told_apart_on_ping_sockets() {
    let name = "icmp::refusals_of_this_host_are_told_apart_on_ping_sockets";
    let test = refusals_of_this_host_are_told_apart;
    inside(name, Rights::Datagram, REFUSING, test);
}

/// Fills every raw socket of this namespace with replies that nobody asked for.
fn flood(packets: u32) {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
    let to: SocketAddr = "127.0.0.1:0".parse().unwrap();
    // An echo reply with numbers of nobody.
    let mut packet = [0_u8; 64];
    packet[2..4].copy_from_slice(&[0xff, 0xff]);
    for _ in 0..packets {
        socket.send_to(&packet, &to.into()).unwrap();
    }
}

#[test]
fn what_our_own_buffer_lost_is_not_held_against_the_address() {
    let name = "icmp::what_our_own_buffer_lost_is_not_held_against_the_address";
    inside(name, Rights::Raw, LOSSY, || async {
        let engine = engine(SHORT);
        let check = ping(&engine, "127.0.0.2");
        tokio::pin!(check);
        // The first echoes are under way; nothing is read while this thread floods.
        let early = tokio::time::timeout(Duration::from_millis(50), &mut check).await;
        assert!(early.is_err(), "nobody answers");
        flood(20_000);
        let outcome = check.await;
        expect(&outcome, Code::Internal, "our own receive buffer");
        assert_eq!(outcome.verdict, Verdict::Inconclusive(Code::Internal));
        assert_eq!(outcome.blame, Some(Blame::Ourselves));
    });
}

#[test]
fn a_large_buffer_lives_through_what_a_small_one_does_not() {
    let name = "icmp::a_large_buffer_lives_through_what_a_small_one_does_not";
    inside(name, Rights::Admin, LOSSY, || async {
        let engine = engine(SHORT);
        let check = ping(&engine, "127.0.0.2");
        tokio::pin!(check);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut check).await;
        assert!(early.is_err(), "nobody answers");
        flood(2_000);
        expect(&check.await, Code::TimeoutRead, "received=0 loss=100%");
    });
}

#[test]
fn a_source_is_sent_from() {
    let name = "icmp::a_source_is_sent_from";
    let script = "nft -f - <<END
table ip t { chain in_ { type filter hook input priority 0;
  icmp type echo-request ip saddr != 127.0.0.9 drop
}
}
END";
    inside(name, Rights::Raw, script, || async {
        let engine = engine(SHORT);
        let mut check = crate::stage::check(civ_checks::Kind::Icmp, "127.0.0.1");
        check.source = Some(IpAddr::from([127, 0, 0, 9]));
        let outcome = engine.run(&check).await;
        assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
        check.source = Some(IpAddr::from([127, 0, 0, 8]));
        expect(&engine.run(&check).await, Code::TimeoutRead, "received=0");
        check.source = Some(IpAddr::from([192, 0, 2, 1]));
        expect(
            &engine.run(&check).await,
            Code::SourceUnavailable,
            "192.0.2.1",
        );
    });
}

/// Two routers behind one another and a target behind both: 10.9.1.2, 10.9.2.2, 10.9.3.2.
const CHAIN: &str = "for n in r1 r2 peer; do ip netns add $n; ip -n $n link set lo up; done
link() { ip link add l$3 netns $1 type veth peer name m$3 netns $2
  ip -n $1 addr add 10.9.$3.1/24 dev l$3; ip -n $1 link set l$3 up
  ip -n $2 addr add 10.9.$3.2/24 dev m$3; ip -n $2 link set m$3 up; }
ip link add l1 type veth peer name m1 netns r1
ip addr add 10.9.1.1/24 dev l1; ip link set l1 up
ip -n r1 addr add 10.9.1.2/24 dev m1; ip -n r1 link set m1 up
link r1 r2 2; link r2 peer 3
ip route add default via 10.9.1.2; ip -n r1 route add default via 10.9.2.2
ip -n r2 route add 10.9.1.0/24 via 10.9.2.1; ip -n r2 route add default via 10.9.2.1
ip -n peer route add default via 10.9.3.1
for n in r1 r2 peer; do ip netns exec $n sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward
  echo 0 > /proc/sys/net/ipv4/icmp_ratelimit
  for f in /proc/sys/net/ipv4/conf/*/send_redirects; do echo 0 > $f; done'; done";

async fn paths_are_told() {
    let engine = engine(SHORT);
    let outcome = ping(&engine, "10.9.3.2").await;
    assert_eq!(outcome.verdict, Verdict::Passed, "{}", outcome.detail);
    // The two routers point at each other for everything else.
    let outcome = ping(&engine, "203.0.113.1").await;
    expect(&outcome, Code::TtlExceeded, "in a circle through 10.9.");
    assert_eq!(outcome.blame, Some(Blame::Path));
    // What the last router drops silently ends behind it.
    expect(
        &ping(&engine, "10.9.3.3").await,
        Code::TimeoutRead,
        "last hop 10.9.2.2 at 2",
    );
}

const DROPPING: &str = "ip netns exec r2 nft -f - <<END
table ip t { chain f { type filter hook forward priority 0;
  ip daddr 10.9.3.3 drop
}
}
END";

#[test]
fn paths_are_told_by_raw_sockets() {
    let name = "icmp::paths_are_told_by_raw_sockets";
    inside(
        name,
        Rights::Raw,
        &format!("{CHAIN}\n{DROPPING}"),
        paths_are_told,
    );
}

#[test]
fn paths_are_told_by_ping_sockets() {
    let name = "icmp::paths_are_told_by_ping_sockets";
    inside(
        name,
        Rights::Datagram,
        &format!("{CHAIN}\n{DROPPING}"),
        paths_are_told,
    );
}
