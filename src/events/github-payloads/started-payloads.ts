import { type About, type Payload, toCommon } from './about.ts'

/** The payload of a `workflow_dispatch`. As on GitHub, inputs are strings here; only the `inputs` context is typed. */
export function dispatchPayload(
  ref: string,
  inputs: Record<string, string | number | boolean>,
  about: About,
): Payload {
  const texts = Object.entries(inputs).map(([name, value]) => [name, String(value)])
  return { ref, inputs: Object.fromEntries(texts), workflow: null, ...toCommon(about) }
}

/** The payload of a `schedule`. */
export function schedulePayload(schedule: string, about: About): Payload {
  return { schedule, ...toCommon(about) }
}
