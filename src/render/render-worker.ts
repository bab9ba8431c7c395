import { parentPort } from 'node:worker_threads'
import type { DocumentPlace } from './document-links.ts'
import { renderCode } from './highlighted-lines.ts'
import { renderMarkdown } from './markdown.ts'

/** A request to the thread, one at a time. */
export type RenderRequest =
  | { kind: 'code'; text: string; fileName: string }
  | { kind: 'markdown'; text: string; place: DocumentPlace }

/** HTML; undefined if there is no renderer for the file, or its HTML is too long. */
export type RenderResponse = string | undefined

parentPort?.on('message', (request: RenderRequest) => {
  const response: RenderResponse =
    request.kind === 'code'
      ? renderCode(request.text, request.fileName)
      : renderMarkdown(request.text, request.place)
  parentPort?.postMessage(response)
})
// Signals that the thread is loaded, so loading does not count as time for a request.
parentPort?.postMessage('ready')
