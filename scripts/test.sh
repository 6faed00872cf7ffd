#!/usr/bin/env bash
# All tests, against a real broker that is started for them and stopped again however they end. With arguments only
# these are given to go test.
#
#   FOREBAY_BROKER   use the broker at this address instead of starting one
#   GOTESTFLAGS      flags for both go test runs (-count=1 -timeout=40m if unset)
#   RACE_PKGS        package patterns to test once more under the race detector; those that do not exist are left out
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Every background command gets a process group, so that an interrupt can end go test and all its test programs.
set -m

child='' dir=''
finish() {
  local rc=$?
  trap '' INT TERM
  [ -z "$child" ] || { kill -TERM -- "-$child" 2> /dev/null && wait "$child" 2> /dev/null; } || true
  if [ -n "$dir" ]; then
    scripts/broker.sh stop "$dir" || true
    mv -f "$dir/broker.log" .deps/broker/last-test.log 2> /dev/null || true
    rm -rf "$dir"
  fi
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

run() {
  local rc=0
  "$@" < /dev/null &
  child=$!
  wait "$child" || rc=$?
  child=''
  return "$rc"
}

if [ -z "${FOREBAY_BROKER:-}" ]; then
  mkdir -p .deps/broker
  dir=$(mktemp -d "$PWD/.deps/broker/test.XXXXXX")
  run scripts/broker.sh start "$dir" > /dev/null
  FOREBAY_BROKER=$(cat "$dir/address")
  echo "Kafka broker at $FOREBAY_BROKER"
fi
export FOREBAY_BROKER FOREBAY_REQUIRE_BROKER=1
run scripts/interop.sh > /dev/null

read -ra flags <<< "${GOTESTFLAGS--count=1 -timeout=40m}"
if [ $# -gt 0 ]; then
  run scripts/env.sh go test "${flags[@]}" "$@"
  exit 0
fi
echo "go test ./..."
run scripts/env.sh go test "${flags[@]}" ./...

race=()
for pattern in ${RACE_PKGS:-}; do
  [ -n "$(find "${pattern%/...}" -name '*.go' -print -quit 2> /dev/null)" ] && race+=("$pattern")
done
if [ ${#race[@]} -gt 0 ]; then
  echo "go test -race ${race[*]}"
  run scripts/env.sh go test -race "${flags[@]}" "${race[@]}"
fi

echo "make crash CYCLES=200"
CYCLES=200 run scripts/crash.sh
