import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

const zip = promisify(gzip)

/** Shorter ones are sent as they are. */
export const compressFromChars = 1024

/** Compresses the texts of addresses by gzip. The last of each address is kept, since they rarely change. */
export function createTextCompression() {
  const kept = new Map<string, { text: string; bytes: Promise<Buffer> }>()

  return (address: string, text: string): Promise<Buffer> => {
    const last = kept.get(address)
    if (last?.text === text) return last.bytes
    const bytes = zip(text)
    kept.set(address, { text, bytes })
    return bytes
  }
}
