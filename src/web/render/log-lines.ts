import { createAnsiReader, type LogSegment } from './ansi-log.ts'
import { type Html, html } from './html.ts'

/** A line of a log, or the start or end of a group of lines. */
export type LogLine =
  | { kind: 'text'; segments: LogSegment[] }
  | { kind: 'group'; segments: LogSegment[] }
  | { kind: 'end-group' }

const annotation = /^::(error|warning|notice|debug)(?: [^:]*)?::/
const annotationClasses: Record<string, string> = { error: 'bad', warning: 'busy' }

/** Creates a reader of the lines of one step, which knows the commands that only format a log: `::group::`, `::error::`. */
export function createLogLineReader(): (line: string) => LogLine {
  const read = createAnsiReader()
  return (line) => {
    if (line.startsWith('::group::')) return { kind: 'group', segments: read(line.slice(9)) }
    if (line.trimEnd() === '::endgroup::') return { kind: 'end-group' }
    const [command, name = ''] = annotation.exec(line) ?? []
    if (command === undefined) return { kind: 'text', segments: read(line) }
    const label = `${name.charAt(0).toUpperCase()}${name.slice(1)}: `
    const segments = read(line.slice(command.length))
    return { kind: 'text', segments: [[annotationClasses[name] ?? 'soft', label], ...segments] }
  }
}

/** Renders the parts of a line, each in an element with its classes. */
export function renderSegments(segments: readonly LogSegment[]): Html {
  return html`${segments.map(([classes, text]) =>
    classes === '' ? text : html`<span class="${classes}">${text}</span>`,
  )}`
}

type Options = { idPrefix: string; firstNumber: number }

/** Renders lines as list items with ids; a group is folded. Each line has its number, also within a group. */
export function renderLogLines(lines: readonly string[], options: Options): Html {
  const read = createLogLineReader()
  const parts: Html[] = []
  let group: { title: Html; number: number; items: Html[] } | undefined
  let number = options.firstNumber
  let isRenumbered = false

  function close(): void {
    if (!group) return
    parts.push(html`<li class="log-group" id="${options.idPrefix}${group.number}" value="${group.number}"><details><summary>${group.title}</summary>
<ol start="${group.number + 1}">${group.items}</ol></details></li>`)
    group = undefined
    isRenumbered = true
  }

  for (const line of lines) {
    const shown = read(line)
    if (shown.kind === 'group') {
      close()
      group = { title: renderSegments(shown.segments), number, items: [] }
    } else if (shown.kind === 'end-group') close()
    else {
      const value = isRenumbered && !group && html` value="${number}"`
      if (!group) isRenumbered = false
      const item = html`<li id="${options.idPrefix}${number}"${value}>${renderSegments(shown.segments)}</li>`
      if (group) group.items.push(item)
      else parts.push(item)
    }
    number++
  }
  close()
  return html`${parts}`
}

/** Splits output into its lines, without their ends. */
export function outputLines(output: string): string[] {
  return output === '' ? [] : output.replace(/\n$/, '').split('\n')
}
