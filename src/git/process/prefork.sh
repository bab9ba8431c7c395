#!/bin/sh
# Waits until descriptor 3 says what to become: see preforked-process.ts, toOrder. A process can only limit itself, so it does so on its
# way. Values come in lines, one that has line ends in parts. Where sessions are groups of their own to the scheduler
# (sched(7), autogroup), nice(1) counts only within them.
newline='
'
while IFS= read -r kind <&3 && [ "$kind" != go ]; do
  IFS= read -r value <&3 || exit
  case $kind in
  part) text=$text$value$newline && continue ;;
  memory) ulimit -d "$value" ;;
  file) ulimit -f "$value" ;;
  # At the soft limit comes SIGXCPU, which nothing else sends; at the hard one SIGKILL. No memory is dumped to a file.
  cpu) ulimit -c 0 && ulimit -S -t "$value" && ulimit -H -t "$((value + 1))" ;;
  nice)
    { echo 19 >/proc/self/autogroup; ionice -c 3 -p $$; } >/dev/null 2>&1
    set -- nice -n "$value"
    ;;
  variable) export "$text$value" ;;
  word) set -- "$@" "$text$value" ;;
  esac || exit
  text=
done
[ "$kind" = go ] && exec "$@"
