#!/bin/bash
# sbom.sh FOLDER: writes a bill of materials (CycloneDX 1.5, JSON) of each program: every crate that
# is built into it, with version, licence and checksum. The same sources give the same files.
set -euo pipefail
out=$(realpath -m "${1:?usage: sbom.sh FOLDER}")
cd "$(dirname "$0")/.."
root=$PWD
programs=(control-api validator-agent prober)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

tidy_up() { # the tool writes beside every Cargo.toml of the workspace
    find bins e2e -name '*_bin.cdx.json' -delete
}
trap tidy_up EXIT
cargo cyclonedx --quiet --format json --describe binaries --spec-version 1.5 \
    --target x86_64-unknown-linux-gnu --manifest-path bins/control-api/Cargo.toml
mkdir -p "$out"
for program in "${programs[@]}"; do
    # Where the sources lay is nobody's business, and would differ from machine to machine.
    sed -e "s|$root/||g" -e '/"serialNumber"/d' "bins/$program/${program}_bin.cdx.json" \
        >"$out/$program.cdx.json"
    echo "$out/$program.cdx.json: $(grep -c '"purl"' "$out/$program.cdx.json") components"
done
