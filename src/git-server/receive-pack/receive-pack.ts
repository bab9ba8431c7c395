import { roleInsufficient } from '#access/may.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { PushRunOptions, Via } from '#database/schema.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git, GitProcess } from '#git/process/git-process.ts'
import { closeReadersOf } from '#git/process/process-pool.ts'
import { type Authorize, answerHook } from '#git/protocol/hook-channel.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { type PushRequest, readPushRequest } from '#git/protocol/push-commands.ts'
import { type Body, limited } from '#git/protocol/request-body.ts'
import { proposalRefs, zeroId } from '#git/refs/ref-name.ts'
import { objectFormatOf } from '#git/refs/refs.ts'
import { type ProposalOptions, readProposal } from '../push/proposal.ts'
import type { Push, PushAuthority } from '../push/push.ts'
import type { PushHolds } from '../push/push-holds.ts'
import { type PushOptions, readPushOptions } from '../push/push-options.ts'
import { holdReport } from '../push/report-hold.ts'
import { unrunWorkflows } from '../push/unrun-workflows.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  type GitRequest,
  keysOf,
  type RequestOutcome,
  respondEmpty,
} from '../requests/git-request.ts'
import { respond, type WatchedRequest, watchRequest } from '../requests/respond.ts'
import type { SmallPacks } from '../small-packs/small-packs.ts'

/**
 * Serves a push: authorized when git's hook runs, and finalized before the client gets git's report. With `mayBeEmpty`
 * a request without updates gets an empty response.
 */
export type ReceivePack = (
  request: GitRequest,
  body: Body,
  mayBeEmpty: boolean,
) => Promise<RequestOutcome>

export type ReceivePackParts = {
  git: Git
  /** Readers of objects, which requests share. */
  pool: Pick<ObjectPool, 'of'>
  pushes: PushAuthority
  smallPacks: SmallPacks
  via: Via
  pushHolds: PushHolds
  limiters: Pick<GitLimiters, 'push'>
  freeSpace: Pick<FreeSpace, 'require'>
  settings: Pick<PlainSettings, 'pushMaxBytes' | 'pushMaxRefs' | 'store'>
  stallMs: number
  log: Log
}

// What a client may send before it has a permit, so that a client that thinks holds up no other.
const unpermittedMaxBytes = 64 * 1024

// The server makes a version of a change in place of the ref that is proposed to.
const proposalConfig = { 'receive.procReceiveRefs': proposalRefs.slice(0, -1) }
// With a shared store, the server moves the refs, and a directory is a cache that need not survive a power failure.
const sharedStoreConfig = { 'receive.procReceiveRefs': 'refs', 'core.fsync': 'none' }

export function createReceivePack(dependencies: ReceivePackParts): ReceivePack {
  const {
    git,
    pool,
    pushes,
    smallPacks,
    via,
    pushHolds,
    limiters,
    freeSpace,
    settings,
    stallMs,
    log,
  } = dependencies
  const hasSharedStore = settings.store !== undefined

  async function runGit(
    watched: WatchedRequest,
    pushRequest: PushRequest & Purpose,
    permit: PausablePermit,
  ): Promise<RequestOutcome> {
    const { repository, principal, response } = watched
    const ahead = await smallPacks.readAhead(pushRequest, watched)
    const { isFastForward } = ahead
    const options = readPushOptions(pushRequest.options)
    const { allowedLeaks } = options
    const isAtomic = pushRequest.capabilities.has('atomic')
    const runOptions = toRunOptions(options)
    const { proposal } = pushRequest
    const push: Push = {
      ...{ principal, repository, via, proposal },
      ...{ isAtomic, isFastForward, allowedLeaks, runOptions },
    }
    const { updates } = pushRequest
    let lines: string[] = []
    const authority: Pick<PushAuthority, 'authorize' | 'finalize'> = {
      async authorize(received, given) {
        watched.onReceived?.()
        const result = await pushes.authorize(received, given)
        lines = result?.lines ?? []
        return result
      },
      finalize: pushes.finalize,
    }
    await using hold = await pushHolds.acquire(repository, objectFormatOf(updates))
    // Processes of before the first push read objects of another format.
    if (repository.objectFormat === null) await closeReadersOf(repository.path)
    if (!hasSharedStore && !options.isWaiting && !proposal) {
      const small = { pushes: authority, watched, request: pushRequest, push, ahead, hold }
      const outcome = await smallPacks.receive(small)
      if (outcome !== undefined) return outcome
    }
    const shortcut = proposal
      ? proposalConfig
      : await smallPacks.settingsFor(repository.path, ahead)
    const config = hasSharedStore ? { ...shortcut, ...sharedStoreConfig } : shortcut
    const { protocol } = watched
    await using child = await git.startPush(repository.path, { protocol, config })
    hold.watch(child.ended)
    const authorize: Authorize = async (given, quarantine, onProgress) => {
      push.quarantine = quarantine
      if (options.isWaiting) {
        watched.onReceived?.()
        const wait = { onProgress, signal: endOf(child) }
        await permit.pause(() => pushes.awaitRuns(push, given, wait), watched.signal)
      }
      return authority.authorize(push, given)
    }
    const complete = async () => {
      const result = await pushes.propose(push, pushRequest.updates).catch((error) => {
        if (!(error instanceof Problem)) log.error({ err: error }, 'proposal failed')
        throw error
      })
      lines = result.lines ?? []
      return result
    }
    const settle = proposal && !hasSharedStore ? complete : undefined
    const hookAnswered = answerHook(child.channel, pushRequest.updates, authorize, settle).catch(
      (error) => log.error({ err: error }, 'push authorization failed'),
    )
    let finalized: Promise<boolean> | undefined
    const finalize = () => {
      push.refused ??= reportHold.splitter.whole()?.refusals.keys().toArray()
      finalized ??= hookAnswered.then(() => authority.finalize(push))
      return finalized
    }
    const { path: directory } = repository
    const reportHold = holdReport(child, pushRequest, finalize, async () => {
      const { updates } = pushRequest
      const advice = await unrunWorkflows({ directory, reader: pool.of(directory), updates })
      return [...lines, ...advice]
    })
    try {
      const { onComplete } = response
      return await respond(watched, { child, input: ahead.whole, onComplete, reportHold }, log)
    } finally {
      // A client that disconnects does not stop an authorized push: git is given time to complete it.
      if (push.id === undefined) await child[Symbol.asyncDispose]()
      await child.ended
      await finalize()
    }
  }

  return async (request, body, mayBeEmpty) => {
    await freeSpace.require()
    // Before its commands a client runs a hook of its own (which over HTTP precedes its request), and after them it packs.
    let isThinking = !request.sendsAllFirst
    using watched = watchRequest(request, stallMs, () => isThinking)
    using permit = createPausablePermit(limiters.push, keysOf(request), watched.signal)
    async function* read(): Body {
      let [size, uncheckedBytes] = [0, unpermittedMaxBytes]
      for await (const chunk of limited(body, { ...watched, maxBytes: settings.pushMaxBytes })) {
        isThinking = false
        size += chunk.length
        if (size > unpermittedMaxBytes) await permit.acquire()
        // What has no space is not received to its end, when its space is reserved.
        if (size > uncheckedBytes)
          uncheckedBytes = await pushes.requireBytesLeft(request.repository, size)
        yield chunk
      }
    }
    const input = read()
    // The body of a refused push is not read to its end here; the transport discards the rest.
    using _input = { [Symbol.dispose]: () => void input.return().catch(() => {}) }
    const pushRequest = await readPushRequest(input, settings.pushMaxRefs)
    const { updates } = pushRequest
    const { proposal, ...purpose } = purposeOf(request, pushRequest)
    const refusal = pushRequest.refusal ?? purpose.refusal
    if (refusal) return refuse(request, { ...pushRequest, refusal })
    if (mayBeEmpty && updates.length === 0) return respondEmpty(request.response)
    isThinking = true
    if (updates.some(({ after }) => after !== zeroId)) await pushRequest.awaitPack()
    isThinking = false
    await permit.acquire()
    try {
      return await runGit(watched, { ...pushRequest, proposal }, permit)
    } catch (error) {
      const isFull = error instanceof Problem && error.code === 'namespace_full'
      if (!isFull || via === 'api' || request.response.hasBegun()) throw error
      return refuse({ ...request, sendsAllFirst: false }, { ...pushRequest, refusal: error })
    }
  }
}

