import {
  Composer,
  CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type Node,
  type Pair,
  Parser,
} from 'yaml'
import type { SourceFile, SourcePosition } from '../workflow.ts'
import { type FaultList, quoted } from './fault-list.ts'
import {
  createSourceText,
  fileMaxBytes,
  type MapEntry,
  type MapNode,
  type ScalarNode,
  type SourceNode,
  type SourceText,
} from './source-text.ts'

// Limits on a file after its aliases are expanded.
const maxNodes = 20_000
const maxCharacters = 1024 * 1024

/** The size of a node including its descendants. */
type Extent = { nodes: number; characters: number; height: number }

/**
 * Reads the single YAML document (1.2, core schema) of a file; reports faults and returns undefined if it is invalid.
 * Tags, directives, merge keys, keys that are not texts, and documents that are too large are rejected.
 */
export function readSource(file: SourceFile, faults: FaultList): SourceNode | undefined {
  // A byte order mark does not count as a column.
  const text = file.text.replace(/^\ufeff/, '')
  const document = parseYaml({ ...file, text }, faults)
  if (!document) return undefined
  if (!document.contents) {
    const start = { file: file.path, line: 1, column: 1 }
    return void faults.add(start, 'The file is empty.', 'Write "steps:" with "- run: a command".')
  }
  try {
    return readDocument(document, createSourceText(file.path, text), faults)
  } catch (error) {
    if (error instanceof TooLargeError) return undefined
    throw error
  }
}

/** Thrown after a fault has been reported, to stop reading. */
class TooLargeError extends Error {}

function readDocument(
  document: Document.Parsed,
  source: SourceText,
  faults: FaultList,
): SourceNode | undefined {
  const anchors = new Map<string, SourceNode | 'open'>()
  const extents = new Map<SourceNode, Extent>()
  return document.contents ? read(document.contents) : undefined

  function read(node: Node): SourceNode | undefined {
    if (isAlias(node)) return readAlias(node.source, startOf(node))
    const anchor = 'anchor' in node ? node.anchor : undefined
    if (anchor) anchors.set(anchor, 'open')
    const made = readPlain(node)
    if (anchor && made) anchors.set(anchor, made)
    return made
  }

  function readPlain(node: Node): SourceNode | undefined {
    if (isScalar(node)) return readScalar(node)
    const position = source.positionAt(startOf(node))
    if (isSeq(node)) {
      const items = node.items.flatMap((item) => read(item as Node) ?? [])
      return measured({ kind: 'list', items, position }, items)
    }
    if (!isMap(node)) return undefined
    const entries = readEntries(node.items as Pair<Node, Node | null>[])
    return measured(
      { kind: 'map', entries, position },
      entries.map(({ value }) => value),
    )
  }

  function readScalar(node: Node & { value: unknown }): ScalarNode {
    const start = startOf(node)
    const position = source.positionAt(start)
    const value = isPlainValue(node.value) ? node.value : String(node.value)
    if (typeof value === 'number' && !Number.isFinite(value)) {
      faults.add(position, 'This number is not finite.', 'Write a number, or put it in quotes.')
    }
    const textPosition =
      typeof value === 'string' ? source.textPosition(start, value, blockOrQuoted(node)) : position
    return measured({ kind: 'scalar', value, position, textPosition }, [])
  }

  function readAlias(name: string, offset: number): SourceNode | undefined {
    const target = anchors.get(name)
    if (target && target !== 'open') return target
    const position = source.positionAt(offset)
    const message = target
      ? `The alias *${name} is inside the value that it refers to.`
      : `There is no anchor &${name} above this alias.`
    const instead = 'Write the value out; put a string that starts with "*" in quotes.'
    faults.add(position, message, instead)
    return undefined
  }

  function readEntries(pairs: Pair<Node, Node | null>[]): MapEntry[] {
    const seen = new Set<string>()
    return pairs.flatMap((pair) => {
      const key = readKey(pair.key)
      if (key === undefined) return []
      const keyPosition = source.positionAt(startOf(pair.key))
      if (seen.has(key)) {
        const message = `Duplicate key ${quoted(key)}.`
        faults.add(keyPosition, message, 'Remove or rename one of them.')
        return []
      }
      seen.add(key)
      const value = pair.value ? read(pair.value) : undefined
      if (!value) return pair.value ? [] : [{ key, keyPosition, value: emptyAt(keyPosition) }]
      // An empty value has no position.
      const isNothing = value.kind === 'scalar' && value.value === null
      return [{ key, keyPosition, value: isNothing ? emptyAt(keyPosition) : value }]
    })
  }

  function readKey(node: Node): string | undefined {
    const position = source.positionAt(startOf(node))
    if (!isScalar(node) || node.value === null) {
      faults.add(position, 'This key is not a string.', 'Write a name, a colon and a value.')
      return undefined
    }
    const key = typeof node.value === 'string' ? node.value : (node.source ?? String(node.value))
    if (key === '<<') {
      const instead = 'Repeat the keys here, or give an alias (*name) for the whole value.'
      faults.add(position, 'Merge keys (<<) are not supported.', instead)
      return undefined
    }
    if (key === '__proto__') {
      faults.add(position, 'The key "__proto__" is not allowed.', 'Choose another name.')
      return undefined
    }
    return key
  }

  function emptyAt(position: ScalarNode['position']): ScalarNode {
    return measured({ kind: 'scalar', value: null, position, textPosition: position }, [])
  }

  /** Records the size of a node, and stops when it is too large. */
  function measured<T extends SourceNode>(node: T, parts: SourceNode[]): T {
    const extent = { nodes: 1, characters: ownCharacters(node), height: 1 }
    for (const part of parts) {
      const inner = extents.get(part) ?? { nodes: 1, characters: 0, height: 1 }
      extent.nodes += inner.nodes
      extent.characters += inner.characters
      extent.height = Math.max(extent.height, inner.height + 1)
    }
    extents.set(node, extent)
    const fault = tooMuch(extent)
    if (!fault) return node
    faults.add(node.position, fault, 'Split the file into several, and use fewer aliases.')
    throw new TooLargeError()
  }
}

