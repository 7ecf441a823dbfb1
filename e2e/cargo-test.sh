#!/bin/bash
# The tests of the workspace where cargo-nextest is not installed: cargo's own runner, all of it
# even after a failure, and at the end one line that sums up its results.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --locked --workspace --lib --bins --tests --no-fail-fast 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
awk '/^test result:/ { passed += $4; failed += $6 }
     END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$code"
