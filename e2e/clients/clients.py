"""Runs the real openstack CLI and openstacksdk against a cloud and writes down, or compares, what
their answers are made of.

    clients.py record DIR       writes DIR/<step>.json for every step
    clients.py compare DIR      compares every step with DIR/<step>.json; exits 1 if one differs

The cloud is the one that OS_CLOUD and OS_CLIENT_CONFIG_FILE, or the other OS_* variables, name: a
member of a project that has a router to an external network and, on a network behind that router, a
port of an instance without a floating IP. All that is made is deleted again. The CLI is the
`openstack` beside this Python, or the one that OPENSTACK names.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import openstack
from openstack import exceptions

from shape import differences, shape

CLI = os.environ.get("OPENSTACK") or str(Path(sys.executable).parent / "openstack")
ABSENT = "00000000-0000-4000-8000-000000000000"
ABSENT_ADDRESS = "203.0.113.255"
DESCRIPTION = "made by e2e/clients"
TAG = "e2e-clients"
SECONDS_MAX = 120
MASKED = (
    (re.compile(r"req-[0-9a-f-]{36}"), "REQUEST"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"https?://[^ ,'\"]+"), "URL"),
    (re.compile(r"\d{1,3}(\.\d{1,3}){3}"), "ADDRESS"),
)


class Stop(Exception):
    """The run cannot go on; the text says why and what to do."""


def masked(text):
    """A message without what differs from cloud to cloud."""
    for pattern, word in MASKED:
        text = pattern.sub(word, text)
    return text.strip()


class Place:
    """What of the cloud the steps use: looked for with the SDK, not configured."""

    def __init__(self, cloud):
        self.cloud = cloud
        network = cloud.network
        self.project = cloud.current_project_id
        routers = [r for r in network.routers() if r.external_gateway_info]
        if not routers:
            raise Stop("the project has no router with an external gateway")
        self.router = routers[0]
        self.external = self.router.external_gateway_info["network_id"]
        interfaces = list(
            network.ports(device_id=self.router.id, device_owner="network:router_interface")
        )
        behind = {port.network_id for port in interfaces}
        taken = {fip.port_id for fip in network.ips()}
        free = [
            port
            for port in network.ports()
            if port.network_id in behind
            and (port.device_owner or "").startswith("compute:")
            and len(port.fixed_ips) == 1
            and port.id not in taken
        ]
        if not free:
            raise Stop("behind the router is no instance's port without a floating IP")
        self.port = min(free, key=lambda port: port.name)
        self.has_compute = any(
            service["type"] == "compute" for service in cloud.service_catalog
        )


class Steps:
    """Carries out steps and keeps what came of each, by name."""

    def __init__(self):
        self.answers = {}

    def note(self, name, answer):
        if name in self.answers:
            raise Stop(f"two steps are called {name}")
        self.answers[name] = answer
        print(f"{name}: exit {answer['exit']}", flush=True)

    def cli(self, name, *words, is_json=True):
        """One command. Its output as JSON, if it should have some and succeeded."""
        command = [CLI, *words, *(["-f", "json"] if is_json else [])]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        output = json.loads(ran.stdout) if is_json and ran.returncode == 0 else None
        answer = {"command": masked(" ".join(["openstack", *command[1:]])), "exit": ran.returncode}
        if output is not None:
            answer["output"] = shape(output)
        errors = [line for line in ran.stderr.splitlines() if "Warning" not in line]
        answer["errors"] = masked("\n".join(errors)).splitlines()
        self.note(name, answer)
        return output

    def sdk(self, name, what, call):
        """One use of the SDK: the shape of what it returns, or the class of its exception."""
        try:
            value = call()
        except exceptions.SDKException as error:
            status = getattr(error, "status_code", None)
            kind = type(error).__name__
            self.note(name, {"command": what, "exit": 1, "exception": kind, "status": status})
            return None
        plain = json.loads(json.dumps(value, default=lambda v: v.to_dict()))
        self.note(name, {"command": what, "exit": 0, "output": shape(plain)})
        return value


def wait_for_status(cloud, fip_id, wanted):
    """Waits until the agent of the floating IP has reported; true if it did."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if cloud.network.get_ip(fip_id).status == wanted:
            return True
        time.sleep(0.2)
    raise Stop(f"the floating IP did not become {wanted} within 30 s")


