import assert from 'node:assert/strict'
import { type Answer, type Client, toAnswer } from './service.ts'

type Wanted = { source: string; name?: string }
type Caller = Pick<Client, 'token' | 'get'>

/** Asks for an import with a `Prefer` header, and perhaps a signal that hangs up. */
export async function requestImport(
  url: string,
  { token }: Pick<Client, 'token'>,
  wanted: Wanted,
  { prefer, signal }: { prefer?: string; signal?: AbortSignal } = {},
): Promise<Answer> {
  const response = await fetch(`${url}/repos/import`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      ...(prefer !== undefined && { prefer }),
    },
    body: JSON.stringify(wanted),
    ...(signal && { signal }),
  })
  return toAnswer(response)
}

/** Starts an asynchronous import; returns its repository. */
export async function importAsync(client: Caller & { url: string }, wanted: Wanted) {
  const answer = await requestImport(client.url, client, wanted, { prefer: 'respond-async' })
  assert.equal(answer.status, 202, answer.text)
  return answer.body
}
