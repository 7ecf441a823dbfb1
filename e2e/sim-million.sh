#!/bin/bash
# e2e/sim-million.sh [SEEDS [FROM]]: a million stories, or as many as that, in parts of 20,000, so
# that what was reached and found stands there while it goes on. Ends at the first part with a fault.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-1000000} from=${2:-1} part=20000
make sim SEEDS=1
program=${CARGO_TARGET_DIR:-target}/release/civ-sim
end=$((from + seeds))
while ((from < end)); do
    n=$((end - from < part ? end - from : part))
    echo "== $n stories from seed $from on"
    "$program" run --seeds "$n" --from "$from"
    from=$((from + n))
done
