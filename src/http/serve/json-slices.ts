import { createTimeSlices } from '#base/time-slices.ts'

const sliceLength = 100

/** Encodes a result as a line of JSON. A long list is encoded in slices: at once, it would block the event loop. */
export async function toJson(result: unknown): Promise<string | Buffer> {
  if (!Array.isArray(result) || result.length <= sliceLength) return `${JSON.stringify(result)}\n`
  const slices = createTimeSlices()
  const parts: Buffer[] = []
  for (let start = 0; start < result.length; start += sliceLength) {
    const text = JSON.stringify(result.slice(start, start + sliceLength))
    parts.push(Buffer.from((start === 0 ? '[' : ',') + text.slice(1, -1)))
    await slices.rest()
  }
  return Buffer.concat([...parts, Buffer.from(']\n')])
}
