import type { RunEntry } from '../workflow-engine/plan.ts'

const truncationNote = ' … (the rest was too long to report)'
const minLength = 64

/**
 * An entry as JSON of at most `maxBytes`. Long texts, such as the summary of a step, are truncated. A job's outputs
 * are kept whole or not at all.
 */
export function toEntryText(entry: RunEntry, maxBytes: number): string {
  const whole = JSON.stringify(entry)
  if (fits(whole, maxBytes)) return whole
  const plain = entry.kind === 'job-ended' ? withoutOutputs(entry) : entry
  for (let length = maxBytes; length >= minLength; length /= 2) {
    const text = JSON.stringify(plain, (_, value) => truncate(value, length))
    if (fits(text, maxBytes)) return text
  }
  throw new Error(`An entry of the kind ${entry.kind} cannot be truncated to ${maxBytes} bytes.`)
}

function fits(text: string, maxBytes: number): boolean {
  // A UTF-16 code unit takes at most 3 bytes in UTF-8, so the usual case needs no counting.
  return text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes
}

function withoutOutputs(entry: RunEntry & { kind: 'job-ended' }): RunEntry {
  const note = 'The outputs of this job are too long to be kept for a later attempt.'
  return { ...entry, outputs: {}, fault: entry.fault ? `${entry.fault} ${note}` : note }
}

function truncate(value: unknown, length: number): unknown {
  if (typeof value !== 'string' || value.length <= length) return value
  return value.slice(0, length).toWellFormed() + truncationNote
}
