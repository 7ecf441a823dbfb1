#!/usr/bin/env python3
"""Records fuzz/seeds anew from real peers on loopback: sshd, dropbear, nginx, openssl s_server,
ping's form of echoes; what no local peer says is written here as bytes.

Wants the Debian packages openssl, openssh-server, openssh-client, dropbear-bin and nginx-light."""

import json
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

SEEDS = pathlib.Path(__file__).parent / "seeds"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def keep(target, name, data):
    data = data.encode() if isinstance(data, str) else data
    assert 0 < len(data) < 16384, (target, name, len(data))
    (SEEDS / target).mkdir(parents=True, exist_ok=True)
    (SEEDS / target / name).write_bytes(data)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def talk(port, says=b"", enough=65536, wait=3.0):
    """What a peer says within the time, once it listens."""
    end = time.monotonic() + 10
    while True:
        try:
            s = socket.create_connection(("127.0.0.1", port), 1)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    got = b""
    with s:
        s.settimeout(wait)
        s.sendall(says)
        try:
            while len(got) < enough and (piece := s.recv(4096)):
                got += piece
        except OSError:
            pass
    return got


class Peer:
    def __init__(self, *command):
        self.command = [str(word) for word in command]

    def __enter__(self):
        found = shutil.which(self.command[0], path=PATH)
        if not found:
            sys.exit(f"{self.command[0]} is not installed")
        quiet = subprocess.DEVNULL
        self.child = subprocess.Popen(
            [found, *self.command[1:]], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)

    def __exit__(self, *_error):
        self.child.terminate()
        self.child.wait()


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def ssh(folder):
    port, key = free_port(), folder / "host"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    with Peer("sshd", "-D", "-e", "-f", "/dev/null", "-p", port, "-h", key, "-o",
              "ListenAddress=127.0.0.1", "-o", "PidFile=none"):
        openssh = talk(port, b"SSH-2.0-seed\r\n", wait=1)
    keep("ssh", "openssh", openssh)
    keep("ssh", "prelude", b"Welcome\r\nall of you\n" + openssh)
    port, key = free_port(), folder / "dropbear"
    run("dropbearkey", "-t", "ed25519", "-f", key)
    with Peer("dropbear", "-F", "-E", "-p", f"127.0.0.1:{port}", "-r", key, "-P",
              folder / "pid"):
        keep("ssh", "dropbear", talk(port, b"SSH-2.0-seed\r\n", wait=1))
    keep("ssh", "version-1", "SSH-1.5-old\n")
    keep("ssh", "busy", "Exceeded MaxStartups\r\n")
    keep("ssh", "smtp", "220 mail.example.org ESMTP\r\n")


def client_hello(suites):
    body = b"\x03\x03" + b"\x07" * 32 + b"\0"
    listed = b"".join(struct.pack(">H", suite) for suite in suites)
    body += struct.pack(">H", len(listed)) + listed + b"\1\0"
    extensions = bytes.fromhex("000a00080006001d00170018000b00020100000d000a00080401040308040201")
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack(">H", len(message)) + message


