#!/usr/bin/env bash
# Kills processes that work on a store, and checks what is left: see internal/crash. The last line of its output is
# "n cycles, 0 lost, 0 invented", or it fails.
#
#   CYCLES   how many kills (200)
#   SEED     of all that is chosen (random)
#   GROUP    only the cycles of this group, as a failure names it
#   TMPDIR   where the state directories lie
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
GOFLAGS="${GOFLAGS:-} -tags=failpoints" scripts/env.sh go test -c -o "$dir/crash.test" ./internal/crash
GOFLAGS="${GOFLAGS:-} -tags=failpoints" scripts/env.sh go test -timeout 5m -run Bulk ./migration
CRASH_CYCLES=${CYCLES:-200} CRASH_SEED=${SEED:-} CRASH_GROUP=${GROUP:-} "$dir/crash.test"
