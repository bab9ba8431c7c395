import { printable } from '#base/format.ts'

/** What the options of a push ask for: `git push -o`. */
export type PushOptions = {
  /** `leak.allow=ID`: findings of the leak guard that the push may contain. */
  allowedLeaks: string[]
  /** `wait`: the push waits for its runs, and is refused when one does not succeed. */
  isWaiting: boolean
  /** `ci.skip`: the push starts no runs. */
  skipsRuns: boolean
  /** `ci.input.NAME=value`: inputs for the runs that the push starts. */
  inputs: Record<string, string>
  /** `topic=NAME`: the change that a proposal continues. */
  topic: string | undefined
  /** Options that have no effect. */
  unknown: string[]
}

const shownMaxLength = 100

/** Reads the options of a push. One with an unknown name or a malformed value has no effect. */
export function readPushOptions(options: readonly string[]): PushOptions {
  const allowed = new Set<string>()
  const inputs = new Map<string, string>()
  const unknown: string[] = []
  let isWaiting = false
  let skipsRuns = false
  let topic: string | undefined
  for (const option of options) {
    const [, leak] = /^leak\.allow=([0-9a-f]{12})$/.exec(option) ?? []
    const [, input, value = ''] = /^ci\.input\.([A-Za-z_][\w-]{0,99})=(.*)$/s.exec(option) ?? []
    const [, name] = /^topic=([^\p{Cc}]{1,100})$/u.exec(option) ?? []
    if (option === 'wait') isWaiting = true
    else if (name !== undefined) topic = name
    else if (option === 'ci.skip') skipsRuns = true
    else if (leak !== undefined) allowed.add(leak)
    else if (input !== undefined) inputs.set(input, value)
    else unknown.push(option)
  }
  return {
    allowedLeaks: [...allowed],
    isWaiting,
    skipsRuns,
    inputs: Object.fromEntries(inputs),
    topic,
    unknown,
  }
}

/** The line for the client's terminal about an option that has no effect. */
export function unknownOption(option: string): string {
  const characters = Array.from(printable(option))
  const start = characters.slice(0, shownMaxLength).join('')
  const shown = characters.length > shownMaxLength ? `${start}…` : start
  return (
    `The push option "${shown}" has no effect. The options are wait, ci.skip, ci.input.NAME=value, topic=NAME, and ` +
    'leak.allow with the id of a finding.'
  )
}
