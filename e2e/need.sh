#!/bin/bash
# Makes sure that the tools for building ("build"), the real servers that checks are tested against
# ("peers"), the tools for the offline scenario ("e2e"), for the lab of the checks ("checks") and
# for a real Keystone and Neutron ("openstack") are there.
# As root, or where sudo asks for no password, missing Debian packages are installed; otherwise one
# apt-get line is printed. A package that is there costs nothing but the look.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin"
rust_min=1.95

missing=()
need() { # need PACKAGE COMMAND…: the package is missing if one of the commands is
    local package=$1 command
    shift
    for command in "$@"; do
        command -v "$command" >/dev/null || { missing+=("$package"); return; }
    done
}

wanted=()
want() { # want PACKAGE COMMAND…: the same, but nothing stops without it
    local package=$1 command
    shift
    for command in "$@"; do
        command -v "$command" >/dev/null || { wanted+=("$package"); return; }
    done
}

for what in "$@"; do
    case $what in
    build)
        need build-essential cc ar make
        ;;
    peers)
        need openssl openssl
        need openssh-server sshd
        need openssh-client ssh-keygen
        need nginx-light nginx
        ;;
    e2e)
        need nftables nft
        need openssh-server sshd
        need openssh-client ssh-keygen
        need nginx-light nginx
        need conntrack conntrack
        need tcpdump tcpdump
        need iproute2 ip tc
        need iputils-ping ping
        need procps sysctl
        need util-linux unshare setpriv
        ;;
    checks)
        # What cannot be had is left out of the table, with the reason.
        want dropbear-bin dropbear dropbearkey
        ;;
    openstack)
        # python3 is there without venv on a bare Debian.
        python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
        need mariadb-server-core mariadbd
        ;;
    *)
        echo "usage: $0 [build] [peers] [e2e] [checks] [openstack]" >&2
        exit 2
        ;;
    esac
done

line='apt-get install -y --no-install-recommends'
as_root=()
if ((UID == 0)); then
    as_root=(env DEBIAN_FRONTEND=noninteractive)
elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
fi

get() { # get PACKAGE…: installs them
    echo "installing: $*"
    # No service of these packages is to start: the scenario starts its own. policy-rc.d is
    # Debian's switch for that; one that is there already is left alone.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
        trap '"${as_root[@]}" rm -f "$policy"' EXIT
    fi
    "${as_root[@]}" apt-get update -q || return
    # shellcheck disable=SC2086  # the words of the line are meant
    "${as_root[@]}" $line "$@"
}

if ((${#missing[@]})); then
    if ((${#as_root[@]} == 0)); then
        echo "Missing packages. Run this, then try again:" >&2
        echo "    sudo apt-get update && sudo $line ${missing[*]}" >&2
        exit 1
    fi
    get "${missing[@]}"
fi
if ((${#wanted[@]})); then
    if ((${#as_root[@]} == 0)) || ! get "${wanted[@]}"; then
        echo "Going on without: ${wanted[*]} (sudo $line ${wanted[*]})"
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "Missing: cargo $rust_min or newer (Debian's own is too old). Install it with" >&2
    echo "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y" >&2
    exit 1
fi
version=$(cargo --version | cut -d' ' -f2)
if [[ $(printf '%s\n' "$rust_min" "$version" | sort -V | head -n1) != "$rust_min" ]]; then
    echo "cargo $version is too old, $rust_min or newer is needed: rustup update stable" >&2
    exit 1
fi
