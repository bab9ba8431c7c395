import type MarkdownIt from 'markdown-it'

type Parser = InstanceType<typeof MarkdownIt>
type Token = ReturnType<Parser['parse']>[number]
type Note = { definition: Token[]; number: number; references: number }
type Notes = { byName: Map<string, Note>; used: Note[] }

const open = 'footnote_open'
const close = 'footnote_close'
// Names have a limit, which is what one costs that does not end.
const reference = /\[\^([^\s\]]{1,100})\]/y
const definition = /\[\^([^\s\]]{1,100})\]:[ \t]*/y

/**
 * Adds footnotes as GitHub has them, in linear time: `[^name]` in a text, and `[^name]: …` with what belongs to it indented.
 * They are at the end of the document, numbered by their first references. What the parser makes is not safe before it is
 * sanitized.
 */
export function addFootnotes(parser: Parser): void {
  const notes = new WeakMap<object, Notes>()

  parser.block.ruler.before(
    'reference',
    'footnote',
    (state, startLine, endLine, silent) => {
      const start = (state.bMarks[startLine] ?? 0) + (state.tShift[startLine] ?? 0)
      definition.lastIndex = start
      const [all = '', name] = definition.exec(state.src) ?? []
      const isIndented = (state.sCount[startLine] ?? 0) - state.blkIndent >= 4
      if (name === undefined || isIndented) return false
      if (silent) return true
      if (state.level > 0) return false
      const known = notes.get(state.env) ?? { byName: new Map<string, Note>(), used: [] }
      notes.set(state.env, known)
      state.push(open, '', 1).meta = { name }
      if (!known.byName.has(name))
        known.byName.set(name, { definition: [], number: 0, references: 0 })
      const { bMarks, tShift, sCount } = state
      const before = [
        bMarks[startLine] ?? 0,
        tShift[startLine] ?? 0,
        sCount[startLine] ?? 0,
      ] as const
      // The first line as if it were indented like the others.
      bMarks[startLine] = start + all.length
      tShift[startLine] = 0
      state.blkIndent += 4
      sCount[startLine] = state.blkIndent
      state.md.block.tokenize(state, startLine, endLine)
      state.blkIndent -= 4
      ;[bMarks[startLine], tShift[startLine], sCount[startLine]] = before
      state.push(close, '', -1)
      return true
    },
    { alt: ['paragraph', 'reference'] },
  )

  parser.inline.ruler.after('image', 'footnote', (state, silent) => {
    reference.lastIndex = state.pos
    const [all = '', name = ''] = reference.exec(state.src) ?? []
    const known = notes.get(state.env)
    const note = known?.byName.get(name)
    if (!known || !note) return false
    state.pos += all.length
    if (silent) return true
    note.number ||= known.used.push(note)
    note.references += 1
    const { number } = note
    const id = idOf(note, note.references)
    state.push('html_inline', '', 0).content =
      `<sup><a href="#fn-${number}" id="${id}">${number}</a></sup>`
    return true
  })

  parser.core.ruler.after('inline', 'footnotes', (state) => {
    const known = notes.get(state.env)
    if (!known) return
    let current: Token[] | undefined
    const tokens: Token[] = []
    for (const token of state.tokens) {
      if (token.type === open) {
        const note = known.byName.get(String(token.meta?.name))
        current = []
        // The first definition of a name counts.
        if (note && note.definition.length === 0) note.definition = current
      } else if (token.type === close) current = undefined
      else (current ?? tokens).push(token)
    }
    const { used } = known
    const add = (content: string) =>
      tokens.push(Object.assign(new state.Token('html_block', '', 0), { content }))
    if (used.length > 0) add('<hr><ol>')
    for (const note of used) {
      add(`<li id="fn-${note.number}">`)
      for (const token of note.definition) tokens.push(token)
      add(`${backLinks(note)}</li>`)
    }
    if (used.length > 0) add('</ol>')
    state.tokens = tokens
  })
}

function idOf({ number }: Note, reference: number): string {
  return reference === 1 ? `fnref-${number}` : `fnref-${number}-${reference}`
}

function backLinks(note: Note): string {
  const links = Array.from({ length: note.references }, (_, index) => {
    const title = `Back to reference ${note.number}`
    return `<a href="#${idOf(note, index + 1)}" title="${title}">↩</a>`
  })
  return `<p>${links.join(' ')}</p>`
}
