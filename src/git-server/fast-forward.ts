import type { Body } from '../git/body.ts'
import type { PushRequest } from '../git/push-commands.ts'
import { buildsOn, packMaxBytes } from '../git/pushed-pack.ts'
import { zeroId } from '../git/ref-name.ts'

// A pack that comes in crumbs is not looked at for each of them.
const looksAtMost = 16

/**
 * Passes a push on as it comes, and calls back when a small pack shows that the one branch that it moves is
 * fast-forwarded. Git need not be asked then.
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
    isOpen &&= chunks.length < looksAtMost && size - commandBytes <= packMaxBytes
    if (isOpen && update) {
      chunks.push(chunk)
      const found = buildsOn(Buffer.concat(chunks).subarray(commandBytes), update)
      if (found === 'yes') onFastForward()
      isOpen = found === undefined
    }
    yield chunk
  }
}
