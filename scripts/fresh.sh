#!/usr/bin/env bash
# Runs a command (`make test` by default) on the committed state of this checkout in a minimal Debian 12 that is made for it
# and holds git and make alone: what the README promises of a fresh machine is what this checks.
#   scripts/fresh.sh [COMMAND...]              makes such a system, runs the command in it, and removes it
#   scripts/fresh.sh --make FOLDER             makes it in a folder that is empty or not there, and leaves it
#   scripts/fresh.sh --in FOLDER [COMMAND...]  runs the command in one that was made; what was installed or built there stays
# Needs root and the right to mount; installs debootstrap where it is missing. The environment, package and pip settings of this
# machine are carried over, and so is a folder ../shared with data for the tests. Mounts and processes in the system end with
# the command.
# Exit status: that of the command, or 125 where the system could not be made.
set -euo pipefail

cannot() {
  echo "fresh.sh: no fresh system: $*" >&2
  exit 125
}
usage() {
  echo "usage: scripts/fresh.sh [COMMAND...] | --make FOLDER | --in FOLDER [COMMAND...]${1:+; $1}" >&2
  exit 2
}

# What `within` runs, with mounts and processes of its own: whatever happens, they end with it.
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
  unset TMPDIR
  chroot "$system" "$@"
  exit
fi

cd "$(dirname "$0")/.."

action=
case ${1:-} in
  --make | --in)
    action=${1#--}
    (($# >= 2)) || usage "FOLDER is missing"
    [[ $action == in ]] || (($# == 2)) || usage "--make takes no command"
    system=$(realpath -m "$2")
    shift 2
    ;;
  -*) usage "got '$1'" ;;
esac
(($#)) || set -- make test
if [[ $action == make ]]; then
  [[ ! -e $system ]] || { [[ -d $system ]] && [[ -z $(ls -A "$system") ]]; } || usage "FOLDER must be empty, got '$system'"
elif [[ $action == in ]]; then
  [[ -x $system/usr/bin/git ]] || usage "FOLDER must be one that --make made, got '$system'"
fi

((EUID == 0)) || cannot "it needs root"
apart=(unshare --mount --pid --propagation private --fork --kill-child)
"${apart[@]}" true 2>/dev/null || cannot "mounting is not allowed here"

# What runs now, for a signal to end it at once: a shell by itself would wait for it. Everything in it ends with its first
# process, `unshare`.
running=
remove=()
clean_up() {
  if [[ -n $running ]]; then
    kill -KILL "$running" 2>/dev/null || true
    wait "$running" 2>/dev/null || true
    sleep 0.5  # until what is in it has ended
  fi
  ((${#remove[@]} == 0)) || rm -rf --one-file-system "${remove[@]}"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
wait_for() {  # COMMAND...
  local status=0
  "$@" <&0 &
  running=$!
  wait "$running" || status=$?
  running=
  return "$status"
}
within() { HOME=/root wait_for "${apart[@]}" "$PWD/scripts/fresh.sh" --inside "$system" "$PWD" "$@"; }

carry() { [[ ! -e $1 ]] || { mkdir -p "$system$(dirname "$1")" && cp -rLT --remove-destination "$1" "$system$1"; }; }

make_system() {
  command -v debootstrap >/dev/null || scripts/packages.sh fresh >/dev/null || cannot "debootstrap could not be installed"
  local log
  log=$(mktemp)
  remove+=("$log")
  mkdir -p "$system"
  chmod 755 "$system"  # apt reads its lists as a user of its own
  # debootstrap mounts /proc in the new system.
  wait_for "${apart[@]}" --mount-proc debootstrap --variant=minbase --include=ca-certificates bookworm "$system" >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2 && cannot "debootstrap failed"; }

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
  within /bin/bash -c 'apt-get update -q && apt-get install -y -q --no-install-recommends git make' >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2 && cannot "git and make could not be installed"; }
}

# The first process there is this shell, which collects those that others leave behind.
run_command() {
  local copy=$system/src/topomask
  if [[ -d $copy ]]; then
    git -C "$copy" fetch -q "$PWD" HEAD && git -C "$copy" checkout -q --detach FETCH_HEAD
  else
    git clone -q "$PWD" "$copy"
  fi || cannot "the checkout could not be cloned"
  # shellcheck disable=SC2016  # for the shell in the system
  within /bin/bash -c 'cd /src/topomask || exit 125; "$@"; exit' fresh "$@"
}

if [[ -z $action ]]; then
  system=$(mktemp -d)
  remove+=("$system")
fi
[[ $action == in ]] || make_system
[[ $action == make ]] || run_command "$@"
