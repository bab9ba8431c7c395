import { buildsOn, packMaxBytes } from '../../git/objects/pushed-pack.ts'
import type { PushRequest } from '../../git/protocol/push-commands.ts'
import type { Body } from '../../git/protocol/request-body.ts'
import { zeroId } from '../../git/refs/ref-name.ts'

// The pack is parsed from its start for each chunk, so one that arrives in many small chunks is not checked.
const maxChunks = 16

/**
 * Passes the body of a push through, and calls `onFastForward` when a small pack proves that its only update
 * fast-forwards a branch, which saves a git process later.
 */
export async function* watchFastForward(
  body: Body,
  { updates, commandBytes }: Pick<PushRequest, 'updates' | 'commandBytes'>,
  onFastForward: () => void,
): Body {
  const [update, ...others] = updates
  const isCandidate =
    update?.ref.startsWith('refs/heads/') &&
    others.length === 0 &&
    update.before !== zeroId &&
    update.after !== zeroId
  const chunks: Buffer[] = []
  let size = 0
  let isOpen = isCandidate
  for await (const chunk of body) {
    size += chunk.length
    isOpen &&= chunks.length < maxChunks && size - commandBytes <= packMaxBytes
    if (isOpen && update) {
      chunks.push(chunk)
      const found = buildsOn(Buffer.concat(chunks).subarray(commandBytes), update)
      if (found === 'yes') onFastForward()
      isOpen = found === undefined
    }
    yield chunk
  }
}