def look_around(steps, place):
    """Commands that change nothing."""
    steps.cli("token-issue", "token", "issue")
    steps.cli("catalog-list", "catalog", "list")
    steps.cli("network-list", "network", "list")
    steps.cli("network-list-external", "network", "list", "--external", "--long")
    steps.cli("network-show", "network", "show", place.external)
    steps.cli("subnet-list", "subnet", "list")
    steps.cli("router-list", "router", "list")
    steps.cli("router-show", "router", "show", place.router.id)
    steps.cli("port-list", "port", "list")
    steps.cli("port-list-router", "port", "list", "--router", place.router.id)
    steps.cli("port-show", "port", "show", place.port.id)
    steps.cli("security-group-list", "security", "group", "list")
    steps.cli("security-group-rule-list", "security", "group", "rule", "list", "--long")
    steps.cli("quota-show", "quota", "show", "--network")
    steps.cli("extension-list", "extension", "list", "--network")
    steps.cli("floating-ip-pool-list", "floating", "ip", "pool", "list")
    steps.cli("port-show-absent", "port", "show", ABSENT)
    steps.cli("network-show-absent", "network", "show", ABSENT)
    if place.has_compute:
        steps.cli("server-list", "server", "list")
        steps.cli("quota-show-all", "quota", "show")


def life_of_an_address(steps, place):
    """Makes a floating IP, moves it about, deletes it."""
    ip = ("floating", "ip")
    made = steps.cli(
        "create", *ip, "create", place.external, "--description", DESCRIPTION, "--tag", TAG
    )
    if made is None:
        raise Stop("a floating IP could not be created")
    fip, address, port = made["id"], made["floating_ip_address"], place.port.id
    try:
        steps.cli("show-address", *ip, "show", address)
        steps.cli("show-id", *ip, "show", fip)
        steps.cli("set-port", *ip, "set", "--port", port, address, is_json=False)
        wait_for_status(place.cloud, fip, "ACTIVE")
        steps.cli("show-associated", *ip, "show", address)
        lists_of_addresses(steps, place, address)
        sdk(steps, place, fip, address)
        steps.cli("set-tag", *ip, "set", "--tag", "more", fip, is_json=False)
        steps.cli("unset-tag", *ip, "unset", "--tag", "more", fip, is_json=False)
        steps.cli("set-port-absent", *ip, "set", "--port", ABSENT, fip, is_json=False)
        steps.cli("unset-port", *ip, "unset", "--port", address, is_json=False)
        wait_for_status(place.cloud, fip, "DOWN")
        steps.cli("show-released", *ip, "show", address)
        forwarding(steps, place, fip)
    finally:
        steps.cli("delete", *ip, "delete", address, is_json=False)
    steps.cli("delete-again", *ip, "delete", fip, is_json=False)
    steps.cli("show-absent", *ip, "show", ABSENT_ADDRESS)
    steps.cli("create-nowhere", *ip, "create", ABSENT)


def lists_of_addresses(steps, place, address):
    """Every way of listing, while one address is associated."""
    listing = ("floating", "ip", "list")
    steps.cli("list", *listing)
    steps.cli("list-long", *listing, "--long")
    steps.cli("list-port", *listing, "--port", place.port.id)
    steps.cli("list-port-name", *listing, "--port", place.port.name)
    steps.cli("list-active", *listing, "--status", "ACTIVE")
    steps.cli("list-down", *listing, "--status", "DOWN", "--long")
    steps.cli("list-network", *listing, "--network", place.external)
    steps.cli("list-router", *listing, "--router", place.router.id)
    steps.cli("list-address", *listing, "--floating-ip-address", address)
    steps.cli("list-tags", *listing, "--long", "--tags", TAG)
    steps.cli("list-not-tags", *listing, "--not-tags", TAG)


