import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '../../../base/absence.ts'
import type { PushRequest } from '../../../git/protocol/push-commands.ts'
import { type Body, prepend } from '../../../git/protocol/request-body.ts'
import { zeroId } from '../../../git/refs/ref-name.ts'
import type { RefUpdate } from '../../../git/refs/refs.ts'
import { createPackInspector } from './pushed-pack.ts'

type Request = Pick<PushRequest, 'updates' | 'commandBytes' | 'whole'>

// About 4000 refs. Git reads fewer just as fast.
const packedRefsMinBytes = 256 * 1024

/**
 * Speeds up git's connectivity check in a repository with many refs. Git walks from the new value of a ref until it
 * reaches commits that visible refs contain. When the pushed pack shows that the walk ends at the ref's present value,
 * all other refs are hidden from this one git, which then does not read them. The check remains as strict, and nothing
 * else in a push depends on other refs being visible.
 *
 * Measured: a push to 20,000 refs takes 46 instead of 62 ms of CPU time, to 100,000 refs 63 instead of 93. Without
 * this function, git gets the request as it is, and no `config`.
 */
export async function connectivityShortcut(
  directory: string,
  request: Request,
): Promise<{ whole: Body; config?: Record<string, string> }> {
  const [update, ...others] = request.updates
  if (!update || others.length > 0) return request
  const { ref, before, after } = update
  // Refs outside of these stay hidden, even from a push that names them.
  if (!/^refs\/(heads|tags)\//.test(ref) || before === zeroId || after === zeroId) return request
  const packed = await stat(join(directory, 'packed-refs')).catch(ignoreAbsence)
  if (!packed || packed.size < packedRefsMinBytes) return request
  const { found, whole } = await readAhead(request, update)
  if (found !== 'yes' && found !== 'apart') return { whole }
  return { whole, config: { 'transfer.hideRefs': 'refs', 'receive.hideRefs': `!${ref}` } }
}

/** Inspects the pack before git gets the request. */
async function readAhead({ commandBytes, whole }: Request, update: RefUpdate) {
  const inspector = createPackInspector(update, commandBytes)
  const chunks: Buffer[] = []
  let found: ReturnType<typeof inspector.add>
  while (found === undefined) {
    const { value } = await whole.next()
    if (!value) break
    chunks.push(value)
    found = inspector.add(value)
  }
  return { found, whole: prepend(chunks, whole) }
}
