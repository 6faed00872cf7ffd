#!/usr/bin/env bash
# Random scripts on Kafka Streams and on forebay, compared (docs/interop.md). The last line is
# "N operations, U unexplained, K explained"; the exit code is 1 if U is not 0.
#
#   SEED     of the scripts, 1 if unset
#   OPS      operations per family, 20000 if unset
#   FAMILY   only this one: kv, window, session or versioned
#   KAFKA    the release of Kafka Streams, 4.4.0 if unset
#   SCRIPT   a file with one script, as a difference prints it, instead of random ones
set -euo pipefail
script=${SCRIPT:+$(realpath -- "$SCRIPT")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/interop.sh > /dev/null
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
scripts/env.sh go test -c -o "$dir/interop" ./interop/replay
[ -n "$script" ] || echo "SEED=${SEED:-1} OPS=${OPS:-20000} KAFKA=${KAFKA:-4.4.0}"
cd interop/replay
FOREBAY_REQUIRE_BROKER=1 FOREBAY_SEED=${SEED:-} FOREBAY_OPS=${OPS:-} FOREBAY_FAMILY=${FAMILY:-} FOREBAY_SCRIPT=$script \
  "$dir/interop" -test.run '^TestInterop$' -test.timeout 0 | { grep -vxE 'PASS|FAIL' || true; }
