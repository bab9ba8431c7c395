import { respondToRequests } from '#base/concurrency/worker-requests.ts'
import { renderTable } from './csv-table.ts'
import type { DocumentPlace } from './document-links.ts'
import { renderCode } from './highlighted-lines.ts'
import { renderMarkdown } from './markdown.ts'
import { renderNotebook } from './notebook.ts'

/** A request to the thread, one at a time. */
export type RenderRequest =
  | { kind: 'code' | 'table'; text: string; fileName: string }
  | { kind: 'markdown' | 'notebook'; text: string; place: DocumentPlace }

/** HTML; undefined if there is no renderer for the file, or its HTML is too long. */
export type RenderResponse = string | undefined

respondToRequests((request: RenderRequest): RenderResponse => {
  switch (request.kind) {
    case 'code':
      return renderCode(request.text, request.fileName)
    case 'table':
      return renderTable(request.text, request.fileName)
    case 'markdown':
      return renderMarkdown(request.text, request.place)
    case 'notebook':
      return renderNotebook(request.text, request.place)
  }
})
