import { respondToRequests } from '../concurrency/worker-requests.ts'
import type { DocumentPlace } from './document-links.ts'
import { renderCode } from './highlighted-lines.ts'
import { renderMarkdown } from './markdown.ts'

/** A request to the thread, one at a time. */
export type RenderRequest =
  | { kind: 'code'; text: string; fileName: string }
  | { kind: 'markdown'; text: string; place: DocumentPlace }

/** HTML; undefined if there is no renderer for the file, or its HTML is too long. */
export type RenderResponse = string | undefined

respondToRequests(
  (request: RenderRequest): RenderResponse =>
    request.kind === 'code'
      ? renderCode(request.text, request.fileName)
      : renderMarkdown(request.text, request.place),
)
