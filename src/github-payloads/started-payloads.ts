import { type About, type Payload, toCommon } from './about.ts'

/** Of a dispatch; its inputs are texts, as on GitHub, where `inputs` alone has them by their types. */
export function dispatchPayload(
  ref: string,
  inputs: Record<string, string | number | boolean>,
  about: About,
): Payload {
  const texts = Object.entries(inputs).map(([name, value]) => [name, String(value)])
  return { ref, inputs: Object.fromEntries(texts), workflow: null, ...toCommon(about) }
}

/** Of a time of `on.schedule`. */
export function schedulePayload(schedule: string, about: About): Payload {
  return { schedule, ...toCommon(about) }
}
