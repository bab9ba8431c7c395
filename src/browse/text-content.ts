import { isUtf8 } from 'node:buffer'

const sampleBytes = 8000
const characterMaxBytes = 4

/** Whether bytes are text in UTF-8, judging by the first of them: without a NUL, as Git defines it. */
export function looksLikeText(bytes: Buffer): boolean {
  const sample = bytes.subarray(0, sampleBytes)
  if (sample.includes(0)) return false
  if (isUtf8(sample)) return true
  // The sample may end within a character.
  for (let cut = 1; cut < characterMaxBytes && sample.length < bytes.length; cut++)
    if (isUtf8(sample.subarray(0, -cut))) return true
  return false
}
