import { isRepositoryName } from '#access/names.ts'
import { visibilities } from '#access/visibility.ts'
import { printable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { Sensitive } from '#base/sensitive.ts'
import { shellWord } from '#base/shell-word.ts'
import { fingerprintOf } from '#ssh/public-key.ts'
import { isSendable, notToken } from '../servers/connect.ts'
import { path } from '../servers/http-client.ts'
import { CommandError, clientExitCodes, UsageError } from '../terminal/command-errors.ts'
import { at, listAt, textAt, toFittedTable } from '../terminal/display.ts'
import type { Candidate, Details } from './import-candidate.ts'
import type { ImportHost } from './import-host.ts'
import type { Work } from './operation.ts'

/** A candidate with its name here. */
type Planned = Candidate & {
  name: string
  /** Why it cannot be imported. */
  fault?: string
  /** Whether that stays so when the command is repeated. */
  isLasting?: boolean
  /** The repository here that was imported from the same source. */
  known?: Known
}

/** What became of a repository. */
type Outcome = {
  source: string
  name: string
  state: 'imported' | 'present' | 'failed'
  detail: string
  toDo: string[]
}

/** Imports one repository, showing its progress after a prefix; returns it. */
export type ImportOne = (source: string, name: string, prefix: string) => Promise<Json>

/**
 * `svc import --all` and `--from`: imports repositories one after another. A failure does not stop the others. Repeated, it
 * goes on where it ended: what was imported from the same host gets what it still lacks, and nothing is overwritten.
 * Returns the exit code.
 */
export async function importAll(work: Work, importOne: ImportOne): Promise<number> {
  const candidates = await findCandidates(work)
  const planned = await plan(work, candidates)
  if (work.input.flag('dryRun')) {
    await showPlan(work, planned)
    return 0
  }
  const outcomes: Outcome[] = []
  for (const [index, repository] of planned.entries()) {
    const prefix = `${index + 1}/${planned.length} ${repository.name}`
    const outcome = await move(work, repository, { importOne, prefix })
    outcomes.push(outcome)
    if (!work.json) showOutcome(work, outcome)
  }
  const isRepeatable = outcomes.some(
    ({ state }, index) => state === 'failed' && planned[index]?.isLasting !== true,
  )
  return summarize(work, outcomes, isRepeatable)
}

/** The entries of a list, by their name in lower case. */
async function listByName({ client }: Work, list: string): Promise<Map<string, Json>> {
  const all = await client.list({ method: 'GET', path: list })
  return new Map(all.map((one) => [textAt(one, 'name').toLowerCase(), one]))
}

async function findCandidates({ input, terminal }: Work): Promise<Candidate[]> {
  const [folder, host] = [input.option('all'), input.option('from')]
  if (folder !== undefined) {
    if (host !== undefined || input.argument('source') !== '')
      throw new UsageError('--all takes the folder, and no other source.')
    const { findInFolder } = await import('./import-folder.ts')
    const visibility = input.option('visibility')
    if (visibility === undefined) return findInFolder(folder)
    if (!visibilities.some((one) => one === visibility))
      throw new UsageError(`--visibility takes ${visibilities.join(', ')}; not "${visibility}".`)
    return (await findInFolder(folder)).map((one) => ({ ...one, visibility }))
  }
  if (input.option('visibility') !== undefined)
    throw new UsageError('--visibility is for --all; with --from, it is that at the host.')
  if (input.argument('name') !== '')
    throw new UsageError('With --from, the only argument is the address of the host.')
  const { findOnHost } = await import('./import-host.ts')
  const { readTokenFor } = await import('../terminal/given-values.ts')
  const address = input.argument('source')
  const token = await readTokenFor(address, terminal)
  if (!isSendable(token)) throw new Error(notToken)
  // Commander accepts no other value.
  return findOnHost({
    host: host as ImportHost,
    address,
    token: new Sensitive(token),
    timeoutMs: hostTimeoutMs,
  })
}

const hostTimeoutMs = 60_000

/** What details the host did not give. */
function notRead(details: Details | undefined): string {
  return details && details.unread.length > 0 ? `Not read: ${details.unread.join(', ')}.` : ''
}

/**
 * Gives each repository a name: the last part of its path, in the namespace that is called like the part before it, if there
 * is one.
 */
async function plan(work: Work, candidates: Candidate[]): Promise<Planned[]> {
  const namespaces = await listByName(work, '/namespaces')
  const repositories = await listByName(work, '/repos')
  const all: Planned[] = []
  const taken = new Map<string, string>()
  for (const candidate of candidates) {
    const [last = '', parent = ''] = candidate.path.split('/').reverse()
    const namespace = namespaces.get(parent.toLowerCase())
    const within = last.replace(/\.git$/, '')
    const name = namespace === undefined ? within : `${textAt(namespace, 'name')}/${within}`
    const key = name.toLowerCase()
    const planned = { ...candidate, name }
    const present = repositories.get(key)
    const other = taken.get(key)
    if (!isRepositoryName(name))
      all.push({ ...planned, fault: 'The name is not possible here.', isLasting: true })
    else if (present !== undefined) all.push(await comparePresent(work, planned, present))
    else if (other !== undefined)
      all.push({
        ...planned,
        fault: `The name is that of ${other}; ${adviceFor(planned)}`,
        isLasting: true,
      })
    else {
      taken.set(key, candidate.source)
      all.push(planned)
    }
  }
  return all
}

/** Adds to a candidate whose name is taken whether the repository here came from the same source. */
async function comparePresent(work: Work, planned: Planned, present: Json): Promise<Planned> {
  if (textAt(present, 'state') === 'importing')
    return { ...planned, fault: 'It is still being imported.' }
  try {
    const known = await readKnown(work, planned)
    if (known !== undefined) return { ...planned, known }
  } catch (error) {
    if (!(error instanceof Error) || isFatal(error)) throw error
    return { ...planned, fault: error.message }
  }
  const { name, source } = planned
  const reason = `did not come from ${source}, or too long ago for the event log`
  const fault = `${name} is another repository that is here, and ${reason}; ${adviceFor(planned)}`
  return { ...planned, fault, isLasting: true }
}

function adviceFor({ source }: Candidate): string {
  return `import it under another name: svc import ${shellWord(source)} NAME`
}

async function showPlan(work: Work, planned: Planned[]): Promise<void> {
  const rows: Json[] = []
  for (const [index, repository] of planned.entries()) {
    work.terminal.progress(`Reading ${index + 1}/${planned.length} ${repository.name}`)
    const details = await repository.readDetails?.()
    rows.push({
      source: repository.source,
      name: repository.name,
      visibility: repository.visibility ?? '',
      protectedBranches: details?.protections.map(({ pattern }) => pattern) ?? [],
      deployKeys: details?.deployKeys.length ?? 0,
      webhooks: details?.webhooks.length ?? 0,
      note: [repository.fault ?? '', notRead(details)].join(' ').trim(),
    })
  }
  work.terminal.progress('')
  const columns = {
    NAME: 'name',
    SOURCE: 'source',
    VISIBILITY: 'visibility',
    PROTECTED: 'protectedBranches',
    KEYS: 'deployKeys',
    WEBHOOKS: 'webhooks',
    NOTE: 'note',
  }
  const { json, terminal } = work
  if (json) return terminal.out(toSafeJson(rows))
  terminal.out(toFittedTable(columns, rows, work.columns))
  terminal.err(`${planned.length} repositories; nothing was imported.\n`)
}

async function move(
  work: Work,
  planned: Planned,
  { importOne, prefix }: { importOne: ImportOne; prefix: string },
): Promise<Outcome> {
  const { source, name, fault, known } = planned
  const about = { source, name, detail: '', toDo: [] }
  if (fault !== undefined) return { ...about, state: 'failed', detail: fault }
  const isChanged = planned.readDetails !== undefined || planned.visibility !== undefined
  if (known !== undefined && !isChanged) return { ...about, state: 'present' }
  try {
    const repository = known?.repository ?? (await importOne(planned.address, name, prefix))
    const toDo = isChanged
      ? await complete(work, planned, { repository, changed: known?.changed })
      : []
    const missing = Number(at(repository, 'missingLfsObjects') ?? 0)
    if (missing > 0) toDo.push(`Push ${missing} Git LFS objects from a clone of the source.`)
    return { ...about, state: known ? 'present' : 'imported', toDo }
  } catch (error) {
    // Without a server or a token, the others would fail, too.
    if (!(error instanceof Error) || isFatal(error)) throw error
    return { ...about, state: 'failed', detail: error.message }
  } finally {
    work.terminal.progress('')
  }
}

function isFatal(error: Error): boolean {
  return error instanceof CommandError && error.exitCode !== clientExitCodes.failure
}

/**
 * The repository of this name, with the kinds of changes since its import; undefined when it was not imported from the same
 * source, or is another owner's and would be changed.
 */
async function readKnown(
  { client }: Work,
  { name, source, readDetails, visibility }: Planned,
): Promise<Known | undefined> {
  const query = { repository: name, kind: importedKinds.join(), limit: 1000 }
  const events = await client.json({ method: 'GET', path: '/events', query })
  const list = Array.isArray(events) ? events : []
  const repository = await client.json({ method: 'GET', path: path`/repos/${name}` })
  const isChanged = readDetails !== undefined || visibility !== undefined
  const isOwn = !isChanged || textAt(repository, 'role') === 'admin'
  if (!isOwn || !list.some((event) => textAt(event, 'data.source') === source)) return undefined
  return { repository, changed: new Set(list.map((event) => textAt(event, 'kind'))) }
}

type Known = { repository: Json; changed: ReadonlySet<string> }

const importedKinds = [
  'repository.imported',
  'repository.visibility',
  'repository.default_branch',
  'repository.description',
  'protection.removed',
]

/** Gives a repository what it had at the host, as far as it lacks it. Returns what remains for a person. */
async function complete(
  work: Work,
  planned: Planned,
  { repository, changed }: { repository: Json; changed: Known['changed'] | undefined },
): Promise<string[]> {
  const { client, terminal } = work
  const { name, description = '', defaultBranch = '', visibility = 'private' } = planned
  terminal.progress(`${name}: settings`)
  const details = await planned.readDetails?.()
  const toDo: string[] = []
  const change = async (what: string, request: Parameters<typeof client.json>[0]) => {
    await client.json(request).catch((error: unknown) => {
      if (!(error instanceof Error) || isFatal(error)) throw error
      toDo.push(`${what}: ${error.message}`)
    })
  }
  const set = (what: string, body: Record<string, string>) =>
    change(what, { method: 'PATCH', path: path`/repos/${name}`, body })
  const about = toDescription(description)
  const isUnchanged = (kind: string) => changed?.has(kind) !== true
  if (about !== '' && isUnchanged('repository.description'))
    await set('Description', { description: about })
  const hasBranch = defaultBranch !== '' && at(repository, 'empty') !== true
  if (hasBranch && isUnchanged('repository.default_branch'))
    if (textAt(repository, 'defaultBranch') !== defaultBranch)
      await set('Default branch', { defaultBranch })
  const present = new Set(listAt(repository, 'protectedBranches'))
  for (const { pattern, isRestricted, forcePush } of details?.protections ?? []) {
    if (present.has(pattern)) continue
    if (!isRestricted || !isUnchanged('protection.removed')) {
      toDo.push(`Protect ${pattern}, if only owners shall push to it: svc protections add.`)
      continue
    }
    const body = { owners: forcePush ? 'any' : 'fast-forward' }
    const target = path`/repos/${name}/protections/branches/${pattern}`
    await change(`Protection of ${pattern}`, { method: 'PUT', path: target, body })
  }
  const keys = details?.deployKeys.length ? await listFingerprints(client, name) : new Set()
  for (const { name: title, publicKey, mayPush } of details?.deployKeys ?? []) {
    const [, blob = ''] = publicKey.split(' ')
    if (keys.has(fingerprintOf(Buffer.from(blob, 'base64')))) continue
    // It may have been deleted here, as one that leaked is.
    if (changed !== undefined) {
      toDo.push(`Add the deploy key ${title}, if it is not meant to be gone: svc keys add.`)
      continue
    }
    const permissions = mayPush ? ['repo:read', 'repo:write'] : ['repo:read']
    const body = { name: title.slice(0, 100), publicKey, permissions, repositories: [name] }
    await change(`Deploy key ${title}`, { method: 'POST', path: '/keys', body })
  }
  for (const url of details?.webhooks ?? [])
    toDo.push(`Create the webhook for ${url}, with a new secret: svc webhooks add.`)
  if (details && details.unread.length > 0)
    toDo.push(`Not read, since the token of the host may not: ${details.unread.join(', ')}.`)
  // Last, so that a repository is seen only when all is in its place.
  if (visibility !== 'private' && isUnchanged('repository.visibility'))
    await set('Visibility', { visibility })
  return toDo
}

/** The deploy keys that a repository has. */
async function listFingerprints(client: Work['client'], name: string): Promise<Set<string>> {
  const keys = await client.list({ method: 'GET', path: '/keys' })
  const own = keys.filter((key) => listAt(key, 'repositories').includes(name))
  return new Set(own.map((key) => textAt(key, 'fingerprint')))
}

/** The start of a description, in the form that svc takes. */
function toDescription(text: string): string {
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').trim()
  return [...line].slice(0, descriptionMaxLength).join('')
}

const descriptionMaxLength = 350

function showOutcome({ terminal }: Work, { name, source, state, detail, toDo }: Outcome): void {
  const sentences = {
    imported: `Imported ${name}.`,
    present: `${name} is here already.`,
    failed: `Not imported: ${source}. ${detail}`,
  }
  const write = state === 'failed' ? terminal.err : terminal.out
  write(`${printable(sentences[state])}\n`)
  for (const item of toDo) terminal.err(`  to do: ${printable(item)}\n`)
}

function summarize({ json, terminal }: Work, outcomes: Outcome[], isRepeatable: boolean): number {
  const count = (state: Outcome['state']) => outcomes.filter((one) => one.state === state).length
  const failed = count('failed')
  if (json) terminal.out(toSafeJson(outcomes))
  else {
    const totals = `${count('imported')} imported, ${count('present')} here already, ${failed} failed`
    terminal.out(`${totals}.${isRepeatable ? ' Repeat the command to try those again.' : ''}\n`)
  }
  return failed > 0 ? clientExitCodes.failure : 0
}
