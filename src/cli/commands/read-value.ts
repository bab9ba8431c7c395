import { Sensitive } from '#base/sensitive.ts'
import { trimEndOf } from '#base/trim-end.ts'
import type { Terminal } from './terminal.ts'

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
