import type { App } from '#app.ts'
import { toDate, toTable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { Rotated } from '#secrets/rotation.ts'
import { localPrincipal } from './local.ts'
import { readValue } from './read-value.ts'
import type { Terminal } from './terminal.ts'

type Json = { json?: boolean }
type RotateOptions = Json & { discardUnreadable?: boolean; yes?: boolean }

const progressEvery = 100

/** `svc secrets list` */
export async function printSecrets(app: App, name: string, { json }: Json, { out }: Terminal) {
  const repository = await app.repositories.open(localPrincipal, name, 'secrets:read')
  const rows = await app.secrets.list(repository, { after: '', limit: undefined })
  if (json) return out(toSafeJson(rows.map(({ id, ...secret }) => secret)))
  const lines = rows.map((row) => [row.name, toDate(row.createdAt), toDate(row.updatedAt)])
  out(toTable([['NAME', 'CREATED', 'UPDATED'], ...lines]))
}

/** `svc secrets set` */
export async function setSecret(
  app: App,
  [repositoryName, name]: [string, string],
  { json }: Json,
  terminal: Terminal,
) {
  const repository = await app.repositories.open(localPrincipal, repositoryName, 'secrets:write')
  // A value encrypted with another key than the server's would be unusable in runs.
  await app.assertKeysOpen()
  const value = await readValue(name, terminal)
  const saved = await app.secrets.put(localPrincipal, repository, name, value)
  terminal.out(json ? toSafeJson(saved) : `${saved.message}\n`)
}

/** `svc secrets delete` */
export async function removeSecret(
  { repositories, secrets }: App,
  [repositoryName, name]: [string, string],
  { json }: Json,
  { out }: Terminal,
) {
  const repository = await repositories.open(localPrincipal, repositoryName, 'secrets:write')
  await secrets.remove(localPrincipal, repository, name)
  out(json ? toSafeJson({ name, deleted: true }) : `Deleted the secret ${name}.\n`)
}

/** `svc secrets rotate` */
export async function rotateSecrets(app: App, options: RotateOptions, terminal: Terminal) {
  const { out, err, progress, interruption } = terminal
  const report = (resealed: number) => {
    if (resealed % progressEvery === 0) progress(`Encrypted again: ${resealed}`)
  }
  const work = { report, signal: interruption() }
  const rotated = await app.rotation.rotate(work).finally(() => progress(''))
  const { resealed, unreadable } = rotated
  const discards = unreadable > 0 && options.discardUnreadable === true
  const discarded = discards ? await discard(app, rotated, options, terminal) : 0
  if (options.json) out(toSafeJson({ ...rotated, discarded }))
  else
    out(
      `Encrypted again with the first key: ${resealed}.${discards ? ` Deleted: ${discarded}.` : ''}\n`,
    )
  if (resealed > 0 && app.isServed()) {
    err('svc: A server is running. Restart it if it was started before the first key was set.\n')
  }
  if (unreadable === 0 || discards) return
  const [first] = rotated.named
  throw new Error(
    `${unreadable} cannot be decrypted: ${toNames(rotated)}; the first: ${first?.fault}. ` +
      'Add the old key after the new one, or delete these secrets with --discard-unreadable.',
  )
}

async function discard(
  { rotation, holdServer }: App,
  rotated: Rotated,
  { yes }: RotateOptions,
  { ask, interruption }: Terminal,
): Promise<number> {
  // A running server may have the key that is missing here.
  using _lock = await holdServer()
  if (ask && !yes) {
    const question = `No key decrypts ${toNames(rotated)}. Type yes to delete ${rotated.unreadable === 1 ? 'it' : 'them'}: `
    if ((await ask(question)).trim() !== 'yes') throw new Error('Nothing was deleted.')
  }
  const work = { discardsAs: localPrincipal, report: () => {}, signal: interruption() }
  return (await rotation.rotate(work)).discarded
}

function toNames({ named, unreadable }: Rotated): string {
  const names = named.map(({ repoName, name }) => `${repoName}/${name}`).join(', ')
  const more = unreadable - named.length
  return more > 0 ? `${names} and ${more} more` : names
}
