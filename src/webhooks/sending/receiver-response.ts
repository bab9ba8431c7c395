import type { Readable } from 'node:stream'

const maxReadBytes = 65_536
const maxStoredBytes = 16_384
const maxHeaderChars = 8192
// The status already decided the outcome; the body is only stored for inspection.
const bodyTimeoutMs = 2000

/**
 * Reads the start of a response body as text, without decoding its content encoding. Never rejects: a body that breaks
 * off, is aborted or takes too long yields what has arrived.
 */
export async function readResponse(body: Readable, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = []
  let read = 0
  const end = () => void body.destroy()
  const timer = setTimeout(end, bodyTimeoutMs)
  signal.addEventListener('abort', end)
  try {
    for await (const chunk of body) {
      if (read < maxStoredBytes) chunks.push(chunk.subarray(0, maxStoredBytes - read))
      read += chunk.length
      if (read >= maxReadBytes) break
    }
  } catch {
    // The outcome of the attempt is already known.
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
  }
  // Drops an incomplete character at the end.
  const text = new TextDecoder().decode(Buffer.concat(chunks), { stream: true })
  return text.replaceAll('\0', '\ufffd')
}

/** The response headers to record, up to 8 KiB. */
export function toRecorded(
  headers: Record<string, string | string[] | undefined>,
): Record<string, string> {
  const recorded: Record<string, string> = {}
  let left = maxHeaderChars
  for (const [name, value = ''] of Object.entries(headers)) {
    const text = name === 'set-cookie' ? '[hidden]' : [value].flat().join(', ')
    left -= name.length + text.length
    if (left < 0) break
    recorded[name] = text
  }
  return recorded
}
