#!/bin/bash
# Runs the built scenario runner as a throw-away ordinary user: `e2e/as-user.sh BIN_DIR OUT_DIR
# [ARGUMENT…]`. Only root can make such a user. Nothing is copied: the programs are shown at a path
# that the user may walk, by a bind mount in a mount namespace of our own.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
if ((UID != 0)); then
    echo "$0: only root can make a user; run the scenario itself instead" >&2
    exit 2
fi
bin=$(realpath "$1") out=$(realpath -m "$2")
shift 2
if [[ $(stat -c %A "$bin") != *r-x ]]; then
    echo "$0: an ordinary user may not read $bin: chmod o+rx it" >&2
    exit 2
fi

user=civ-e2e-$$
home=$(mktemp -d /var/tmp/civ-e2e.XXXXXX)
cleanup() {
    # Whatever the run left behind belongs to this user alone.
    pkill -KILL -u "$user" 2>/dev/null || true
    mkdir -p "$out"
    cp -r "$home/out/." "$out/" 2>/dev/null || true
    userdel "$user" 2>/dev/null || true
    rm -rf "$home"
}
trap cleanup EXIT
useradd --system --no-create-home --home-dir "$home" --shell /bin/bash "$user"
mkdir "$home/bin" "$home/out"
chown "$user" "$home" "$home/out"
chmod 755 "$home"

# shellcheck disable=SC2016  # expanded by the inner shell
unshare --mount --propagation private bash -c '
    set -euo pipefail
    user=$1 home=$2 bin=$3
    shift 3
    mount --bind "$bin" "$home/bin"
    cd "$home"
    exec setpriv --reuid="$(id -u "$user")" --regid="$(id -g "$user")" --clear-groups \
        env -i HOME="$home" USER="$user" LOGNAME="$user" PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 \
        "$home/bin/civ-e2e" run --out "$home/out" "$@"
' as-user "$user" "$home" "$bin" "$@"
