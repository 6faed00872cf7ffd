#!/usr/bin/env bash
# Sets up everything that the build needs. Run it as often as you like: what is there already is left alone.
#
#   scripts/setup.sh               compilers, JDK, Maven, Go modules, RocksDB (see scripts/env.sh for ROCKSDB=...)
#   scripts/setup.sh tools NAME... only make sure that these tools are there
#
# Messages go to stderr, so that stdout stays clean for `make -s env`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# The packaged RocksDB: the shared library out of RocksDB's own Maven artifact, which is built for old glibc and has all
# compression libraries linked in. Both the artifact and the library in it are pinned.
rocksdb_version=11.1.2
jar_sha256=d2851e044959af829fe486757c15174f570d7f06ee6eab2cb1be2ac0cc7e168f
case $(uname -s)/$(uname -m) in
  Linux/x86_64)
    member=librocksdbjni-linux64.so
    member_sha256=677f59bfa16175a2d0a165b2e9dbee6e64d242ac3747b25e10c94033d5f37e06 ;;
  Linux/aarch64 | Linux/arm64)
    member=librocksdbjni-linux-aarch64.so
    member_sha256=c0c380d94ff7a444b668d15fc8903596fb055136a175ec53ce0faecdcbfc4b63 ;;
  *)
    member='' member_sha256='' ;;
esac

say() { echo "forebay: $*" >&2; }
die() { say "$*"; exit 1; }

# lock: one set-up at a time in this tree; the lock goes when this process ends.
lock() {
  mkdir -p .deps
  exec 9> .deps/lock
  flock -n 9 || { say "waiting for another set-up to finish"; flock 9; }
}

debian_package() {
  case $1 in
    java | javac) echo openjdk-17-jdk-headless ;;
    mvn) echo maven ;;
    flock) echo util-linux ;;
    *) echo "$1" ;;
  esac
}

missing_tools() { local t; for t in "$@"; do command -v "$t" > /dev/null || echo "$t"; done; }

# need_tools NAME...: installs what is missing where there is apt, and otherwise says in one line what to install.
need_tools() {
  local missing packages=() t apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
  missing=$(missing_tools "$@")
  [ -n "$missing" ] || return 0
  command -v apt-get > /dev/null || die "missing tools, please install: ${missing//$'\n'/ }"
  for t in $missing; do packages+=("$(debian_package "$t")"); done
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || die "missing tools, please install as root: ${packages[*]}"
    apt=(sudo "${apt[@]}")
  fi
  say "installing ${packages[*]}"
  mkdir -p .deps
  { "${apt[@]}" update -qq &&
    "${apt[@]}" install -y -qq --no-install-recommends "${packages[@]}"; } \
    > .deps/apt.log 2>&1 < /dev/null || die "apt-get could not install ${packages[*]}: $(tail -n 1 .deps/apt.log) (.deps/apt.log)"
  missing=$(missing_tools "$@")
  [ -z "$missing" ] || die "still missing after apt-get: ${missing//$'\n'/ }"
}

need_go() {
  local v
  command -v go > /dev/null || die "go is not on PATH; install Go 1.26 or newer"
  v=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
  [[ $v =~ ^go([0-9]+)\.([0-9]+) ]] || return 0 # a development version of Go
  ((BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= 26)) || die "Go 1.26 or newer is needed, found $v"
}

sha256() { sha256sum "$1" | cut -d ' ' -f 1; }

