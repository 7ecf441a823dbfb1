#!/bin/bash
# Lets schemathesis loose on a running control-api, with the document that it serves itself:
#
#     e2e/fuzz-api.sh [--max-time SECONDS] [--min-requests N]
#
# Passed when no answer was a 5xx, undocumented, or against its schema, and when the server has
# counted N requests: one "answered" line of its log at debug level each. One run of schemathesis
# ends when it has nothing new to try; others with new seeds follow until both numbers are
# reached. The cloud is cloud-sim; the database is new. What is left out of which check, and why:
# e2e/fuzz-api/schemathesis.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

max_time=900 min_requests=20000
while (($#)); do
    case $1 in
    --max-time) max_time=$2 ;;
    --min-requests) min_requests=$2 ;;
    *)
        echo "usage: $0 [--max-time SECONDS] [--min-requests N]" >&2
        exit 2
        ;;
    esac
    shift 2
done

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(realpath "$target")
version=4.32.5
venv=$target/fuzz-venv
if ! "$venv/bin/pip" show schemathesis 2>/dev/null | grep -qx "Version: $version"; then
    if ! python3 -m venv --clear "$venv"; then
        echo "$0: python3 with venv and pip is needed: apt-get install python3-venv" >&2
        exit 1
    fi
    if ! "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"; then
        echo "$0: schemathesis $version could not be had from PyPI" >&2
        exit 1
    fi
fi
cargo build --locked --quiet -p civ-control-api -p civ-cloudsim

out=$target/fuzz-api
rm -rf "$out"
mkdir -p "$out"
pids=()
cleanup() {
    local left
    left=$(jobs -p)
    # shellcheck disable=SC2086  # one word for each process that is left
    [[ -z $left ]] || kill $left 2>/dev/null || true
    wait
}
trap cleanup EXIT

until_logged() { # until_logged FILE PATTERN: prints what PATTERN captures, within 20 seconds
    local found
    for _ in {1..200}; do
        found=$(sed -nE "s/.*$2.*/\1/p" "$1" | head -n1)
        [[ -z $found ]] || { echo "$found"; return; }
        sleep 0.1
    done
    echo "$0: nothing like $2 in $1 within 20 seconds:" >&2
    tail -n 20 "$1" >&2
    return 1
}

NO_COLOR=1 "$target/debug/cloud-sim" --listen 127.0.0.1:0 --address 203.0.113.0/28 \
    --port port-1=10.0.0.1 --port port-2=10.0.0.2 --password fuzz 2>"$out/cloud-sim.log" &
pids+=($!)
auth_url=$(until_logged "$out/cloud-sim.log" 'auth_url="?([^ "]+)')

export CONTROL_API_ADMIN_TOKEN=fuzz-admin-token-0123456789
export CONTROL_API_AGENT_TOKEN=fuzz-agent-token-0123456789
config=$PWD/e2e/fuzz-api
(cd "$out" && exec env \
    NO_COLOR=1 CIV_LOG=info,civ_control_api::http::router=debug \
    OS_AUTH_URL="$auth_url" OS_USERNAME=validator OS_PASSWORD=fuzz OS_PROJECT_NAME=validation \
    "$target/debug/control-api" run --config "$config/control-api.yaml") 2>"$out/control-api.log" &
pids+=($!)
addr=$(until_logged "$out/control-api.log" 'control-api listens.*addr=([0-9.:]+)|addr=([0-9.:]+).*control-api listens')

answered() { # answered [STATUS]: how many requests the server has answered
    grep -cE "answered.* status=${1:-}" "$out/control-api.log" || true
}
in_out() { # in_out COMMAND...: there, since schemathesis keeps a cache where it is started
    cd "$out" && exec "$@"
}
# One process of schemathesis keeps one core busy; more workers in one process only wait for each
# other.
jobs=$(nproc)
began=$SECONDS seed=0 failed=0
while ((failed == 0)); do
    left=$((max_time - (SECONDS - began)))
    ((left > 0)) || break
    runs=()
    for ((job = 0; job < jobs; job++)); do
        seed=$((seed + 1))
        SCHEMATHESIS_HOOKS=$config/hooks.py in_out "$venv/bin/st" --config-file "$config/schemathesis.toml" run "http://$addr/openapi.json" \
            --max-time "$left" --seed "$seed" --continue-on-failure \
            --report junit --report-junit-path "$out/junit-$seed.xml" \
            >"$out/schemathesis-$seed.log" 2>&1 &
        runs+=("$!:$seed")
    done
    for run in "${runs[@]}"; do
        wait "${run%%:*}" || { failed=1 && tail -n 200 "$out/schemathesis-${run##*:}.log"; }
    done
    echo "$(answered) requests in $((SECONDS - began)) seconds"
    (($(answered) < min_requests)) || break
done

requests=$(answered) broken=$(answered 5)
echo "$requests requests answered, $broken of them with a 5xx; logs: $out"
if ! kill -0 "${pids[1]}" 2>/dev/null; then
    echo "control-api has ended by itself:"
    tail -n 20 "$out/control-api.log"
    failed=1
fi
if ((failed == 0 && broken == 0 && requests >= min_requests)); then
    echo "1 passed, 0 failed"
else
    grep -E "answered.* status=5" "$out/control-api.log" | head -n 10 || true
    ((requests >= min_requests)) || echo "fewer than $min_requests requests in $max_time seconds"
    echo "0 passed, 1 failed"
    exit 1
fi
