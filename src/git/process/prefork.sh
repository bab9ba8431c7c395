#!/bin/sh
# Reads an order from descriptor 3 (see preforked-process.ts, toOrder), applies it to itself and executes the program:
# resource limits can only be set from within a process. Each value is a line; one with newlines comes in parts. nice(1)
# works only within a session where the scheduler groups by session, hence autogroup (sched(7)).
newline='
'
while IFS= read -r kind <&3 && [ "$kind" != go ]; do
  IFS= read -r value <&3 || exit
  case $kind in
  part) text=$text$value$newline && continue ;;
  memory) ulimit -d "$value" ;;
  file) ulimit -f "$value" ;;
  # The soft limit sends SIGXCPU, which identifies the cause; the hard limit sends SIGKILL. Core dumps are off.
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
