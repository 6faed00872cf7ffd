#!/usr/bin/env bash
# A real single-node Kafka 4.4 broker (KRaft) on loopback, from Maven artifacts, for tests and for trying things out.
#
#   scripts/broker.sh start [DIR]   start it, wait until it answers, print its address; a running one is left as it is
#   scripts/broker.sh stop  [DIR]   stop it and remove its data; fine if none runs
#
# DIR (.deps/broker/run if not given) holds address, pid, broker.log and, while it runs, the data. Brokers in different
# DIRs do not disturb each other: every start takes free ports.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { echo "forebay: $*" >&2; }
die() { say "$*"; exit 1; }

what=${1:-} dir=${2:-$root/.deps/broker/run}
case $what in start | stop) ;; *) die "usage: scripts/broker.sh start|stop [DIR]" ;; esac

# running: whether the process in DIR/pid is this DIR's broker. The number alone could be another process's by now.
running() {
  local pid args
  pid=$(cat "$dir/pid" 2> /dev/null) && kill -0 "$pid" 2> /dev/null || return 1
  args=$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline" || ps -o args= -p "$pid")
  [[ $args = *" $dir/server.properties"* ]]
}

# alive PID: a process that has ended but that nobody has reaped yet does not count.
alive() {
  kill -0 "$1" 2> /dev/null && ! grep -q "^State:.Z" "/proc/$1/status" 2> /dev/null
}

# halt: ends the broker, waits until it has really gone, and clears up.
halt() {
  if running; then
    local pid i
    pid=$(cat "$dir/pid")
    kill "$pid" 2> /dev/null || true
    for ((i = 0; i < 150; i++)); do
      alive "$pid" || break
      sleep 0.1
    done
    if running; then kill -9 "$pid" 2> /dev/null || true; fi
  fi
  rm -rf "$dir/pid" "$dir/address" "$dir/data" "$dir/server.properties"
}

if [ "$what" = stop ]; then
  [ -d "$dir" ] || exit 0
  dir=$(cd "$dir" && pwd)
  exec 8> "$dir/lock"
  flock 8
  halt
  exit 0
fi

# classpath: prints it. Resolved once per version of pom.xml, and again if a jar has gone from the local repository.
classpath() {
  local pom=$root/scripts/broker/pom.xml base=$root/.deps/broker file jar ok=1 jars
  mkdir -p "$base"
  file=$base/classpath-$(sha256sum "$pom" | cut -c 1-16)
  exec 9> "$base/lock"
  flock 9
  if [ -f "$file" ]; then
    IFS=: read -ra jars < "$file"
    for jar in "${jars[@]}"; do [ -f "$jar" ] || ok=''; done
  fi
  if [ ! -f "$file" ] || [ -z "$ok" ]; then
    say "fetching the Kafka broker"
    mvn -B -q -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath \
      -Dmdep.outputFile="$file.new" > "$base/mvn.log" 2>&1 < /dev/null ||
      die "mvn could not fetch the Kafka broker: $(grep -m 1 ERROR "$base/mvn.log") ($base/mvn.log)"
    echo >> "$file.new" # so that `read` above sees a whole line
    mv "$file.new" "$file"
  fi
  cat "$file"
}

# pick_port: sets port to one that nothing listens on, below the range that outgoing connections are given.
pick_port() {
  while :; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || return 0
  done
}

# answers PORT: whether a Kafka broker replies to an ApiVersions request with its correlation id, 1.
answers() {
  local reply
  reply=$( (exec 3<> "/dev/tcp/127.0.0.1/$1" && printf '\0\0\0\012\0\022\0\0\0\0\0\001\377\377' >&3 &&
    timeout 5 head -c 8 <&3 | od -An -tx1 | tr -d ' \n') 2> /dev/null) || return 1
  [ "${reply:8}" = 00000001 ]
}

# launch: one try. 0: it answers. 1: it ended or did not answer in time.
launch() {
  local controller i
  pick_port; controller=$port
  pick_port; while [ "$port" = "$controller" ]; do pick_port; done
  rm -rf "$dir/data"
  cat > "$dir/server.properties" << P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
# Tests create their topics on purpose; a misspelt name must not make one.
auto.create.topics.enable=false
# One node and one partition of everything internal.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
# No waiting: consumer groups form at once, and compaction is soon seen to happen.
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=1000
# Small, for a heap of 512 MB.
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=2
num.io.threads=4
P
  java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$cp" kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg \
    -c "$dir/server.properties" > "$dir/format.log" 2>&1 < /dev/null 8>&- || { cp "$dir/format.log" "$dir/broker.log"; return 1; }
  # A session of its own: Ctrl-C in a terminal must not reach it before the script that stops it in order.
  setsid java -Xmx512m -XX:+UseSerialGC -cp "$cp" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS \
    -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info \
    kafka.Kafka "$dir/server.properties" > "$dir/broker.log" 2>&1 < /dev/null 8>&- &
  pid=$!
  echo "$pid" > "$dir/pid"
  for ((i = 0; i < 600; i++)); do
    # The line in its log says that the one which answers is this one.
    if grep -q 'Kafka Server started' "$dir/broker.log" && answers "$port"; then return 0; fi
    alive "$pid" || return 1
    sleep 0.2
  done
  return 1
}

"$root/scripts/setup.sh" tools java mvn flock
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 8> "$dir/lock"
flock 8
if running && [ -s "$dir/address" ]; then
  cat "$dir/address"
  exit 0
fi
halt
pid=''
give_up() { [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || true; halt; }
trap give_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp=$(classpath)
for try in 1 2 3; do
  if launch; then
    echo "127.0.0.1:$port" > "$dir/address.new"
    mv "$dir/address.new" "$dir/address"
    trap - EXIT
    cat "$dir/address"
    exit 0
  fi
  give_up
  # Another process can take a port between the look and the bind.
  grep -q 'Address already in use' "$dir/broker.log" || break
done
die "the Kafka broker did not start (try $try): $(grep -m 1 -E 'ERROR|FATAL|Exception|Error' "$dir/broker.log" || tail -n 1 "$dir/broker.log") ($dir/broker.log)"