function tooMuch({ nodes, characters, height }: Extent): string | undefined {
  if (height > maxDepth) return `This is nested more than ${maxDepth} levels deep.`
  if (nodes > maxNodes) return `This contains more than ${maxNodes} values.`
  if (characters > maxCharacters) return `This contains more than ${maxCharacters} characters.`
  return undefined
}

function ownCharacters(node: SourceNode): number {
  if (node.kind === 'scalar') return typeof node.value === 'string' ? node.value.length : 0
  if (node.kind === 'list') return 0
  return (node satisfies MapNode).entries.reduce((sum, { key }) => sum + key.length, 0)
}

function startOf(node: Node): number {
  return node.range?.[0] ?? 0
}

function blockOrQuoted(node: Node & { type?: unknown }): 'block' | 'quoted' | 'plain' {
  if (node.type === 'BLOCK_LITERAL' || node.type === 'BLOCK_FOLDED') return 'block'
  return node.type === 'PLAIN' ? 'plain' : 'quoted'
}

function isPlainValue(value: unknown): value is ScalarNode['value'] {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}

/** Levels of nesting in a file. */
const maxDepth = 50

// Each level of the file is at most one level of the parser, and the document adds one.
const maxParserDepth = maxDepth + 1
// The parser's time and memory are proportional to lexemes; 6000 lines of `key: value` have this many.
const maxLexemes = 60_000

/**
 * Parses a file as one YAML 1.2 document; reports the first fault and returns undefined if it is invalid. The library
 * recurses with the nesting and reports thousands of faults, so both are limited before it composes.
 */
function parseYaml(file: SourceFile, faults: FaultList): Document.Parsed | undefined {
  const unreadable = findUnreadable(file)
  if (unreadable)
    return void faults.add(unreadable.position, unreadable.message, unreadable.instead)
  const source = createSourceText(file.path, file.text)
  const tokens = readTokens(file.text, source, (offset, message, instead) =>
    faults.add(source.positionAt(offset), message, instead),
  )
  if (!tokens) return undefined
  // Duplicate keys are found elsewhere: the library compares all pairs of keys.
  const composer = new Composer({ uniqueKeys: false, logLevel: 'silent', prettyErrors: false })
  const [document] = composer.compose(tokens, true, file.text.length)
  const [error] = document?.errors ?? []
  if (error) {
    const message = `Invalid YAML: ${lowerFirst(error.message).replace(/\.?$/, '.')}`
    const position = source.positionAt(error.pos[0])
    return void faults.add(position, message, adviceFor(error.code, source.lineOf(position)))
  }
  // Without errors, the document is a parsed one.
  return document as Document.Parsed
}

function findUnreadable({
  path: file,
  text,
}: SourceFile): { position: SourcePosition; message: string; instead: string } | undefined {
  const start = { file, line: 1, column: 1 }
  if (text.length > fileMaxBytes || Buffer.byteLength(text) > fileMaxBytes) {
    const message = `The file is larger than ${fileMaxBytes / 1024} KiB.`
    return { position: start, message, instead: 'Move long scripts into files of the repository.' }
  }
  const position = (offset: number) => createSourceText(file, text).positionAt(offset)
  const unreadable = text.search(/[\ufffd\p{Cs}]/u)
  if (unreadable !== -1) {
    const instead = 'Save the file as UTF-8.'
    return { position: position(unreadable), message: 'This is not valid UTF-8.', instead }
  }
  const control = text.search(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]/)
  if (control !== -1) {
    const instead = 'Remove it, or write it as an escape in double quotes ("\\x1b").'
    return { position: position(control), message: 'Unexpected control character.', instead }
  }
  return undefined
}

