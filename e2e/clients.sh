#!/bin/bash
# Drives the simulated cloud with the real openstack CLI and openstacksdk and compares the keys and
# types of their answers with those that a real Keystone and Neutron gave:
#
#     e2e/clients.sh                     # a cloud-sim of its own, compared with e2e/clients/real
#     e2e/clients.sh venv                # only installs, and prints the folder of the programs
#     e2e/clients.sh record DIR          # the cloud of OS_CLOUD, written down
#     e2e/clients.sh compare DIR         # the cloud of OS_CLOUD, compared
#
# Where the packages cannot be had it says so and ends with 0: the tests of the product's own client
# do not need them. CLIENTS_REQUIRED=1 makes that a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(realpath "$target")
venv=$target/clients-venv

skip() {
    echo "e2e-clients skipped: $1" >&2
    exit "${CLIENTS_REQUIRED:-0}"
}

install() { # into $venv, once for each list of versions
    cmp -s e2e/clients/requirements.txt "$venv/installed.txt" && return
    command -v python3 >/dev/null || skip "there is no python3: apt-get install python3-venv"
    python3 -m venv --clear "$venv" >&2 || skip "python3 has no venv: apt-get install python3-venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --prefer-binary \
        -r e2e/clients/requirements.txt >&2 ||
        skip "python-openstackclient and openstacksdk could not be had from PyPI"
    cp e2e/clients/requirements.txt "$venv/installed.txt"
}

install
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
case ${1:-} in
venv)
    echo "$venv/bin"
    exit
    ;;
record | compare)
    exec "$venv/bin/python" e2e/clients/clients.py "$1" "${2:?DIR}"
    ;;
"") ;;
*)
    echo "usage: $0 [venv | record DIR | compare DIR]" >&2
    exit 2
    ;;
esac

cargo build --locked --quiet -p civ-cloudsim
out=$target/clients
rm -rf "$out"
mkdir -p "$out"
# With instances, for the CLI's list of servers.
echo 'cloud: {compute: true}' >"$out/scenario.yaml"
"$target/debug/cloud-sim" --listen 127.0.0.1:0 --scenario "$out/scenario.yaml" \
    >"$out/clouds.yaml" 2>"$out/cloud-sim.log" &
cloud=$!
trap 'kill "$cloud" 2>/dev/null || true; wait "$cloud" 2>/dev/null || true' EXIT
for _ in {1..200}; do
    grep -q '^clouds:' "$out/clouds.yaml" && break
    kill -0 "$cloud" 2>/dev/null || { cat "$out/cloud-sim.log" >&2; exit 1; }
    sleep 0.1
done
# Only the file that it printed is to count.
for name in ${!OS_@}; do unset "$name"; done
export OS_CLIENT_CONFIG_FILE=$out/clouds.yaml OS_CLOUD=validator
"$venv/bin/python" e2e/clients/clients.py compare e2e/clients/real | tee "$out/compare.log"
url=$(sed -nE 's/^ *auth_url: "?([^"]*)\/v3"?$/\1/p' "$out/clouds.yaml" | head -n1)
unknown=$("$venv/bin/python" -c 'import sys, urllib.request as r
print(r.urlopen(sys.argv[1] + "/sim/unknown").read().decode())' "$url")
echo "calls that are not simulated: $unknown"
[[ $unknown == "[]" ]]
compared=$(grep -oE '[0-9]+ compared' "$out/compare.log")
echo "${compared% *} passed, 0 failed"
