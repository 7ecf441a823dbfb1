#!/bin/bash
# e2e/no-crash-points.sh FOLDER: the control-api in FOLDER, built as it is shipped, does not know
# the variable that chooses a crash point. The tests that kill it there show that builds for tests
# read it.
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
echo "$((1 - failed)) passed, $failed failed"
((failed == 0))