type Reject = (offset: number, message: string, instead: string) => void

/** Reads the tokens of the document; undefined if one is rejected. */
function readTokens(text: string, source: SourceText, reject: Reject): CST.Token[] | undefined {
  const parser = new Parser()
  const tokens: CST.Token[] = []
  let lexemes = 0
  let isScalar = false
  for (const lexeme of new Lexer().lex(text)) {
    const { offset } = parser
    const fault = isScalar ? undefined : checkLexeme(lexeme, offset, source)
    if (fault) return void reject(offset, ...fault)
    isScalar = !isScalar && lexeme === CST.SCALAR
    for (const token of parser.next(lexeme)) {
      if (token.type === 'error') {
        const line = source.lineOf(source.positionAt(token.offset))
        const message = `Invalid YAML: ${lowerFirst(token.message)}.`
        return void reject(token.offset, message, adviceFor('UNEXPECTED_TOKEN', line))
      }
      tokens.push(token)
    }
    if (parser.stack.length > maxParserDepth) {
      return void reject(
        offset,
        `This is nested more than ${maxDepth} levels deep.`,
        'Nest less deeply.',
      )
    }
    if (++lexemes > maxLexemes) {
      return void reject(offset, 'The file has too many tokens.', 'Split it into several files.')
    }
  }
  tokens.push(...parser.end())
  const documents = tokens.filter(({ type }) => type === 'document')
  const second = documents[1]
  if (!second) return tokens
  const instead = 'Use one document per file; remove the line "---".'
  return void reject(second.offset, 'A second YAML document begins here.', instead)
}

function checkLexeme(
  lexeme: string,
  offset: number,
  source: SourceText,
): [message: string, instead: string] | undefined {
  const type = CST.tokenType(lexeme)
  if (type === 'alias' && /^\*(?:[*./]|$)/.test(lexeme)) {
    const message = `In YAML, "*" starts an alias, so ${quoted(lexeme)} is not a string.`
    return [message, `Put it in quotes: '${lexeme.slice(0, 60)}'.`]
  }
  if (type === 'tag') {
    const position = source.positionAt(offset)
    const condition = negatedCondition(source.lineOf(position), position.column, lexeme)
    if (condition !== undefined) {
      const message = 'In YAML, "!" starts a tag, so this is not a condition.'
      return [message, `Write ${condition}.`]
    }
    return [`YAML tags are not supported, such as ${quoted(lexeme)}.`, 'Remove the tag.']
  }
  if (type === 'directive-line') {
    return [`YAML directives are not supported, such as ${quoted(lexeme)}.`, 'Remove the line.']
  }
  if (lexeme.startsWith('"')) {
    // The library would report each of 100,000.
    const wrong = lexeme.matchAll(escapes).find(([found]) => found === '\\')
    if (wrong) {
      return [
        `This double-quoted string contains the unknown escape ${lexeme.slice(wrong.index, wrong.index + 2)}.`,
        'Write "\\\\" for a backslash, or use single quotes.',
      ]
    }
  }
  return undefined
}

/** Rewrites an `if` that starts with `!` to valid YAML. */
function negatedCondition(line: string, column: number, tag: string): string | undefined {
  const before = line.slice(0, column - 1)
  if (!/(?:^|[\s{,"'-])if["']?\s*:\s*$/.test(before)) return undefined
  // Within braces the text is assumed to end with the tag.
  if (/[{[]/.test(before)) return `if: "\${{ ${tag.slice(0, 60)} }}"`
  const rest = line
    .slice(column - 1)
    .replace(/\s#.*/s, '')
    .trim()
  return `if: \${{ ${rest.length > 200 ? tag.slice(0, 60) : rest} }}`
}

/** Matches valid YAML escapes, and otherwise a lone backslash. */
const escapes = /\\(?:[0abefnrtvNLP_ "/\\\t\r\n]|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|)/g

function adviceFor(code: string, line: string): string {
  const opening = line.search(/[[{]/)
  if (opening >= 0 && line.includes('${{', opening + 1) && code !== 'TAB_AS_INDENT') {
    return 'Put strings with ${{ }} in quotes inside { } and [ ].'
  }
  if (code === 'TAB_AS_INDENT') return 'Indent with spaces.'
  if (code === 'BAD_INDENT' || code === 'MULTILINE_IMPLICIT_KEY') {
    return 'Indent all keys of a level equally, each as "key: value".'
  }
  if (code === 'BLOCK_AS_IMPLICIT_KEY' || code === 'BAD_SCALAR_START') {
    return 'Put strings that contain ": " or start with a special character in quotes.'
  }
  if (code === 'MISSING_CHAR') return 'Complete it: close quotes and brackets, write "key: value".'
  return 'Check the quotes, brackets and indentation of this line.'
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}
