import { type HostRule, parseHostRule } from '#base/outbound/host-rules.ts'
import type { FaultList } from './fault-list.ts'
import type { Field } from './fields.ts'
import { readTexts } from './values.ts'

const maxHosts = 100

/** The hosts of `network`: none for `none` or an empty list; undefined without it. */
export function readNetwork(field: Field | undefined, faults: FaultList): HostRule[] | undefined {
  if (!field) return undefined
  const { node } = field
  if (node.kind === 'scalar' && node.value === 'none') return []
  const texts = readTexts(field, faults)
  if (texts.length > maxHosts) {
    const message = `"network" has ${texts.length} hosts; the maximum is ${maxHosts}.`
    faults.add(node.position, message, 'Use patterns, such as *.example.com.')
    return []
  }
  return texts.flatMap(({ text, field: item }) => {
    const rule = text === 'none' ? '"none" stands in a list' : parseHostRule(text)
    if (typeof rule !== 'string') return [rule]
    faults.add(item.node.position, `In "network", ${rule}.`, instead)
    return []
  })
}

const instead =
  'Write "none", or hosts such as registry.npmjs.org, *.example.com, example.com:8080 or "*".'
