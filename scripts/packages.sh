#!/usr/bin/env bash
# Makes sure that the Debian packages of the groups named (build, bench, data, robot, format, tidy, alone, fuzz, fresh) are
# installed. Nothing runs where they are.
# APT=0 skips the check, for machines whose tools come from elsewhere.
set -euo pipefail

declare -A groups=(
  [build]="build-essential cmake ninja-build libgtest-dev libbenchmark-dev nlohmann-json3-dev libcli11-dev
    libnanoflann-dev libmetis-dev libjpeg-dev libpng-dev zlib1g-dev xz-utils python3-venv python3-dev"
  [bench]="python3-matplotlib"
  [data]="dataset-fashion-mnist"
  [robot]="libegl-dev libopengl-dev libgl1-mesa-dri"
  [format]="clang-format python3-venv"
  [tidy]="clang-tidy"
  [alone]="clang-14"
  [fuzz]="clang-14 libclang-rt-14-dev"
  [fresh]="debootstrap"
)

packages=()
for group in "${@:-build}"; do
  if [[ -z ${groups[$group]:-} ]]; then
    echo "packages.sh: group must be one of ${!groups[*]}, got '$group'" >&2
    exit 2
  fi
  read -r -d '' -a members <<<"${groups[$group]}" || true
  packages+=("${members[@]}")
done

[[ ${APT:-1} == 0 ]] && exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This is not a Debian system, so nothing is installed. What is needed, by the names of its Debian packages:" >&2
  echo "  ${packages[*]}" >&2
  echo "Once it is there, run make with APT=0." >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
  grep -qx installed <<<"$status" || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
  else
    echo "Packages are missing, and installing them needs root. Run this, then make again:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi

echo "Installing ${missing[*]}" >&2
apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
"${apt_get[@]}" update >&2 || echo "apt-get update failed; trying with the package lists of this machine" >&2
if ! "${apt_get[@]}" install -y --no-install-recommends "${missing[@]}" >&2; then
  echo "The packages could not be installed. Once this has worked, run make again:" >&2
  echo "  ${as_root[*]:+sudo }apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
