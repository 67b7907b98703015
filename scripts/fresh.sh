#!/usr/bin/env bash
# Runs a command (`make test` by default) on the committed state of this checkout in a minimal Debian 12 that is made for it
# and holds git and make alone: what the README promises of a fresh machine is what this checks.
#   scripts/fresh.sh [COMMAND...]
# Needs root and the right to mount; installs debootstrap where it is missing. Package and pip settings of this machine are
# carried over, and so is a folder ../shared with data for the tests.
# Exit status: that of the command, or 125 where the system could not be made.
set -euo pipefail

cannot() {
  echo "fresh.sh: no fresh system: $*" >&2
  exit 125
}

# Second half, in a mount namespace of its own: mounts end with it, whatever happens.
if [[ ${1:-} == --inside ]]; then
  system=$2 project=$3
  shift 3
  mount -t proc proc "$system/proc" || exit 125
  mount --bind /dev "$system/dev" || exit 125
  mount -t devpts devpts "$system/dev/pts" || exit 125
  mount -t tmpfs tmpfs "$system/dev/shm" || exit 125
  # Local folders that pip is set to take packages from. An index (`.../simple`) links to files in the folder above it.
  while read -r folder; do
    [[ -d $folder ]] || continue
    mountpoint -q "$system$folder" && continue
    mkdir -p "$system$folder"
    mount --bind -o ro "$folder" "$system$folder" || exit 125
  done < <(python3 -m pip config list 2>/dev/null | grep -oE "(file://)?/[^ ']+" | sed 's|^file://||; s|/simple/*$||' | sort -u)
  if [[ -d $project/../shared ]]; then
    mkdir -p "$system/src/shared"
    mount --bind -o ro "$project/../shared" "$system/src/shared" || exit 125
  fi
  chroot "$system" /bin/bash -c 'apt-get update -q && apt-get install -y -q --no-install-recommends git make' >/dev/null ||
    exit 125
  exec chroot "$system" /bin/bash -c 'cd /src/topomask && exec "$@"' fresh "$@"
fi

cd "$(dirname "$0")/.."
(($#)) || set -- make test
((EUID == 0)) || cannot "it needs root"
unshare --mount true 2>/dev/null || cannot "mounting is not allowed here"
if ! command -v debootstrap >/dev/null; then
  apt-get install -y -q --no-install-recommends debootstrap >/dev/null || cannot "debootstrap could not be installed"
fi

system=$(mktemp -d)
chmod 755 "$system"  # apt reads its lists as a user of its own
trap 'rm -rf --one-file-system "$system" "$system.log"' EXIT
debootstrap --variant=minbase --include=ca-certificates bookworm "$system" >"$system.log" 2>&1 ||
  { tail -n 5 "$system.log" >&2 && cannot "debootstrap failed"; }

carry() { [[ ! -e $1 ]] || { mkdir -p "$system$(dirname "$1")" && cp -rLT --remove-destination "$1" "$system$1"; }; }
carry /etc/resolv.conf
carry /etc/hosts
carry /etc/ssl/certs/ca-certificates.crt
carry /etc/pip.conf
carry /etc/apt/apt.conf.d
if compgen -G '/etc/apt/sources.list.d/*' >/dev/null; then
  rm -f "$system/etc/apt/sources.list"
  carry /etc/apt/sources.list.d
fi
if [[ -d $HOME/.config/pip ]]; then
  mkdir -p "$system/root/.config" && cp -r "$HOME/.config/pip" "$system/root/.config/"
fi
git clone -q "$PWD" "$system/src/topomask" || cannot "the checkout could not be cloned"

status=0
HOME=/root unshare --mount --propagation private --fork --kill-child \
  "$PWD/scripts/fresh.sh" --inside "$system" "$PWD" "$@" || status=$?
exit "$status"