# check_links DIR: a C program against the RocksDB of scripts/env.sh must compile, link, find the library and run.
# It catches a wrong prefix, a wrong libc and a wrong CPU here, where one line can say so.
check_links() {
  local out
  cat > "$1/check.c" << 'C'
#include <rocksdb/c.h>
int main(void) { rocksdb_options_t *o = rocksdb_options_create(); rocksdb_options_destroy(o); return 0; }
C
  # shellcheck disable=SC2016 # expanded by the inner shell, in the environment of env.sh
  out=$(scripts/env.sh bash -c 'eval "f=($CGO_CFLAGS) l=($CGO_LDFLAGS)"
    gcc "${f[@]}" -o "$1/check" "$1/check.c" "${l[@]}" -lrocksdb && "$1/check"' check "$1" 2>&1) ||
    die "a program against RocksDB (${ROCKSDB:-.deps/rocksdb}) does not link or run: $(grep -m 1 -iE 'error|cannot|not found' <<< "$out" || tail -n 1 <<< "$out")"
}

# own_rocksdb: ROCKSDB=system or a prefix. Nothing is downloaded, only checked.
own_rocksdb() {
  local version
  scripts/env.sh > /dev/null || exit 1 # it says itself what is wrong with ROCKSDB
  tmp=$(mktemp -d .deps/tmp.XXXXXX)
  # shellcheck disable=SC2016
  version=$(scripts/env.sh bash -c 'eval "f=($CGO_CFLAGS)"
    echo "#include <rocksdb/version.h>" | g++ "${f[@]}" -E -dM -x c++ -' 2> /dev/null |
    awk '$2 == "ROCKSDB_MAJOR" { a = $3 } $2 == "ROCKSDB_MINOR" { b = $3 } END { if (a) print a "." b }') || version=''
  [ -z "$version" ] || [ "$version" = "${rocksdb_version%.*}" ] ||
    die "RocksDB ${rocksdb_version%.*}.x is needed, ROCKSDB=$ROCKSDB has $version"
  check_links "$tmp"
}

# packaged_rocksdb: .deps/rocksdb, made aside and then moved into place whole, with its stamp in it.
packaged_rocksdb() {
  local got headers
  say "fetching RocksDB $rocksdb_version"
  tmp=$(mktemp -d .deps/tmp.XXXXXX)
  # Run in there so that no pom.xml of a parent directory is read.
  (cd "$tmp" && mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact="org.rocksdb:rocksdbjni:$rocksdb_version:jar" -DoutputDirectory="$PWD") > .deps/mvn.log 2>&1 < /dev/null ||
    die "mvn could not fetch org.rocksdb:rocksdbjni:$rocksdb_version: $(grep -m 1 ERROR .deps/mvn.log) (.deps/mvn.log)"
  got=$(sha256 "$tmp/rocksdbjni-$rocksdb_version.jar")
  [ "$got" = "$jar_sha256" ] || die "rocksdbjni-$rocksdb_version.jar has sha256 $got, not the pinned $jar_sha256; nothing was installed"
  mkdir -p "$tmp/rocksdb/lib" "$tmp/rocksdb/include/rocksdb"
  unzip -q -d "$tmp" "$tmp/rocksdbjni-$rocksdb_version.jar" "$member"
  got=$(sha256 "$tmp/$member")
  [ "$got" = "$member_sha256" ] || die "$member has sha256 $got, not the pinned $member_sha256; nothing was installed"
  # The library carries no SONAME, so a program linked with -lrocksdb asks for the file name it was found under:
  # librocksdb.so. That name plus the rpath of env.sh is all that the loader needs.
  install -m 755 "$tmp/$member" "$tmp/rocksdb/lib/librocksdb.so"
  # The artifact has no C header; grocksdb ships the very one that it is written against.
  headers=$(go list -m -f '{{.Dir}}' github.com/linxGnu/grocksdb)
  [ -f "$headers/c.h" ] || die "no c.h in the grocksdb module (${headers:-not downloaded})"
  install -m 644 "$headers/c.h" "$tmp/rocksdb/include/rocksdb/c.h"
  echo "$key" > "$tmp/rocksdb/stamp"
  rm -rf .deps/rocksdb
  mv "$tmp/rocksdb" .deps/rocksdb
  check_links "$tmp" || { rm -rf .deps/rocksdb; exit 1; }
}

if [ "${1:-}" = tools ]; then
  shift
  [ -z "$(missing_tools "$@")" ] && exit 0
  need_tools flock
  lock
  need_tools "$@"
  exit 0
fi

tools=(gcc g++ make flock)
[ -n "${ROCKSDB:-}" ] || tools+=(unzip mvn java)

# What the packaged RocksDB was made from. A changed pin or grocksdb version makes it anew.
grocksdb=$(awk '$1 == "github.com/linxGnu/grocksdb" { print $2 } $2 == "github.com/linxGnu/grocksdb" { print $3 }' go.mod)
[ -n "$grocksdb" ] || die "go.mod does not require github.com/linxGnu/grocksdb"
key="$jar_sha256 $member grocksdb $grocksdb"
done_already() { [ -z "${ROCKSDB:-}" ] && [ "$(cat .deps/rocksdb/stamp 2> /dev/null)" = "$key" ]; }

need_go
done_already && [ -z "$(missing_tools "${tools[@]}")" ] && exit 0
[ -n "$member" ] || [ -n "${ROCKSDB:-}" ] ||
  die "no packaged RocksDB for $(uname -s)/$(uname -m); set ROCKSDB=system or ROCKSDB=/path/to/prefix"
need_tools flock
lock
tmp=''
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
need_tools "${tools[@]}"
go mod download || die "go mod download failed"
if [ -n "${ROCKSDB:-}" ]; then
  own_rocksdb
elif ! done_already; then
  packaged_rocksdb
  say "ready"
fi
