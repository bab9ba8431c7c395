#!/usr/bin/env bash
# Runs the tests under conditions in which tests fail that depend on time, order, ports or the disk, and prints a line
# for each run. It ends with 1 if a run failed, whose output it keeps. As root, since it mounts a disk and binds ports.
#
#   scripts/test-often.sh            all conditions
#   scripts/test-often.sh busy=10    npm test ten times beside two busy loops
#   scripts/test-often.sh slow-disk  npm test once on a slow disk
set -euo pipefail
cd "$(dirname "$0")/.."
export SVC_TEST_REQUIRE=all

outputs=$(mktemp -d)
started=()
disk=
failed=0

clean_up() {
  ((${#started[@]} == 0)) || kill "${started[@]}" 2>/dev/null || true
  started=()
  [[ -z $disk ]] || { throttle 0 && umount "$disk" && rm -rf "$disk" "$disk.img"; }
  disk=
}
trap clean_up EXIT

# Runs a command, and prints its condition, how long it took and its last line.
run() {
  local condition=$1 output=$outputs/$1 begun=$SECONDS result=passed
  shift
  "$@" >"$output" 2>&1 || { result=FAILED && failed=1; }
  printf '%-12s %s  %3d:%02d  %s\n' "$condition" "$result" $(((SECONDS - begun) / 60)) \
    $(((SECONDS - begun) % 60)) "$(tail -n 1 "$output")"
  [[ $result == passed ]] || { sed -n '/^✗/p' "$output" | sort -u && echo "  $output"; }
}

busy_loops() {
  for _ in 1 2; do
    while :; do :; done &
    started+=($!)
  done
}

busy() { busy_loops && run "busy-$1" npm test && clean_up; }
all() { run "all-$1" npm run test:all; }
one-core() { run one-core taskset -c 0 npm test; }
four-cores() { run four-cores taskset -c "0-$(($(nproc) < 4 ? $(nproc) - 1 : 3))" npm test; }

# Limits the writes of the slow disk, in operations per second; 0 for no limit.
throttle() {
  local device
  device=$(findmnt -n -o SOURCE "$disk")
  echo "$(stat -c '%Hr:%Lr' "$device") $1" >/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device
}

# A loop device that writes as slowly as a disk that turns.
slow-disk() {
  disk=$(mktemp -d)
  truncate -s 16G "$disk.img"
  mkfs.ext4 -q "$disk.img"
  mount -o loop "$disk.img" "$disk"
  chmod 1777 "$disk"
  throttle 300
  TMPDIR=$disk run slow-disk npm test
  clean_up
}

# Ports on which services usually listen, on loopback.
taken-ports() {
  node -e '
    for (const port of [22, 80, 443, 2222, 3000, 5432, 6379, 6789, 7480, 8000, 8080, 8081, 8443, 9000, 9090, 9418])
      require("node:net").createServer().on("error", () => {}).listen(port, "127.0.0.1")' &
  started+=($!)
  run taken-ports npm test
  clean_up
}

(($#)) || set -- busy=10 all=2 one-core four-cores slow-disk taken-ports
for wanted; do
  condition=${wanted%%=*}
  count=1
  [[ $wanted != *=* ]] || count=${wanted#*=}
  for ((number = 1; number <= count; number++)); do "$condition" "$number"; done
done
((failed)) || rm -rf "$outputs"
exit "$failed"
