import { createReadStream } from 'node:fs'
import { text } from 'node:stream/consumers'
import { Sensitive } from '#base/sensitive.ts'
import { trimEndOf } from '#base/trim-end.ts'
import type { Terminal } from './terminal.ts'

const maxFileBytes = 65_536
const reasons: Record<string, string> = {
  ENOENT: 'no such file',
  EISDIR: 'it is a directory',
  EACCES: 'permission denied',
}

/** Reads a public key from a .pub file, the argument itself, or standard input. */
export async function readKey(key: string | undefined, { read, ask }: Terminal): Promise<string> {
  if (key === '-' || (key === undefined && !ask)) return (await read()).toString('utf8')
  if (key === undefined) {
    throw new Error('Give the key: the path of a .pub file, its content, or - for standard input.')
  }
  return isPath(key) ? readFileStart(key) : key
}

// A public key is one line, with base64 that begins with AAAA after the type.
function isPath(key: string): boolean {
  return !/[\r\n]|[ \t]AAAA/.test(key)
}

// Reads a limited part: the path may name the wrong file.
async function readFileStart(path: string): Promise<string> {
  try {
    return await text(createReadStream(path, { end: maxFileBytes }))
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    const reason = reasons[code] ?? message
    throw new Error(
      `The file ${JSON.stringify(path)} cannot be read: ${reason}; give a .pub file, its content, or - for standard input.`,
      { cause: error },
    )
  }
}

/**
 * Reads a secret value from a prompt or standard input. Removes trailing line ends of piped input, as `gh secret set`
 * does: echo and editors add one.
 */
export async function readValue(
  name: string,
  { read, askHidden }: Terminal,
): Promise<Sensitive<string>> {
  if (askHidden) return new Sensitive(await askHidden(`Value of ${name}: `))
  const bytes = await read()
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return new Sensitive(trimEndOf(text, '\r\n'))
  } catch {
    throw new Error(
      'The value is not UTF-8; encode it, for example as base64, and decode it in the step.',
    )
  }
}

/** Reads a token from a prompt or standard input: never an argument, which all users of a machine see. */
export async function readTokenFor(
  address: string,
  { read, askHidden }: Terminal,
): Promise<string> {
  const text = askHidden
    ? await askHidden(`Token for ${address}: `)
    : (await read()).toString('utf8')
  return text.trim()
}
