//! The cases of what lies on the way and of this host itself: packets, routes, names, rights.

use super::case::Fault::{Client, Route, Router, RouterOut};
use super::case::{Asker, Case, SHORT, fails, passes, unsure};
use super::scripted::Act;

pub(super) const CASES: &[Case] = &[
    passes(
        "icmp_ping_socket",
        ("icmp", "{A}"),
        "probe",
        "socket=datagram",
    ),
    Case {
        asker: Asker::Raw,
        ..passes("icmp_raw_only", ("icmp", "{A}"), "probe", "socket=raw")
    },
    Case {
        asker: Asker::Neither,
        ..unsure(
            "icmp_neither",
            ("icmp", "{A}"),
            (
                "permission",
                "prepare",
                "ourselves",
                "net.ipv4.ping_group_range",
            ),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} icmp type echo-request numgen inc mod 3 != 0 drop",
        )],
        ..passes(
            "icmp_loss_of_two_in_three",
            ("icmp", "{A}"),
            "probe",
            "loss=66%",
        )
    },
    Case {
        faults: &[Router("ip daddr {A} drop")],
        args: SHORT,
        ..fails(
            "icmp_all_lost",
            ("icmp", "{A}"),
            (
                "timeout_read",
                "probe",
                "path",
                "loss=100% socket=datagram path: last hop 10.1.",
            ),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} reject with icmp type host-unreachable",
        )],
        ..fails(
            "icmp_host_unreachable",
            ("icmp", "{A}"),
            ("unreachable_host", "probe", "path", "reported by 10.1."),
        )
    },
    Case {
        faults: &[Router("ip daddr {A} reject with icmp type net-unreachable")],
        ..fails(
            "icmp_net_unreachable",
            ("icmp", "{A}"),
            ("unreachable_net", "probe", "path", "reported by 10.1."),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} reject with icmp type admin-prohibited",
        )],
        ..fails(
            "icmp_prohibited",
            ("icmp", "{A}"),
            ("admin_prohibited", "probe", "path", "reported by 10.1."),
        )
    },
    Case {
        faults: &[
            Router("ip daddr {A} reject with icmp type admin-prohibited"),
            RouterOut("icmp type destination-unreachable @th,192,32 {X} icmp code set 4"),
        ],
        ..fails(
            "icmp_mtu_hole",
            ("icmp", "{A}"),
            ("packet_too_big", "probe", "path", "reported by 10.1."),
        )
    },
    fails(
        "icmp_ttl_loop",
        ("icmp", "203.0.113.{N}"),
        ("ttl_exceeded", "probe", "path", "in a circle through 10."),
    ),
    Case {
        faults: &[Client("ip daddr {A} drop")],
        ..unsure(
            "icmp_own_filter",
            ("icmp", "{A}"),
            (
                "permission",
                "probe",
                "ourselves",
                "a packet filter of this host",
            ),
        )
    },
    Case {
        faults: &[Client("ip daddr {A} drop")],
        asker: Asker::Raw,
        ..unsure(
            "icmp_own_filter_raw",
            ("icmp", "{A}"),
            (
                "permission",
                "probe",
                "ourselves",
                "a packet filter of this host",
            ),
        )
    },
    Case {
        faults: &[Route("throw {A}")],
        ..fails(
            "icmp_no_route",
            ("icmp", "{A}"),
            ("unreachable_net", "probe", "path", "no route on this host"),
        )
    },
    Case {
        faults: &[Router(
            "ip6 daddr {6} reject with icmpv6 type admin-prohibited",
        )],
        ..fails(
            "icmp6_prohibited",
            ("icmp", "{6}"),
            ("admin_prohibited", "probe", "path", "reported by fd00:1"),
        )
    },
    Case {
        faults: &[Router("ip daddr {A} drop")],
        args: SHORT,
        ..fails(
            "tcp_dropped",
            ("tcp", "{A}:22"),
            ("timeout_connect", "connect", "path", "no answer after"),
        )
    },
    fails(
        "tcp_closed_port",
        ("tcp", "{A}:1"),
        ("refused", "connect", "target", "refused"),
    ),
    passes(
        "closed_port_is_closed",
        ("closed-1", "{A}"),
        "connect",
        "refused",
    ),
    fails(
        "closed_port_is_open",
        ("closed-22", "{A}"),
        ("unexpectedly_open", "exchange", "target", "connect="),
    ),
    Case {
        faults: &[Router(
            "ip daddr {A} meta l4proto tcp reject with tcp reset",
        )],
        ..fails(
            "tcp_reset_by_the_router",
            ("tcp", "{A}:22"),
            ("refused", "connect", "target", "refused"),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} reject with icmp type port-unreachable",
        )],
        ..fails(
            "tcp_port_unreachable",
            ("tcp", "{A}:22"),
            ("refused", "connect", "target", "ICMP 3/3 from 10.1."),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} reject with icmp type host-unreachable",
        )],
        ..fails(
            "tcp_host_unreachable",
            ("tcp", "{A}:22"),
            ("unreachable_host", "connect", "path", "ICMP 3/1 from 10.1."),
        )
    },
    Case {
        faults: &[Router("ip daddr {A} reject with icmp type net-unreachable")],
        ..fails(
            "tcp_net_unreachable",
            ("tcp", "{A}:22"),
            ("unreachable_net", "connect", "path", "ICMP 3/0 from 10.1."),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} reject with icmp type admin-prohibited",
        )],
        ..fails(
            "tcp_prohibited",
            ("tcp", "{A}:22"),
            (
                "admin_prohibited",
                "connect",
                "path",
                "ICMP 3/13 from 10.1.",
            ),
        )
    },
    Case {
        faults: &[Router(
            "ip6 daddr {6} reject with icmpv6 type admin-prohibited",
        )],
        ..fails(
            "tcp6_prohibited",
            ("tcp", "[{6}]:22"),
            (
                "admin_prohibited",
                "connect",
                "path",
                "ICMP 1/1 from fd00:1",
            ),
        )
    },
    fails(
        "tcp_ttl_loop",
        ("tcp", "203.0.113.{N}:22"),
        ("ttl_exceeded", "connect", "path", "ICMP 11/0 from 10."),
    ),
    fails(
        "tcp_nobody_at_the_address",
        ("tcp", "10.2.0.99:22"),
        ("unreachable_host", "connect", "path", "ICMP 3/1 from 10.1."),
    ),
    fails(
        "tcp_router_without_route",
        ("tcp", "192.0.2.{N}:22"),
        ("unreachable_net", "connect", "path", "ICMP 3/0 from 10.1."),
    ),
    Case {
        faults: &[Route("throw {A}")],
        ..fails(
            "tcp_no_route",
            ("tcp", "{A}:22"),
            ("unreachable_net", "connect", "path", "unreachable"),
        )
    },
    Case {
        faults: &[Route("prohibit {A}")],
        ..unsure(
            "tcp_own_route_prohibits",
            ("tcp", "{A}:22"),
            ("permission", "connect", "ourselves", "Permission denied"),
        )
    },
    Case {
        asker: Asker::Descriptors(6),
        ..unsure(
            "no_descriptors",
            ("tcp", "{A}:22"),
            ("internal", "prepare", "ourselves", "no descriptors left"),
        )
    },
    Case {
        args: &["--source", "192.0.2.77"],
        ..unsure(
            "source_of_nobody",
            ("tcp", "{A}:22"),
            ("source_unavailable", "connect", "ourselves", "192.0.2.77"),
        )
    },
    Case {
        asker: Asker::StandsStill,
        faults: &[Router("ip daddr {A} drop")],
        args: SHORT,
        ..unsure(
            "process_stands_still",
            ("tcp", "{A}:7"),
            ("overloaded", "connect", "ourselves", "this process came"),
        )
    },
    Case {
        args: &["--timeout", "4"],
        ..fails(
            "resolver_is_dead",
            ("tcp", "c{N}.dead.lab:22"),
            ("dns_failed", "resolve", "resolver", "c{N}.dead.lab"),
        )
    },
    fails(
        "name_of_the_other_family",
        ("tcp", "c{N}.six.lab:22"),
        (
            "no_address_in_family",
            "resolve",
            "target",
            "1 of the other family",
        ),
    ),
    Case {
        peer: Some(Act::Flags([0x81, 0x80])),
        ..passes(
            "dns_answers",
            ("dns", "{A}:7/example.org"),
            "probe",
            "over=udp",
        )
    },
    Case {
        peer: Some(Act::Flags([0x81, 0x85])),
        ..fails(
            "dns_refuses",
            ("dns", "{A}:7/example.org"),
            ("dns_answer:refused", "probe", "target", "over=udp"),
        )
    },
    Case {
        peer: Some(Act::Echoes),
        ..fails(
            "dns_nonsense",
            ("dns", "{A}:7/example.org"),
            ("not_dns", "probe", "target", "shorter than a header"),
        )
    },
    Case {
        faults: &[Router("ip daddr {A} drop")],
        args: SHORT,
        ..fails(
            "dns_dropped",
            ("dns", "{A}/example.org"),
            ("timeout_read", "probe", "path", "though it was repeated"),
        )
    },
    fails(
        "dns_closed_port",
        ("dns", "{A}/example.org"),
        ("refused", "probe", "target", "ICMP 3/3 from {A}"),
    ),
    Case {
        faults: &[Router(
            "ip daddr {A} reject with icmp type admin-prohibited",
        )],
        ..fails(
            "dns_prohibited",
            ("dns", "{A}/example.org"),
            ("admin_prohibited", "probe", "path", "ICMP 3/13 from 10.1."),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} reject with icmp type host-unreachable",
        )],
        ..fails(
            "dns_host_unreachable",
            ("dns", "{A}/example.org"),
            ("unreachable_host", "probe", "path", "ICMP 3/1 from 10.1."),
        )
    },
    fails(
        "dns_ttl_loop",
        ("dns", "203.0.113.{N}/example.org"),
        ("ttl_exceeded", "probe", "path", "ICMP 11/0 from 10."),
    ),
    Case {
        faults: &[Client("ip daddr {A} drop")],
        ..unsure(
            "dns_own_filter",
            ("dns", "{A}/example.org"),
            ("permission", "probe", "ourselves", "not permitted"),
        )
    },
];
