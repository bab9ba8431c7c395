let waiting: (() => void)[] = []

/**
 * Does something at the end of this turn of the event loop, together with all else that waits for it. Each write to a
 * socket wakes up who reads it; those that follow at once find them awake, which takes the kernel a fraction of the time.
 */
export function atEndOfTick(act: () => void): void {
  if (waiting.push(act) === 1) setImmediate(actAll)
}

function actAll(): void {
  const acts = waiting
  waiting = []
  for (const act of acts) act()
}
