import { type Document, isAlias, isMap, isScalar, isSeq, type Node, type Pair } from 'yaml'
import { type FaultList, quoted } from './fault-list.ts'
import type { MapEntry, MapNode, ScalarNode, SourceNode } from './source-node.ts'
import { createSourceText, type SourceText } from './source-text.ts'
import type { SourceFile } from './workflow.ts'
import { maxDepth, parseYaml } from './yaml.ts'

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
