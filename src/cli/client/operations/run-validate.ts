import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { at, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { pathOf } from './option-values.ts'

/** `svc runs validate`: the exit code is 1 if a file has a fault. */
export async function runValidate({ client, input, json, terminal }: Work): Promise<number> {
  const body = await client.json({
    method: 'POST',
    path: path`/repos/${input.argument('repository')}/workflows/validate`,
    body: { branch: input.option('branch'), files: input.list('file')?.map(pathOf) },
  })
  const isValid = at(body, 'valid') === true
  const lines = [
    ...linesOf(at(body, 'faults'), ({ message, instead }) => `${message} ${instead}`),
    ...linesOf(at(body, 'notes'), ({ message }) => `note: ${message}`),
    ...(isValid ? ['The workflow files are valid.\n'] : []),
  ]
  terminal.out(json ? toSafeJson(body) : lines.join(''))
  return isValid ? 0 : 1
}

type Finding = { message: string; instead: string }

function linesOf(found: unknown, format: (finding: Finding) => string): string[] {
  return (Array.isArray(found) ? found : []).map((one) => {
    const position = ['file', 'line', 'column'].map((name) => textAt(one, name)).join(':')
    const text = format({ message: textAt(one, 'message'), instead: textAt(one, 'instead') })
    return `${printable(`${position}: ${text}`)}\n`
  })
}
