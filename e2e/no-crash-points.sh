#!/bin/bash
# e2e/no-crash-points.sh FOLDER: the control-api in FOLDER, built as it is shipped, does not know
# the variable that chooses a crash point, and has none of the faults that the simulation plants.
# The tests that kill it there show that builds for tests read it; civ-sim, where it was built with
# planted faults, shows that their mark can be found.
set -euo pipefail
program=$1/control-api
failed=0
if ! grep -qaF 'control-api listens' "$program"; then
    echo "$program: its texts cannot be read"
    failed=1
fi
if grep -qaF 'CIV_CRASH_AT' "$program"; then
    echo "$program: was built with crash points: cargo build without tests makes one without"
    failed=1
fi
if grep -qaF 'CIV_PLANTED_FAULTS' "$program"; then
    echo "$program: was built with planted faults: cargo build without their feature makes one without"
    failed=1
fi
simulation=$1/../release/civ-sim
if [[ -e $simulation ]] && grep -qaF 'two_calls_a_claim' "$simulation" \
    && ! grep -qaF 'CIV_PLANTED_FAULTS' "$simulation"; then
    echo "$simulation: has planted faults and no mark of them: this check would find nothing"
    failed=1
fi
echo "$((1 - failed)) passed, $failed failed"
((failed == 0))