def forwarding(steps, place, fip):
    """A port forwarding on the address."""
    words = ("floating", "ip", "port", "forwarding")
    fixed = place.port.fixed_ips[0]["ip_address"]
    made = steps.cli(
        "forwarding-create", *words, "create", "--internal-ip-address", fixed, "--port",
        place.port.id, "--internal-protocol-port", "22", "--external-protocol-port", "2222",
        "--protocol", "tcp", fip,
    )
    if made is None:
        return
    steps.cli("forwarding-list", *words, "list", fip)
    steps.cli("show-forwarded", "floating", "ip", "show", fip)
    steps.cli(
        "set-port-forwarded", "floating", "ip", "set", "--port", place.port.id, fip, is_json=False
    )
    steps.cli("delete-forwarded", "floating", "ip", "delete", fip, is_json=False)
    steps.cli("forwarding-delete", *words, "delete", fip, made["id"], is_json=False)


def sdk(steps, place, fip, address):
    """openstacksdk: paging, finding, conditional changes."""
    network = place.cloud.network

    def paged():
        whole = [row.id for row in network.ips()]
        pages = [row.id for row in network.ips(limit=3)]
        if sorted(pages) != sorted(whole) or len(set(pages)) != len(pages):
            raise Stop(f"in pages of three: {len(pages)} rows, in one: {len(whole)}")
        # Which of all are associated is another matter in every cloud.
        return [row for row in network.ips(limit=3) if not row.port_id][:7]

    steps.sdk("sdk-ips", "network.ips(limit=3)", paged)
    steps.sdk("sdk-find-ip", "network.find_ip(address)", lambda: network.find_ip(address))
    steps.sdk("sdk-get-ip", "network.get_ip(id)", lambda: network.get_ip(fip))
    steps.sdk("sdk-get-absent", "network.get_ip(absent)", lambda: network.get_ip(ABSENT))
    steps.sdk("sdk-port", "network.get_port(id)", lambda: network.get_port(place.port.id))
    steps.sdk(
        "sdk-stale",
        "network.update_ip(id, if_revision=0)",
        lambda: network.update_ip(fip, description="stale", if_revision=0),
    )
    steps.sdk(
        "sdk-update",
        "network.update_ip(id, description)",
        lambda: network.update_ip(fip, description=DESCRIPTION),
    )
    steps.sdk(
        "sdk-quota-details",
        "network.get_quota(project, details=True)",
        lambda: network.get_quota(place.project, details=True),
    )
    steps.sdk(
        "sdk-extensions", "network.extensions()", lambda: list(network.extensions())
    )


def differs(name, ours, real):
    """What our answer of one step has that the real one has not, one line each."""
    found = []
    for key in ("exit", "errors", "exception", "status"):
        if ours.get(key) != real.get(key):
            found.append(f"{name}: {key} is {ours.get(key)!r}, really {real.get(key)!r}")
    if "output" in ours and "output" in real:
        found += [f"{name}: {line}" for line in differences(ours["output"], real["output"])]
    return found


def compare(answers, folder):
    """Compares with what was recorded. A step that was not recorded only has to succeed."""
    found, compared = [], 0
    for name, answer in answers.items():
        path = folder / f"{name}.json"
        if path.exists():
            compared += 1
            found += differs(name, answer, json.loads(path.read_text()))
        elif answer["exit"]:
            found.append(f"{name}: exit {answer['exit']}: {answer.get('errors')}")
    found += [
        f"{path.stem}: was recorded, but is no step of this run"
        for path in sorted(folder.glob("*.json"))
        if path.stem not in answers
    ]
    for line in found:
        print(f"DIFFERENT {line}")
    print(f"{len(answers)} steps, {compared} compared, {len(found)} differences")
    return not found and compared > 0


def record(answers, folder):
    """Writes one file for each step."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, answer in answers.items():
        text = json.dumps(answer, indent=1, sort_keys=True)
        (folder / f"{name}.json").write_text(f"{text}\n")
    print(f"{len(answers)} steps recorded in {folder}")
    return True


def main(words):
    if len(words) != 2 or words[0] not in ("record", "compare"):
        sys.exit(__doc__)
    mode, folder = words[0], Path(words[1])
    steps = Steps()
    try:
        place = Place(openstack.connect())
        look_around(steps, place)
        life_of_an_address(steps, place)
    except Stop as stop:
        sys.exit(f"clients.py: {stop}")
    is_good = (record if mode == "record" else compare)(steps.answers, folder)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
