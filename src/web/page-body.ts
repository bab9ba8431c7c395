import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { constants, deflateRaw } from 'node:zlib'
import type { Html } from './render/html.ts'

const deflate = promisify(deflateRaw)
const level = 5

/** The HTML of a page without the frame, which is its reader's own. */
export class PageBody {
  readonly bytes: Buffer
  /** Of the content: bodies with the same tag are the same. */
  readonly tag: string
  #deflated: Promise<Buffer> | undefined

  constructor(html: Html) {
    this.bytes = Buffer.from(html.text)
    this.tag = hash('sha256', this.bytes, 'base64url').slice(0, 22)
  }

  /** Compressed once, to stand between other parts. */
  deflated(): Promise<Buffer> {
    this.#deflated ??= deflatePart(this.bytes)
    return this.#deflated
  }
}

/** Compresses a part of a stream that goes on: it ends at a byte, and refers to nothing before it (RFC 1951). */
export function deflatePart(bytes: Buffer): Promise<Buffer> {
  return deflate(bytes, { level, finishFlush: constants.Z_SYNC_FLUSH })
}

/** Compresses the last part of a stream. */
export function deflateEnd(bytes: Buffer): Promise<Buffer> {
  return deflate(bytes, { level })
}
