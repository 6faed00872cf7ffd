#!/usr/bin/env bash
# The build environment, defined here and nowhere else: make, CI and a user all take it from this script.
#
#   eval "$(scripts/env.sh)"     set it in a shell (the same as: eval "$(make -s env)")
#   scripts/env.sh CMD ARG...    run one command in it
#
# Variables that it reads:
#   ROCKSDB       which RocksDB to build against
#                   unset or empty   the packaged one that `make deps` lays into .deps/rocksdb
#                   system           the system's own, found by pkg-config (PKG_CONFIG_PATH works) or, failing that,
#                                    on the compiler's default paths
#                   /path/to/prefix  the one in PREFIX/include and PREFIX/lib (or PREFIX/lib64)
#                 A RocksDB of your own must be 11.1.x, as a shared library.
#   CGO_CFLAGS, CGO_LDFLAGS, GOFLAGS   kept; what forebay needs is added to them once
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { echo "forebay: $*" >&2; exit 1; }
command -v go > /dev/null || die "go is not on PATH; install Go 1.26 or newer"

# flag FLAG: as one word of a CGO_*FLAGS variable. The go command reads quotes there, so a path may hold spaces.
flag() { case $1 in *[[:space:]]*) printf "'%s'" "$1" ;; *) printf %s "$1" ;; esac; }

rocksdb=${ROCKSDB:-}
case $rocksdb in
  '')
    include=$root/.deps/rocksdb/include lib=$root/.deps/rocksdb/lib ;;
  system)
    include='' lib='' ;;
  /*)
    [ -d "$rocksdb/include" ] || die "ROCKSDB=$rocksdb has no include directory"
    include=$rocksdb/include lib=$rocksdb/lib
    compgen -G "$lib/librocksdb.*" > /dev/null || lib=$rocksdb/lib64 ;;
  *)
    die "ROCKSDB must be empty, 'system' or an absolute path, not '$rocksdb'" ;;
esac
if [ -n "$include" ]; then
  cflags=$(flag "-I$include")
  # The rpath spares every program and test an LD_LIBRARY_PATH.
  ldflags="$(flag "-L$lib") $(flag "-Wl,-rpath,$lib")"
elif pkg-config --exists rocksdb 2> /dev/null; then
  cflags=$(pkg-config --cflags rocksdb) ldflags=$(pkg-config --libs rocksdb)
else
  cflags='' ldflags=''
fi

# `go env` also knows what `go env -w` stored, and the default -O2 -g, which setting the variable would otherwise lose.
# Asked from / because a go.mod could make the go command switch toolchains.
{ read -r base_cflags; read -r base_ldflags; read -r base_goflags; } < <(cd / && go env CGO_CFLAGS CGO_LDFLAGS GOFLAGS)

# add OURS BASE: both, ours first as the first -I and -L wins. BASE has ours already when the output was eval'd before.
add() {
  local ours=$1 base=$2
  [ -z "$ours" ] || base=${base//"$ours"/}
  # shellcheck disable=SC2086 # unquoted on purpose: joins without stray blanks; set -f keeps globs
  (set -f; IFS=' '; set -- $ours $base; echo "$*")
}

# Without this tag grocksdb also links zlib, snappy, lz4 and zstd by name; the RocksDB library holds or loads them itself.
# The go command takes only the last -tags, so tags already in GOFLAGS are merged with it.
tags=grocksdb_clean_link goflags=''
for f in $base_goflags; do
  case $f in
    -tags=* | --tags=*)
      IFS=, read -ra have <<< "${f#*=}"
      for t in "${have[@]}"; do [[ ,$tags, = *,"$t",* ]] || tags+=,$t; done ;;
    *) goflags+="$f " ;;
  esac
done

CGO_ENABLED=1
CGO_CFLAGS=$(add "$cflags" "$base_cflags")
CGO_LDFLAGS=$(add "$ldflags" "$base_ldflags")
GOFLAGS=$goflags-tags=$tags
export CGO_ENABLED CGO_CFLAGS CGO_LDFLAGS GOFLAGS

if [ $# -gt 0 ]; then
  exec "$@"
fi
for v in CGO_ENABLED CGO_CFLAGS CGO_LDFLAGS GOFLAGS ${rocksdb:+ROCKSDB}; do
  printf "export %s='%s'\n" "$v" "${!v//\'/\'\\\'\'}"
done
