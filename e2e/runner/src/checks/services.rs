//! The cases of what answers at the other end: SSH, TLS and HTTP servers, real and scripted.

use super::case::Fault::Router;
use super::case::{Case, SHORT, fails, passes, unsure};
use super::scripted::Act;

/// TLS 1.0's server hello with `TLS_RSA_WITH_AES_128_CBC_SHA`, as appliances of that time send it.
const HELLO_OF_1999: &[u8] = b"\x16\x03\x01\x00\x2a\x02\x00\x00\x26\x03\x01\
    0123456789abcdef0123456789abcdef\x00\x00\x2f\x00";
/// The beginning of an answer whose end never comes.
const SLOW_PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";

pub(super) const CASES: &[Case] = &[
    passes(
        "ssh_openssh",
        ("ssh", "{A}"),
        "exchange",
        "SSH-2.0-OpenSSH_",
    ),
    Case {
        needs: Some("dropbear"),
        ..passes(
            "ssh_dropbear",
            ("ssh", "{A}:2222"),
            "exchange",
            "SSH-2.0-dropbear",
        )
    },
    Case {
        peer: Some(Act::Relays(b"")),
        ..passes(
            "ssh_segments_of_one_byte",
            ("ssh", "{A}:7"),
            "exchange",
            "SSH-2.0-OpenSSH_",
        )
    },
    Case {
        peer: Some(Act::Relays(b"Welcome.\r\nAuthorised use only.\r\n")),
        ..passes(
            "ssh_prelude_lines",
            ("ssh", "{A}:7"),
            "exchange",
            "prelude_lines=2",
        )
    },
    unsure(
        "ssh_max_startups",
        ("ssh", "{A}:2022"),
        ("server_busy", "exchange", "target", "Exceeded MaxStartups"),
    ),
    Case {
        peer: Some(Act::Silent),
        args: SHORT,
        ..fails(
            "ssh_tarpit",
            ("ssh", "{A}:7"),
            (
                "timeout_read",
                "exchange",
                "target",
                "before an SSH identification",
            ),
        )
    },
    Case {
        peer: Some(Act::Drips(b"dripping\r\n")),
        args: SHORT,
        ..fails(
            "ssh_tarpit_that_drips",
            ("ssh", "{A}:7"),
            (
                "not_ssh",
                "exchange",
                "target",
                "without an SSH identification",
            ),
        )
    },
    Case {
        peer: Some(Act::Closes),
        ..fails(
            "ssh_closed",
            ("ssh", "{A}:7"),
            (
                "closed_early",
                "exchange",
                "target",
                "before an SSH identification",
            ),
        )
    },
    Case {
        peer: Some(Act::Resets),
        ..fails(
            "ssh_reset",
            ("ssh", "{A}:7"),
            ("reset", "exchange", "target", "reset by peer"),
        )
    },
    Case {
        faults: &[Router(
            "ip daddr {A} tcp flags & (psh | ack) == psh | ack reject with tcp reset",
        )],
        ..fails(
            "ssh_reset_by_the_router",
            ("ssh", "{A}"),
            ("reset", "exchange", "target", "reset by peer"),
        )
    },
    Case {
        peer: Some(Act::Says(b"SSH-1.5-old\n")),
        ..fails(
            "ssh_version_1",
            ("ssh", "{A}:7"),
            ("ssh_v1_only", "exchange", "target", "SSH-1.5-old"),
        )
    },
    fails(
        "ssh_at_a_web_server",
        ("ssh", "{A}:80"),
        ("not_ssh", "exchange", "target", "HTTP/1.1 400"),
    ),
    passes("tls_openssl", ("tls", "{A}:4434"), "exchange", "TLS1.3"),
    passes(
        "tls_nginx",
        ("tls", "c{N}.ok.lab:443"),
        "exchange",
        "sni=c{N}.ok.lab",
    ),
    fails(
        "tls_1_0_only",
        ("tls", "{A}:4431"),
        (
            "tls_alert:protocol_version",
            "handshake",
            "target",
            "reachable, incompatible: TLS1.0",
        ),
    ),
    fails(
        "tls_rsa_key_exchange_only",
        ("tls", "{A}:4432"),
        (
            "tls_alert:handshake_failure",
            "handshake",
            "target",
            "reachable, incompatible: TLS1.2 TLS_RSA_WITH_AES_128_CBC_SHA",
        ),
    ),
    fails(
        "tls_wrong_name_openssl",
        ("tls", "c{N}.wrong.lab:4433"),
        (
            "tls_alert:unrecognized_name",
            "handshake",
            "target",
            "c{N}.wrong.lab",
        ),
    ),
    fails(
        "tls_wrong_name_nginx",
        ("tls", "c{N}.wrong.lab:8443"),
        (
            "tls_alert:unrecognized_name",
            "handshake",
            "target",
            "c{N}.wrong.lab",
        ),
    ),
    Case {
        peer: Some(Act::Answers(HELLO_OF_1999)),
        ..fails(
            "tls_hello_of_1999",
            ("tls", "{A}:7"),
            (
                "tls_failed",
                "handshake",
                "target",
                "reachable, incompatible: TLS1.0",
            ),
        )
    },
    fails(
        "tls_at_an_ssh_server",
        ("tls", "{A}:22"),
        ("not_tls", "handshake", "target", "TLS handshake"),
    ),
    Case {
        peer: Some(Act::Silent),
        args: SHORT,
        ..fails(
            "tls_tarpit",
            ("tls", "{A}:7"),
            ("timeout_read", "handshake", "target", "no answer after"),
        )
    },
    Case {
        // Small packets pass, so the connection stands; the server's flight never comes through.
        faults: &[Router("ip saddr {A} ip length > 400 drop")],
        args: SHORT,
        ..fails(
            "tls_mtu_hole",
            ("tls", "{A}:4434"),
            ("timeout_read", "handshake", "target", "no answer after"),
        )
    },
    passes(
        "https_nginx",
        ("https", "https://c{N}.ok.lab/"),
        "exchange",
        "200 https://c{N}.ok.lab/",
    ),
    fails(
        "https_wrong_name",
        ("https", "https://c{N}.wrong.lab/"),
        ("cert_invalid", "handshake", "target", "not valid for name"),
    ),
    fails(
        "http_at_an_ssh_server",
        ("http", "http://{A}:22/"),
        ("not_http", "exchange", "target", "HTTP exchange"),
    ),
    fails(
        "http_503",
        ("http", "http://{A}/503"),
        (
            "http_status:503",
            "exchange",
            "target",
            "503 http://{A}/503",
        ),
    ),
    fails(
        "http_451",
        ("http", "http://{A}/451"),
        ("http_geo_blocked", "exchange", "target", "status 451"),
    ),
    fails(
        "http_403_with_a_block_page",
        ("http", "http://{A}/blocked"),
        (
            "http_geo_blocked",
            "exchange",
            "target",
            "not available in your country",
        ),
    ),
    fails(
        "http_challenge",
        ("http", "http://{A}/challenge"),
        (
            "http_challenge",
            "exchange",
            "target",
            "as the answer itself says",
        ),
    ),
    fails(
        "http_redirect_loop",
        ("http", "http://{A}/round"),
        ("too_many_redirects", "exchange", "target", "more than 5"),
    ),
    Case {
        args: &["--options", r#"{"expect_body":"^nothing of the kind$"}"#],
        ..fails(
            "http_other_body",
            ("http", "http://{A}/"),
            ("body_mismatch", "exchange", "target", "in what was read"),
        )
    },
    fails(
        "http_no_answer",
        ("http", "http://{A}/drop"),
        ("closed_early", "exchange", "target", "HTTP exchange"),
    ),
    Case {
        peer: Some(Act::Drips(SLOW_PAGE)),
        args: SHORT,
        ..fails(
            "http_slow_drip",
            ("http", "http://{A}:7/"),
            ("timeout_read", "exchange", "target", "not complete"),
        )
    },
];
