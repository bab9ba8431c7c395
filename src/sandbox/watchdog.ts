import type { Duplex } from 'node:stream'

/**
 * A script that leaves a guard behind, and what goes before the rest of it. The guard is a process of the same
 * group, at the other end of descriptor 5. When that is closed, by the runner or by its end, however it came, the
 * guard ends the whole group. To each line it answers with the shared memory of System V that there is in its
 * namespace, and an empty line.
 */
export const watchdogScript =
  '(while read -r _; do while read -r line; do echo "$line"; done </proc/sysvipc/shm; echo; done; kill -9 0)' +
  ' <&5 >&5 2>/dev/null 3<&- 4<&- 5<&- & exec 5<&-; '

/** A guard as the runner has it. */
export type Watchdog = {
  /** Bytes of the shared memory of System V, as told last; asks for the present ones. */
  sharedBytes: () => number
  /** Ends the group, and waits until the guard is no more. */
  end: () => Promise<void>
}

/** The longest answer: 4096 segments, of which each takes a line. */
const answerMaxLength = 4096 * 250

/** Takes the runner's end of descriptor 5. */
export function toWatchdog(pipe: Duplex): Watchdog {
  let text = ''
  let bytes = 0
  let isAsked = false
  const closed = new Promise<void>((resolve) => pipe.on('close', resolve))
  pipe.on('error', () => {})
  pipe.setEncoding('latin1').on('data', (chunk: string) => {
    text = (text + chunk).slice(-answerMaxLength)
    if (!/(^|\n)\n$/.test(text)) return
    bytes = sumOf(text)
    text = ''
    isAsked = false
  })
  return {
    sharedBytes() {
      if (!isAsked && !pipe.writableEnded) pipe.write('\n')
      isAsked = true
      return bytes
    },
    end() {
      pipe.end()
      return closed
    },
  }
}

// sysvipc(7): a line of names, then of each segment its numbers, of which the last two are bytes in memory and in swap.
function sumOf(table: string): number {
  return table
    .split('\n')
    .slice(1)
    .flatMap((line) => line.trim().split(/ +/).slice(14, 16))
    .reduce((all, number) => all + Number(number), 0)
}
