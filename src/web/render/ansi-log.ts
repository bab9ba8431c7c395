import Anser from 'anser'
import { splitHidden } from './hidden-characters.ts'

/** A part of a line of a log: its classes, separated by spaces, and its text. */
export type LogSegment = [classes: string, text: string]

// Colours and decorations, and all other sequences: ECMA-48, sections 5.4 and 5.6.
const escapes =
  /\x1b(?:\[([\d;:]*)m|\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~]?)/g

const decorationClasses: Partial<Record<Anser.DecorationName, string>> = {
  bold: 'ansi-bold',
  dim: 'ansi-dim',
  italic: 'ansi-italic',
  underline: 'ansi-underline',
  strikethrough: 'ansi-strike',
}

/**
 * Creates a reader of a log, line by line: colours become classes, whose number is small, and all other escape sequences are
 * removed. Colours go on in the next line. Of a line with carriage returns, the last piece counts.
 */
export function createAnsiReader(): (line: string) => LogSegment[] {
  const anser = new Anser()
  let classes = ''

  function apply(parameters: string): void {
    const chunk = `${parameters.slice(0, 100).replaceAll(':', ';')}m`
    const entry = anser.processChunkJson(chunk, { use_classes: true }, true)
    classes = classesOf(entry)
    // The list is that of the reader. Kept short, since a log may repeat a decoration without end.
    entry.decorations.splice(0, entry.decorations.length, ...new Set(entry.decorations))
  }

  return (line) => {
    const segments: LogSegment[] = []
    const add = (piece: string) => {
      for (const [shown, isHidden] of splitHidden(piece)) {
        const own = isHidden ? 'unseen' : classes
        const last = segments.at(-1)
        if (last && !isHidden && last[0] === own) last[1] += shown
        else segments.push([own, shown])
      }
    }
    const text = line.endsWith('\r') ? line.slice(0, -1) : line
    const shownFrom = text.lastIndexOf('\r') + 1
    let from = shownFrom
    for (const match of text.matchAll(escapes)) {
      const end = match.index + match[0].length
      if (match.index > from) add(text.slice(from, match.index))
      from = Math.max(from, end)
      if (match[1] !== undefined) apply(match[1])
    }
    if (from < text.length) add(text.slice(from))
    return segments
  }
}

function classesOf({ fg, bg, fg_truecolor, bg_truecolor, decorations }: Anser.AnserJsonEntry) {
  const isReversed = decorations.includes('reverse')
  const [front, back] = [hueOf(fg, fg_truecolor), hueOf(bg, bg_truecolor)]
  const [text, background] = isReversed ? [back, front || 'gray'] : [front, back]
  const names = [...new Set(decorations)].map((name) => decorationClasses[name] ?? '')
  return [text && `ansi-${text}`, background && `ansi-on-${background}`, ...names]
    .filter((name) => name !== '')
    .join(' ')
}

/** One of seven colours that can be read on light and dark backgrounds; empty for black and white, which are the text's own. */
function hueOf(name: string | null, trueColor: string | null): string {
  if (!name) return ''
  const [, number] = /^ansi-palette-(\d+)$/.exec(name) ?? []
  if (number !== undefined) return hueOfRgb(paletteColor(Number(number)))
  if (name === 'ansi-truecolor') return hueOfRgb((trueColor ?? '').split(',').map(Number))
  const plain = name.replace(/^ansi-/, '')
  if (plain === 'bright-black') return 'gray'
  return ['black', 'white', 'bright-white'].includes(plain) ? '' : plain.replace(/^bright-/, '')
}

/** The colours 16 to 255 of terminals: a cube of 6 × 6 × 6, and shades of gray. */
function paletteColor(number: number): number[] {
  if (number >= 232) return Array.from({ length: 3 }, () => 8 + (number - 232) * 10)
  const levels = [0, 95, 135, 175, 215, 255]
  const index = number - 16
  return [Math.floor(index / 36), Math.floor(index / 6) % 6, index % 6].map(
    (level) => levels[level] ?? 0,
  )
}

function hueOfRgb([red = 0, green = 0, blue = 0]: number[]): string {
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)]
  if (most - least < 48) return most > 80 && most < 190 ? 'gray' : ''
  const middle = (most + least) / 2
  const bits = (red > middle ? 4 : 0) + (green > middle ? 2 : 0) + (blue > middle ? 1 : 0)
  return ['', 'blue', 'green', 'cyan', 'red', 'magenta', 'yellow', ''][bits] ?? ''
}
