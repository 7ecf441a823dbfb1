#!/bin/bash
# Runs fuzz targets, each for some seconds, one on each core at a time: run.sh TARGET-FOLDER
# SECONDS TARGET…. What they find out is kept in TARGET-FOLDER/corpus for the next run, what breaks
# them in TARGET-FOLDER/broken. Sanitizers are off: the code that is tried is safe Rust, and so it
# runs on the stable toolchain. The last line counts.
set -euo pipefail
folder=$1 seconds=$2
shift 2
cd "$(dirname "$0")"
export CARGO_TARGET_DIR=$folder
cargo fuzz build -s none
triple=$(rustc -vV | sed -n 's/^host: //p')

one() { # one TARGET: its last figures in one line
    local name=$1 corpus=$folder/corpus/$1 log=$folder/$1.log
    mkdir -p "$corpus" "$folder/broken"
    if "$folder/$triple/release/$name" "$corpus" "seeds/$name" -max_total_time="$seconds" \
        -artifact_prefix="$folder/broken/$name-" -timeout=30 -rss_limit_mb=2048 \
        -print_final_stats=1 >"$log" 2>&1; then
        awk -v name="$name" '/ cov: / {for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1)}
            /number_of_executed_units/ {n = $2} /average_exec_per_sec/ {rate = $2}
            /peak_rss_mb/ {rss = $2} END {printf "fuzz %s: ok, %d runs, %d a second, " \
            "%d edges, %d MiB\n", name, n, rate, cov, rss}' "$log"
    else
        echo "fuzz $name: BROKEN, see $log and $folder/broken"
        tail -n 25 "$log"
        return 1
    fi
}
export -f one
export folder seconds triple
passed=0 failed=0
results=$(printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'one {}') || true
echo "$results"
for name in "$@"; do
    if grep -q "^fuzz $name: ok" <<<"$results"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
((failed == 0))