def tls(folder):
    kinds = {"rsa": ["rsa:2048"], "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]}
    for kind, new in kinds.items():
        key, cert = folder / f"{kind}.key", folder / f"{kind}.pem"
        run("openssl", "req", "-x509", "-newkey", *new, "-nodes", "-keyout", key, "-out", cert,
            "-days", "3650", "-subj", f"/O=Seeds/CN={kind}.test", "-addext",
            f"subjectAltName=DNS:{kind}.test,IP:192.0.2.7,IP:2001:db8::7,email:a@b.test")
        der = folder / f"{kind}.der"
        run("openssl", "x509", "-in", cert, "-outform", "DER", "-out", der)
        keep("certificate", f"openssl-{kind}", der.read_bytes())
    suites = {"rsa": [0xC02F, 0x002F], "ec": [0xC02B, 0xC009]}
    for kind, options in [("rsa", ["-tls1_2"]), ("ec", ["-tls1_2"]), ("rsa", ["-tls1"]),
                          ("rsa", ["-tls1_3"])]:
        port = free_port()
        with Peer("openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert",
                  folder / f"{kind}.pem", "-key", folder / f"{kind}.key", "-quiet",
                  "-cipher", "ALL:@SECLEVEL=0", *options):
            said = talk(port, client_hello(suites[kind]), wait=1)
        keep("tls_hello", f"openssl-{kind}{options[0]}", said)
    keep("tls_hello", "http", "HTTP/1.1 400 Bad Request\r\n\r\n")
    keep("tls_hello", "alert-in-two", b"\x15\3\3\0\1\2\x15\3\3\0\1\x28")


def http(folder):
    port = free_port()
    folder.chmod(0o755)  # Its workers are another user's, if root starts it.
    (folder / "page").write_text("<title>seed</title>" * 30)
    (folder / "nginx.conf").write_text(f"""
        daemon off; pid {folder}/nginx.pid; error_log /dev/null; events {{}}
        http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
          fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
          server {{ listen 127.0.0.1:{port}; root {folder};
            location /to {{ return 302 https://b.test/z?q; }}
            location /law {{ return 451; }}
            location /gz {{ ssi on; alias {folder}/; index page; ssi_types *; }} }} }}""")
    ask = "GET {} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
    with Peer("nginx", "-c", folder / "nginx.conf", "-e", "/dev/null"):
        for name, path in {"page": "/page", "redirect": "/to", "legal": "/law",
                           "missing": "/none", "chunked": "/gz/"}.items():
            keep("http1", f"nginx-{name}", talk(port, ask.format(path).encode()))
        keep("http1", "nginx-bad", talk(port, b"\0\r\n\r\n"))
    no = "HTTP/1.1 403 Forbidden\r\nServer: cloudflare\r\n"
    keep("http1", "challenge", no + "cf-mitigated: challenge\r\nContent-Length: 0\r\n\r\n")
    keep("http1", "blocked", no + "\r\nThis is not available in your country")
    keep("http1", "continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    keep("http1", "chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         "3;a=b\r\nabc\r\n" + "12c\r\n" + "x" * 300 + "\r\n0\r\nTrailer: 1\r\n\r\n")

    def frame(kind, flags, stream, body=b""):
        return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(
            ">I", stream) + body
    settings = frame(4, 0, 0, bytes.fromhex("000300000080000400010000")) + frame(4, 1, 0)
    found = frame(1, 4, 1, b"\x88\x0f\x0d\x03abc"[:1])
    keep("http2", "page", settings + found + frame(0, 1, 1, b"hello"))
    keep("http2", "long", settings + found + frame(0, 0, 1, b"x" * 299) + frame(0, 1, 1, b"y"))
    keep("http2", "status", settings + frame(1, 5, 1, b"\x8d"))
    keep("http2", "redirect", settings + frame(1, 5, 1, b"\x08\x03302\x0f\x1f\x02/z"))
    keep("http2", "goaway", settings + frame(7, 0, 0, bytes(8) + b"bye"))
    keep("http2", "reset", settings + frame(3, 0, 1, b"\0\0\0\7"))
    keep("http2", "continued", settings + frame(1, 1, 1, b"\x88") + frame(9, 4, 1, b"\x61\1a"))
    keep("http2", "ping", settings + frame(6, 0, 0, b"12345678") + frame(8, 0, 0, b"\0\0\1\0"))


def dns():
    def name(text):
        return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".") if p) + b"\0"

    def message(asked, kind, records, flags=0x8180):
        head = struct.pack(">6H", 0x1234, flags, 1, len(records), 0, 0)
        rows = [b"\xc0\x0c" + struct.pack(">HHIH", k, 1, 60, len(d)) + d for k, d in records]
        return head + name(asked) + struct.pack(">HH", kind, 1) + b"".join(rows)
    four, six = bytes([192, 0, 2, 7]), bytes.fromhex("20010db8" + "00" * 11 + "07")
    keep("dns", "a", message("example.org", 1, [(5, b"\xc0\x0c"), (1, four), (1, four)]))
    keep("dns", "aaaa", message("example.org", 28, [(28, six)] * 6))
    keep("dns", "txt", message("example.org", 16, [(16, b"\x05v=\x1b\xff!")]))
    keep("dns", "mx", message("example.org", 15, [(15, b"\0\x0a\4mail\xc0\x0c")]))
    keep("dns", "root-ns", message("", 2, [(2, name("a.root-servers.net"))]))
    keep("dns", "nxdomain", message("example.org", 1, [], 0x8183))
    keep("dns", "truncated", message("example.org", 1, [(1, four)], 0x8380)[:-2])
    keep("dns", "question", "example.org?type=AAAA")


def icmp():
    def echo(kind, data):
        return bytes([kind, 0, 0, 0]) + struct.pack(">HH", 0x1234, 7) + data
    data = bytes(range(16, 72))
    header = bytes.fromhex("450000540000400040010000c0000207c6336401")
    keep("icmp", "reply", echo(0, data))
    keep("icmp", "reply-with-header", header + echo(0, data))
    keep("icmp", "reply-v6", echo(129, data))
    keep("icmp", "quoted", echo(8, data))
    keep("icmp", "quoted-short", echo(8, b""))
    keep("icmp", "quoted-v6", echo(128, data))
    keep("icmp", "unreachable", b"\3\x0d\0\0" + bytes(4) + header + echo(8, b""))
    keep("icmp", "options", b"\x4f" + header[1:] + bytes(40) + echo(0, data))


