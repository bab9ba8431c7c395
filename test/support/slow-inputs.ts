import { languageNames } from '#web/render/languages.ts'

const inputLength = 40_000
const lineLength = 1000

/** Repeated, each is slow for the regular expressions of some language or for some parser of Markdown. */
const patterns = [
  'a',
  ' ',
  '(',
  '[',
  '{{',
  '"',
  "'''",
  '`',
  '\\',
  '/*',
  '<a ',
  'a.',
  'a::',
  '$(',
  '0x1_',
  '@a(',
  '> ',
  '*_*_',
]

type SlowInput = { name: string; fileName: string; text: string }

/** Files in every language: each pattern as a single line, and in lines that are short enough to be highlighted. */
export const slowFiles: readonly SlowInput[] = languageNames.flatMap((language) =>
  patterns.flatMap((pattern) => {
    const name = `${language} of ${JSON.stringify(pattern)}`
    const fileName = `x.${language}`
    const text = repeat(pattern)
    return [
      { name, fileName, text },
      { name: `${name} in lines`, fileName, text: toShortLines(text) },
    ]
  }),
)

/** Documents whose nesting, delimiters or references are slow for some parser. */
export const slowDocuments: readonly SlowInput[] = Object.entries({
  'one long word': repeat('a'),
  'nested brackets': repeat('['),
  'nested links': `${repeat('[').slice(0, 13_000)}a${repeat('](u)').slice(0, 27_000)}`,
  'nested images': repeat('![[]()'),
  'nested quotes': repeat('>'),
  'quotes with spaces': repeat('> '),
  'nested lists': Array.from({ length: 280 }, (_, depth) => `${' '.repeat(depth)}- a`).join('\n'),
  'lists on one line': repeat('- '),
  'quoted lists': repeat('> - 1. '),
  'open emphasis': repeat('*a **a '),
  'mixed emphasis': repeat('*_*_'),
  'emphasis of three': repeat('a***b__c'),
  'struck words': repeat('~~a~'),
  'open code spans': Array.from({ length: 280 }, (_, length) => '`'.repeat(length)).join(' a '),
  'open comments': repeat('<!-- a '),
  'open tags': repeat('<a b="'),
  'wide tables': `${repeat('|a').slice(0, 20_000)}\n${repeat('|-').slice(0, 20_000)}\n${repeat('|')}`,
  'reference definitions': `${repeat('[a]: <u> "t\n')}\n${repeat('[a][a]')}`,
  footnotes: Array.from({ length: 3000 }, (_, n) => `[^${n}]\n\n[^${n}]: `).join('\n'),
  'references to one footnote': `[^a]: u\n\n${repeat('[^a]')}`,
  'open footnotes': `[^a]: u\n\n${repeat('[^')}`,
  'nested footnotes': repeat('[^a]: '),
  'nested alerts': repeat('> [!NOTE]\n'),
  entities: repeat('&#x26;&amp;&a;'),
}).map(([name, text]) => ({ name, fileName: 'README.md', text }))

function repeat(pattern: string): string {
  return pattern.repeat(Math.ceil(inputLength / pattern.length))
}

function toShortLines(text: string): string {
  const lines: string[] = []
  for (let at = 0; at < text.length; at += lineLength) lines.push(text.slice(at, at + lineLength))
  return lines.join('\n')
}
