#!/bin/bash
# The product against a real Keystone and a real Neutron, which live for as long as this runs:
#
#     e2e/openstack.sh [ARGUMENT…]       # of `civ-e2e openstack`, such as --only race
#     e2e/openstack.sh serve [ARGUMENT…] # only the two servers, until Ctrl-D or Ctrl-C
#
# Everything of theirs lies in $CIV_OPENSTACK_DIR (target/openstack without one). Where Python or
# the packages cannot be had, it says so and ends with 0; OPENSTACK_REQUIRED=1 makes that a failure.
# Without a database server, and where none can be installed, SQLite takes its place.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin" PYTHONDONTWRITEBYTECODE=1

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(realpath "$target")
export CIV_OPENSTACK_DIR=${CIV_OPENSTACK_DIR:-$target/openstack}

skip() {
    echo "e2e-openstack skipped: $1"
    exit "${OPENSTACK_REQUIRED:-0}"
}

if ! e2e/need.sh openstack; then
    python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
        skip "there is no Python 3.10 or newer with venv: apt-get install python3-venv"
    echo "without mariadbd: on SQLite"
fi
python3 e2e/openstack/lab.py install ||
    skip "Keystone and Neutron could not be had from PyPI (log: $CIV_OPENSTACK_DIR/log)"
if [[ ${1:-} == serve ]]; then
    shift
    exec python3 e2e/openstack/lab.py serve "$@"
fi
cargo build --locked --workspace
exec "$target/debug/civ-e2e" openstack "$@"