def texts():
    for name, body in {
        "plain": "203.0.113.7\n", "mapped": "::ffff:203.0.113.7", "six": "2001:db8::1",
        "json": '{"ip":"203.0.113.7","country":"XX"}', "page": "<html>203.0.113.7</html>",
        "two": "203.0.113.7 203.0.113.8",
    }.items():
        keep("ip_echo", name, body)
    keep("addresses", "all", "203.0.113.9\n203.0.113.0/30\n10.0.0.250-10.0.1.3\n2001:db8::/120\n"
         "::ffff:192.0.2.1\n10.0.0.0/8\n1.2.3\n::/0\n10.0.0.2-10.0.0.1\n::1-1.1.1.1\n")
    keep("addresses", "six", "2001:db8::1-2001:db8::ff\n2001:db8::/127\nffff::/1\n")
    keep("addresses", "around-mapped", "::ffff:10/80\n::/95\n::ffff:0:0/120\n")
    keep("addresses", "edges", "0.0.0.0/32\n255.255.255.255\n255.255.255.252-255.255.255.255\n")
    for name, text in {"check": "closed-65535", "id": "f-1", "time": "2026-01-02T03:04:05.6Z",
                       "offset": "2026-01-02T03:04:05+23:59"}.items():
        keep("words", name, text)
    row = {"ip_id": 42, "check_type": "https", "target": "https://a.test", "success": True,
           "latency_ms": 8.7, "detail": "200", "checked_at": "2026-01-02T03:04:05Z", "fence": 17}
    for name, body in {
        "results": {"results": [row], "fence": 4.2e1},
        "register": {"validator_id": "v1", "hostname": "vm", "capabilities": ["wait"]},
        "self-check": {"ip_id": 42.0, "detected_egress_ip": "203.0.113.1", "success": True},
        "event": {"event_type": "check_inconclusive", "ip_id": 1, "payload": "{}"},
        "inconclusive": {"check_type": "icmp", "target": "", "code": "permission"},
        "assignment": {"ip_id": 42, "ip_address": "203.0.113.10", "phase": "checking",
                       "check_config": [{"type": "https", "targets": ["a"], "options": {}}]},
        "addresses": {"addresses": ["203.0.113.0/30"]},
    }.items():
        keep("bodies", name, json.dumps(body))
    fip = {"id": "f-1", "floating_ip_address": "203.0.113.59", "floating_network_id": "n-1",
           "status": "DOWN", "port_id": None, "router_id": None, "revision_number": 3,
           "fixed_ip_address": None, "port_forwardings": [], "description": "x"}
    links = [{"rel": "next", "href": "http://n.test/v2.0/floatingips?marker=f-1"}]
    point = {"interface": "public", "region_id": "R", "url": "http://n.test:9696/v2.0/"}
    for name, body in {
        "one": {"floatingip": fip},
        "page": {"floatingips": [fip, {**fip, "id": "f-2", "port_id": "p-1"}],
                 "floatingips_links": links},
        "token": {"token": {"issued_at": "2026-01-02T03:04:05.000000Z",
                            "expires_at": "2026-01-02T04:04:05.000000Z",
                            "project": {"id": "p", "name": "n"}, "roles": [{"name": "member"}],
                            "catalog": [{"type": "network", "endpoints": [point]}]}},
        "port": {"port": {"name": "x", "admin_state_up": True, "device_owner": "compute:nova",
                          "fixed_ips": [{"ip_address": "10.0.0.4"}]}},
        "quota": {"quota": {"floatingip": {"limit": -1, "used": 3}}},
        "extensions": {"extensions": [{"alias": "floatingip"}]},
        "networks": {"networks": [{"id": "n"}]},
        "error": {"NeutronError": {"type": "PortNotFound", "message": "m\n", "detail": ""}},
        "keystone-error": {"error": {"code": 401, "message": "who?", "title": "Unauthorized"}},
    }.items():
        keep("cloud_answers", name, json.dumps(body))
    keep("cloud_answers", "page-of-a-proxy", "<html><h1>503</h1>No \x1b server</html>")
    keep("cloud_answers", "address", "http://[2001:db8::1]:5000/v3/")
    keep("pages", "plain", b"abc\0def\0\0")
    keep("pages", "circle", b"abc\0abc\0")
    keep("pages", "vanished", b"abcdefgh\0abc\0ijk\0abcd\0\0")
    keep("pages", "twice", b"abcdefgh\0abc\0ijk\0abcdce")


def main():
    shutil.rmtree(SEEDS, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        ssh(folder)
        tls(folder)
        http(folder)
    dns()
    icmp()
    texts()
    files = [path for path in SEEDS.rglob("*") if path.is_file()]
    print(len(files), "seeds,", sum(path.stat().st_size for path in files), "bytes")


main()
