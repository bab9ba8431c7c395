import type { Readable } from 'node:stream'

const readMost = 65_536
const keptMost = 16_384
const headersKeptMost = 8192
// By then the head of the answer has decided; the rest is only for whoever looks at the delivery.
const patienceMs = 2000

/**
 * The first bytes of an answer as text, exactly as they came: nothing is decoded. Never rejects but with the
 * reason of the signal; what breaks off or takes too long is what has come until then.
 */
export async function readResponse(body: Readable, signal: AbortSignal): Promise<string> {
  const kept: Buffer[] = []
  let read = 0
  const end = () => void body.destroy()
  const timer = setTimeout(end, patienceMs)
  signal.addEventListener('abort', end)
  try {
    for await (const chunk of body) {
      if (read < keptMost) kept.push(chunk.subarray(0, keptMost - read))
      read += chunk.length
      if (read >= readMost) break
    }
  } catch {
    // It has been decided what came of the attempt.
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
  }
  // A character that is cut off at the end is left out.
  const text = new TextDecoder().decode(Buffer.concat(kept), { stream: true })
  return text.replaceAll('\0', '\ufffd')
}

/** Headers of an answer as they are recorded, at most 8 KiB of them. */
export function toRecorded(
  headers: Record<string, string | string[] | undefined>,
): Record<string, string> {
  const recorded: Record<string, string> = {}
  let left = headersKeptMost
  for (const [name, value = ''] of Object.entries(headers)) {
    const text = name === 'set-cookie' ? '[hidden]' : [value].flat().join(', ')
    left -= name.length + text.length
    if (left < 0) break
    recorded[name] = text
  }
  return recorded
}
