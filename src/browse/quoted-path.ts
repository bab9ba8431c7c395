import type { RawPath } from './api-path.ts'

/** Reads a path as git prints it without `-z`: in quotes, with escapes as in C, if it has unusual characters. */
export function unquotePath(printed: string): RawPath {
  if (!printed.startsWith('"')) return printed
  return printed
    .slice(1, -1)
    .replace(/\\([0-7]{3}|.)/gs, (_, code: string) =>
      code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (escapes[code] ?? code),
    )
}

const escapes: Record<string, string> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
}
