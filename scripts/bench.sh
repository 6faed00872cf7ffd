#!/usr/bin/env bash
# The benchmarks beside raw RocksDB and Kafka Streams, with a real broker that is started for them and stopped again.
# Arguments go to the bench command.
#
#   ROWS, ROUNDS      rows of a store, and rounds in which the contenders alternate
#   FOREBAY_BROKER    use the broker at this address instead of starting one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=
finish() {
  if [ -n "$dir" ]; then
    scripts/broker.sh stop "$dir" || true
    rm -rf "$dir"
  fi
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -z "${FOREBAY_BROKER:-}" ]; then
  mkdir -p .deps/broker
  dir=$(mktemp -d "$PWD/.deps/broker/bench.XXXXXX")
  scripts/broker.sh start "$dir" > /dev/null
  FOREBAY_BROKER=$(cat "$dir/address")
fi
classpath=$(scripts/interop.sh | tail -n 1)
mkdir -p .deps/bench
scripts/env.sh go build -o .deps/bench/bench ./bench
scripts/env.sh .deps/bench/bench -rows "${ROWS:-1000000}" -rounds "${ROUNDS:-5}" -broker "$FOREBAY_BROKER" -classpath "$classpath" "$@"
