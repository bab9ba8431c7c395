import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '../../base/absence.ts'
import { buildsOn, packMaxBytes } from '../../git/objects/pushed-pack.ts'
import { type PushRequest, readAhead } from '../../git/protocol/push-commands.ts'
import type { Body } from '../../git/protocol/request-body.ts'
import { zeroId } from '../../git/refs/ref-name.ts'

// About 4000 refs: below that, git has read them as soon.
const packedRefsMinBytes = 256 * 1024

/**
 * Spares git to read all refs for a push that has no need of it. Git looks whether all is there that the new value of a
 * ref leads to, and stops where it comes to what any visible ref leads to. Where that is sure to be what the
 * pushed ref is now, the others can be hidden from this one git: it then reads no commit of theirs. What it
 * checks remains the same, and nothing else of a push depends on other refs being visible.
 */
export async function connectivityShortcut(
  directory: string,
  request: Pick<PushRequest, 'updates' | 'commandBytes' | 'whole'>,
): Promise<{ whole: Body; config?: Record<string, string> }> {
  const [update, ...others] = request.updates
  if (!update || others.length > 0) return request
  const { ref, before, after } = update
  // Whatever else is hidden stays so, whoever names it.
  if (!/^refs\/(heads|tags)\//.test(ref) || before === zeroId || after === zeroId) return request
  const packed = await stat(join(directory, 'packed-refs')).catch(ignoreAbsence)
  if (!packed || packed.size < packedRefsMinBytes) return request
  const { found, whole } = await readAhead(request, {
    look: (pack) => buildsOn(pack, update),
    maxBytes: packMaxBytes,
  })
  if (found !== 'yes' && found !== 'apart') return { whole }
  return { whole, config: { 'transfer.hideRefs': 'refs', 'receive.hideRefs': `!${ref}` } }
}
