#!/usr/bin/env bash
# The driver of real Kafka Streams that the tests against it need: resolved and compiled from interop/java into
# .deps/interop/VERSION once per version of its sources. Prints the file that holds its classpath.
#
#   KAFKA   the release of Kafka Streams, 4.4.0 if unset
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
src=$root/interop/java kafka=${KAFKA:-4.4.0}
dir=$root/.deps/interop/$kafka

say() { echo "forebay: $*" >&2; }
die() { say "$*"; exit 1; }

# ready: made from these sources, and no jar has gone from the local repository since.
ready() {
  local jars jar
  [ "$(cat "$dir/stamp" 2> /dev/null)" = "$key" ] && IFS=: read -ra jars < "$dir/classpath" || return 1
  for jar in "${jars[@]}"; do [ -e "$jar" ] || return 1; done
}

"$root/scripts/setup.sh" tools javac mvn flock
mkdir -p "$dir"
exec 9> "$dir/lock"
flock 9
key=$(cat "$src/pom.xml" "$src"/*.java | sha256sum | cut -c 1-16)
if ! ready; then
  say "fetching Kafka Streams $kafka"
  rm -rf "$dir/stamp" "$dir/classes"
  mvn -B -q -f "$src/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath \
    -Dkafka.version="$kafka" -Dmdep.outputFile="$dir/jars" > "$dir/mvn.log" 2>&1 < /dev/null ||
    die "mvn could not fetch Kafka Streams: $(grep -m 1 ERROR "$dir/mvn.log") ($dir/mvn.log)"
  javac -Xlint:all -Xlint:-processing -Werror --release 17 -cp "$(cat "$dir/jars")" -d "$dir/classes" "$src"/*.java > "$dir/javac.log" 2>&1 ||
    die "javac: $(head -n 1 "$dir/javac.log") ($dir/javac.log)"
  echo "$dir/classes:$(cat "$dir/jars")" > "$dir/classpath"
  echo "$key" > "$dir/stamp"
fi
echo "$dir/classpath"