type Purpose = { proposal?: ProposalOptions | undefined }

/** What a push proposes, if it does; or why it is refused, such as one that only updates refs of a caller who may not. */
function purposeOf(
  { repository }: GitRequest,
  request: PushRequest,
): Purpose & { refusal?: Problem } {
  try {
    const proposal = readProposal(request)
    if (!proposal && repository.role === 'read') return { refusal: roleInsufficient(repository) }
    return { proposal }
  } catch (error) {
    if (error instanceof Problem) return { refusal: error }
    throw error
  }
}

function toRunOptions({ skipsRuns, inputs }: PushOptions): PushRunOptions | undefined {
  const hasInputs = Object.keys(inputs).length > 0
  if (!skipsRuns && !hasInputs) return undefined
  return { ...(skipsRuns && { isSkipped: true }), ...(hasInputs && { inputs }) }
}

/** Why the runs of a waiting push are cancelled. */
export function pushEnded(): Problem {
  return new Problem('run_required', 'Its client disconnected.')
}

/** A signal that is aborted when a git process has ended. */
function endOf(child: GitProcess): AbortSignal {
  const end = new AbortController()
  const onEnd = () => end.abort(pushEnded())
  child.ended.then(onEnd, onEnd)
  return end.signal
}

// Sent as a fatal error of Git (pack-protocol, "side-band"), which clients show; clients without side-band get the status.
async function refuse(
  { response, sendsAllFirst }: GitRequest,
  { whole, capabilities, refusal }: { whole: Body; capabilities: Set<string>; refusal: Problem },
): Promise<RequestOutcome> {
  if (!capabilities.has('side-band-64k')) throw refusal
  if (sendsAllFirst) {
    for await (const _ of whole) {
    }
  }
  response.begin()
  response.output.write(Buffer.concat([packet(`\x03${refusal.message}`), flushPacket]))
  return 'refused'
}

/** A permit of a limiter that others may have while its holder waits. */
type PausablePermit = Disposable & {
  /** Acquires the permit, unless that was done before. Throws `git_busy` when it takes too long. */
  acquire: () => Promise<void>
  /** Releases the permit during some work, and acquires it again afterwards. Throws `git_busy` when that takes too long. */
  pause: (work: () => Promise<void>, signal: AbortSignal) => Promise<void>
}

function createPausablePermit(
  limiter: GitLimiters['push'],
  keys: string[],
  signal: AbortSignal,
): PausablePermit {
  let held: Disposable | undefined
  let acquired: Promise<void> | undefined
  let isDisposed = false

  async function hold(until: AbortSignal): Promise<void> {
    held = await limiter.acquire(keys, until)
    // The request may have ended meanwhile.
    if (isDisposed) release()
  }

  function release(): void {
    held?.[Symbol.dispose]()
    held = undefined
  }

  return {
    acquire() {
      acquired ??= hold(signal)
      return acquired
    },

    async pause(work, untilGone) {
      release()
      await work()
      await hold(untilGone)
    },

    [Symbol.dispose]() {
      isDisposed = true
      release()
    },
  }
}
