/**
 * The new content of a file from the text of a form. Unchanged lines at the beginning and the end keep their line endings,
 * other lines get the usual one of the former content. The last line gets an ending unless the former content had none.
 */
export function toContent(sent: string, former: string): string {
  const lines = sent.split(/\r\n?|\n/)
  const before = toLines(former)
  const endsWithLine = before.at(-1)?.text === ''
  if (endsWithLine && lines.at(-1) !== '') lines.push('')
  if (!former.includes('\r')) return lines.join('\n')
  const last = lines.length - 1
  const usual = usualEnding(before)
  const shorter = Math.min(lines.length, before.length)
  let start = 0
  while (start < shorter && lines[start] === before[start]?.text) start += 1
  let end = 0
  while (end < shorter - start && lines[last - end] === before[before.length - 1 - end]?.text)
    end += 1
  const endings = lines.map((_, index) => {
    if (index === last) return ''
    const kept =
      index < start
        ? before[index]
        : index > last - end
          ? before[before.length - lines.length + index]
          : undefined
    return kept?.ending || usual
  })
  return lines.map((line, index) => line + endings[index]).join('')
}

type Line = { text: string; ending: string }

/** The lines of a text; the last one, which may be empty, has no ending. */
function toLines(text: string): Line[] {
  const parts = text.split(/(\r\n|\r|\n)/)
  const lines: Line[] = []
  for (let index = 0; index < parts.length; index += 2)
    lines.push({ text: parts[index] ?? '', ending: parts[index + 1] ?? '' })
  return lines
}

function usualEnding(lines: readonly Line[]): string {
  const counts = new Map<string, number>()
  for (const { ending } of lines)
    if (ending !== '') counts.set(ending, (counts.get(ending) ?? 0) + 1)
  const [[usual] = ['\n']] = [...counts].sort(([, one], [, other]) => other - one)
  return usual
}
