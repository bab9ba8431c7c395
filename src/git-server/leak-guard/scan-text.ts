import { hash } from 'node:crypto'
import type { Credential, LeakRule, ScannedText } from './credential.ts'
import { createSecretKeyFinder, leakRules } from './rules.ts'

// The prefixes of all rules, or their beginnings.
const prefixes =
  /svc(?:run(?:ner)?)?_|-----BEGIN |PuTTY-User-Key-File-|gh[pousr]_|github_pat_|A[KS]IA|AIza|xox[bpares]-|xapp-|hooks\.slack\.com\/|[sr]k_live_|npm_|pypi-AgE|sk-|gl(?:pat|dt|rt|ptt|cbt|soat)-|do[opr]_v1_|SG\.|AccountKey=|hf_|dckr_pat_|shp(?:at|ca|pa|ss)_|hv[sb]\.|lin_api_|dapi/g

const rulesByPrefix = groupRules()

// Any further ones are found once these are removed.
const maxCredentials = 200
const secretMaxLength = 128
// Longer steps would delay the other requests of this process.
const stepMs = 4

/** Finds the credentials in the content of a file or in a message, each once, in linear time. */
export function scanText(content: Buffer): Credential[] {
  const steps = scanInSteps(content)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** The same; yields between steps of a few milliseconds. A hostile text of 5 MiB takes about a second. */
export function* scanInSteps(content: Buffer): Generator<void, Credential[], void> {
  const found = new Map<string, Credential>()
  for (const text of textsOf(content)) {
    if (text.search(prefixes) !== -1) yield* scanOne(text, found)
  }
  return [...found.values()]
}

function* scanOne(text: string, found: Map<string, Credential>): Generator<void, void, void> {
  const scanned: ScannedText = { text, secretKeyBetween: createSecretKeyFinder(text) }
  let line = 1
  let counted = 0
  let stepEnd = performance.now() + stepMs
  for (const { 0: prefix, index: at } of text.matchAll(prefixes)) {
    if (performance.now() > stepEnd) {
      yield
      stepEnd = performance.now() + stepMs
    }
    for (const rule of rulesByPrefix.get(prefix) ?? []) {
      const credential = rule.find(scanned, at)
      if (!credential) continue
      const { kind = rule.kind } = credential
      const secret = toRetained(credential.secret)
      const key = `${kind}\0${secret}`
      if (found.has(key)) continue
      line += newlinesBetween(text, counted, at)
      counted = at
      found.set(key, { kind, secret, line })
    }
    if (found.size >= maxCredentials) break
  }
}

/** A copy, since a part of a string keeps all of it in memory; of a long one, such as a private key, the hash. */
function toRetained(secret: string): string {
  if (secret.length > secretMaxLength) return hash('sha256', secret)
  return Buffer.from(secret).toString()
}

function groupRules(): Map<string, LeakRule[]> {
  const groups = new Map<string, LeakRule[]>()
  for (const rule of leakRules) {
    const keys = rule.prefixes.map((own) => own.match(prefixes)?.[0] ?? own)
    for (const key of new Set(keys)) groups.set(key, [...(groups.get(key) ?? []), rule])
  }
  return groups
}

const sampleBytes = 4096
// ASCII in UTF-16 or UTF-32 of either byte order, at least as long as most credentials.
const wideText = /(?:[\x20-\x7e]\0(?:\0\0)?){20}/

/**
 * What to scan. A file is read as Latin-1, so that bytes of any encoding are kept. One in UTF-16 or UTF-32, or with parts
 * in them, as programs and texts without a byte order mark can have, is read without its zeros: it may have ASCII, too.
 */
function textsOf(content: Buffer): string[] {
  const text = content.toString('latin1')
  const wide = fromUtf32(content) ?? fromUtf16(content)
  if (wide !== undefined) return [wide, text.replaceAll('\0', '')]
  return content.includes(0) && wideText.test(text) ? [text, text.replaceAll('\0', '')] : [text]
}

type ByteOrder = 'little-endian' | 'big-endian'

/** The byte order of a text that begins with the mark of UTF-16, or has a zero in most pairs of bytes, always in the same place. */
function utf16Of(content: Buffer): ByteOrder | undefined {
  const [first, second] = content
  if (first === 0xff && second === 0xfe) return 'little-endian'
  if (first === 0xfe && second === 0xff) return 'big-endian'
  const end = Math.min(content.length, sampleBytes) & ~1
  const zeros = [0, 0]
  for (let at = 0; at < end; at++) if (content[at] === 0) zeros[at & 1] = (zeros[at & 1] ?? 0) + 1
  const [even = 0, odd = 0] = zeros
  if (end === 0 || Math.min(even, odd) > 0 || Math.max(even, odd) <= end / 4) return undefined
  return even === 0 ? 'little-endian' : 'big-endian'
}

function fromUtf16(content: Buffer): string | undefined {
  const order = utf16Of(content)
  if (order === undefined) return undefined
  const pairs = content.subarray(0, content.length & ~1)
  return (order === 'little-endian' ? pairs : Buffer.from(pairs).swap16()).toString('utf16le')
}

/** The byte order of a text whose groups of four bytes are characters of Unicode. */
function utf32Of(content: Buffer): ByteOrder | undefined {
  const end = Math.min(content.length, sampleBytes) & ~3
  const isOf = (high: number, next: number) => {
    for (let at = 0; at < end; at += 4)
      if (content[at + high] !== 0 || (content[at + next] ?? 0) > 0x10) return false
    return end > 0
  }
  if (isOf(3, 2)) return 'little-endian'
  return isOf(0, 1) ? 'big-endian' : undefined
}

/** Characters beyond 16 bits are in no credential, and are replaced. */
function fromUtf32(content: Buffer): string | undefined {
  const order = utf32Of(content)
  if (order === undefined) return undefined
  const units = Buffer.alloc((content.length >> 2) * 2)
  for (let at = 0; at + 3 < content.length; at += 4) {
    const code = order === 'little-endian' ? content.readUInt32LE(at) : content.readUInt32BE(at)
    units.writeUInt16LE(code > 0xffff ? 0xfffd : code, at >> 1)
  }
  return units.toString('utf16le')
}

function newlinesBetween(text: string, start: number, end: number): number {
  let count = 0
  for (let at = text.indexOf('\n', start); at !== -1 && at < end; at = text.indexOf('\n', at + 1))
    count++
  return count
}
