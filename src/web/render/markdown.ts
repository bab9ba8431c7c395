import MarkdownIt from 'markdown-it'
import type { DocumentPlace } from './document-links.ts'
import { addFootnotes } from './footnotes.ts'
import { maxRunsOfFile, showHidden } from './hidden-characters.ts'
import { escapeHtml } from './html.ts'
import { highlight, knownLanguage } from './languages.ts'
import { maxFileLength, normalizeLineEnds } from './numbered-lines.ts'
import { sanitize } from './sanitize.ts'

/** Levels of quotes, and of lists, of which each has two; the parser leaves out what is deeper. */
const maxNesting = 50
const markdown = createMarkdown()
const fenceMaxLength = 64 * 1024
const fenceMaxLineLength = 1000

/**
 * Renders a document in Markdown: CommonMark with tables, strikethrough, task lists, footnotes and alerts, and the HTML
 * that is allowed. Undefined if the HTML is too long.
 */
export function renderMarkdown(text: string, place: DocumentPlace): string | undefined {
  const html = markdown.render(normalizeLineEnds(text))
  if (html.length > maxFileLength) return undefined
  const shown = withAnchors(sanitizeHtml(html, place))
  return shown.length > maxFileLength ? undefined : shown
}

/** Leaves of HTML what a document may have. */
export function sanitizeHtml(html: string, place: DocumentPlace): string {
  return showHidden(sanitize(html, { place, decode }), maxRunsOfFile)
}

/**
 * Gives headings with a name a link to themselves. It also has the name without the prefix of ids, so that fragments from
 * elsewhere find it: unlike an id, the name of a link can stand for nothing else in the page.
 */
function withAnchors(html: string): string {
  return html.replace(
    /<h[1-6] id="u-([^"<>]+)"[^<>]*>/g,
    (heading, name) =>
      `${heading}<a class="anchor" name="${name}" href="#${name}" title="Link to this heading"></a>`,
  )
}

/** Decodes character references; backslashes are themselves. */
function decode(text: string): string {
  return markdown.utils.unescapeAll(text.replaceAll('\\', '\\\\'))
}

function createMarkdown() {
  const options = { html: true, linkify: true, maxNesting, highlight: highlightFence }
  const parser = new MarkdownIt(options)
  noteWhatIsTooDeep(parser)
  // Only addresses that are written in full.
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false })
  for (const schema of ['//', 'ftp:']) parser.linkify.add(schema, null)
  addFootnotes(parser)
  // The sanitizer decides about addresses.
  parser.validateLink = () => true
  parser.core.ruler.push('names-and-marks', ({ tokens }) => {
    const names = new Map<string, number>()
    for (const [index, token] of tokens.entries()) {
      const inline = tokens[index + 1]
      const style = token.attrGet('style')
      if (style) {
        token.attrSet('align', String(style).replace('text-align:', ''))
      }
      if (token.type === 'heading_open' && inline) token.attrSet('id', shownName(inline, names))
      if (token.type === 'list_item_open') markTask(tokens[index + 2])
      if (token.type === 'blockquote_open') markAlert(token, tokens[index + 2])
    }
  })
  return parser
}

/** Puts a sentence in the place of blocks that are left out. Without it, all that follows a deep list would be, too. */
function noteWhatIsTooDeep({ block }: InstanceType<typeof MarkdownIt>): void {
  const tokenize = block.tokenize.bind(block)
  block.tokenize = (state, startLine, endLine) => {
    const isWithin = (line: number) => (state.sCount[line] ?? 0) >= state.blkIndent
    let line = state.skipEmptyLines(startLine)
    if (state.level < maxNesting || line >= endLine || !isWithin(line)) {
      tokenize(state, startLine, endLine)
      return
    }
    state.push('paragraph_open', 'p', 1)
    const inline = state.push('inline', '', 0)
    inline.content = 'What is nested deeper is not shown; the raw file has it.'
    inline.children = []
    state.push('paragraph_close', 'p', -1)
    while (line < endLine && (state.isEmpty(line) || isWithin(line))) line++
    state.line = line
  }
}

type Token = ReturnType<ReturnType<typeof createMarkdown>['parse']>[number]

/** The name of a heading, as GitHub makes it. */
function shownName(inline: Token, names: Map<string, number>): string {
  const text = (inline.children ?? [])
    .map(({ type, content }) => (type === 'text' || type === 'code_inline' ? content : ''))
    .join('')
  const name = text
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-')
  const before = names.get(name) ?? 0
  names.set(name, before + 1)
  return before === 0 ? name : `${name}-${before}`
}

/** Replaces `[ ]` or `[x]` at the start of a list item by a box. */
function markTask(inline: Token | undefined): void {
  const [first] = inline?.children ?? []
  if (inline?.type !== 'inline' || first?.type !== 'text') return
  const [mark] = /^\[[ xX]\] /.exec(first.content) ?? []
  if (mark === undefined) return
  first.content = `${mark[1] === ' ' ? '☐' : '☑'} ${first.content.slice(mark.length)}`
}

/** Makes a quote that begins with `[!NOTE]` and the like an alert, with its kind in words. */
function markAlert(quote: Token, inline: Token | undefined): void {
  const [first, second] = inline?.children ?? []
  if (inline?.type !== 'inline' || inline.level !== quote.level + 2 || !first) return
  const [, kind = ''] = /^\[!(note|tip|important|warning|caution)\]\s*$/i.exec(first.content) ?? []
  const isAlone = second === undefined || second.type === 'softbreak'
  if (kind === '' || !isAlone) return
  const name = kind.toLowerCase()
  quote.attrSet('class', `alert-${name}`)
  first.type = 'html_inline'
  first.content = `<strong>${name.charAt(0).toUpperCase()}${name.slice(1)}</strong>`
  if (second) second.type = 'hardbreak'
}

/** Highlights code of a document, unless that may take long: HTML. */
export function highlightFence(text: string, name: string): string {
  const language = knownLanguage(name.toLowerCase())
  const isLong = text.length > fenceMaxLength || hasLongLine(text, fenceMaxLineLength)
  return language === undefined || isLong ? escapeHtml(text) : highlight(text, language)
}

function hasLongLine(text: string, maxLength: number): boolean {
  return text.split('\n').some(({ length }) => length > maxLength)
}
