import type { Duplex } from 'node:stream'

/**
 * Starts the watchdog, a process in the same group that reads descriptor 5. When the runner closes its end, or dies for
 * any reason, the watchdog kills the group. It answers every line with the table of System V shared memory in its
 * namespace and an empty line.
 */
export const watchdogScript =
  '(while read -r _; do while read -r line; do echo "$line"; done </proc/sysvipc/shm; echo; done; kill -9 0)' +
  ' <&5 >&5 2>/dev/null 3<&- 4<&- 5<&- 6<&- 7<&- & exec 5<&- 6<&- 7<&-; '

/** The runner's end of a watchdog. */
export type Watchdog = {
  /** Bytes of System V shared memory as last reported; requests a new report. */
  sharedBytes: () => number
  /** Kills the group, and waits until the watchdog has ended. */
  end: () => Promise<void>
}

/** 4096 segments with a line each. */
const maxReportLength = 4096 * 250

/** Takes the runner's end of descriptor 5. */
export function toWatchdog(pipe: Duplex): Watchdog {
  let text = ''
  let bytes = 0
  let isRequested = false
  const closed = new Promise<void>((resolve) => pipe.on('close', resolve))
  pipe.on('error', () => {})
  pipe.setEncoding('latin1').on('data', (chunk: string) => {
    text = (text + chunk).slice(-maxReportLength)
    if (!/(^|\n)\n$/.test(text)) return
    bytes = sumOf(text)
    text = ''
    isRequested = false
  })
  return {
    sharedBytes() {
      if (!isRequested && !pipe.writableEnded) pipe.write('\n')
      isRequested = true
      return bytes
    },
    end() {
      pipe.end()
      return closed
    },
  }
}

// sysvipc(7): a header, then a line per segment that ends with its bytes in memory and in swap.
function sumOf(table: string): number {
  return table
    .split('\n')
    .slice(1)
    .flatMap((line) => line.trim().split(/ +/).slice(14, 16))
    .reduce((all, number) => all + Number(number), 0)
}
