import assert from 'node:assert/strict'

export type Sample = { name: string; labels: Record<string, string>; value: number }

type Family = { type: string; help: string }

/**
 * Reads metrics as strictly as the format is defined, histograms included; fails at the first fault:
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export function parseMetrics(text: string): { families: Map<string, Family>; samples: Sample[] } {
  assert.ok(text.endsWith('\n'))
  const families = new Map<string, Family>()
  const samples: Sample[] = []
  const seen = new Set<string>()
  let help: [string, string] | undefined
  for (const line of text.split('\n')) {
    if (line === '') continue
    const [, about, said] = /^# HELP ([a-z_]\w*) (.+)$/.exec(line) ?? []
    const [, typed, type] = /^# TYPE (\w+) (counter|gauge|histogram)$/.exec(line) ?? []
    if (about && said) {
      help = [about, said]
    } else if (typed && type) {
      assert.equal(help?.[0], typed, line)
      assert.ok(!families.has(typed), line)
      families.set(typed, { type, help: help?.[1] ?? '' })
    } else {
      const sample = parseSample(line)
      const family = families.get(sample.name) ?? histogramOf(families, sample.name)
      assert.ok(family, line)
      const [key = ''] = line.split(/ (?=\S+$)/)
      assert.ok(!seen.has(key), `twice: ${line}`)
      seen.add(key)
      samples.push(sample)
    }
  }
  assertHistograms(families, samples)
  return { families, samples }
}

function parseSample(line: string): Sample {
  const [, name, inside = '', value] =
    /^([a-z_]\w*)(?:\{(.*)\})? (N[aA][nN]|[+-]?Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.exec(line) ?? []
  assert.ok(name && value, line)
  const labels = [...inside.matchAll(/([a-z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/g)]
  assert.equal(labels.map(([all]) => all).join(''), inside, line)
  return {
    name,
    labels: Object.fromEntries(labels.map(([, key = '', text = '']) => [key, text])),
    value: Number(value.replace('Inf', 'Infinity').replace(/nan/i, 'NaN')),
  }
}

function histogramOf(families: Map<string, Family>, name: string): Family | undefined {
  const family = families.get(name.replace(/_(bucket|sum|count)$/, ''))
  return family?.type === 'histogram' ? family : undefined
}

// Buckets count all that is less, so they never fall, and the last is the count of all.
function assertHistograms(families: Map<string, Family>, samples: Sample[]): void {
  for (const [name, { type }] of families) {
    if (type !== 'histogram') continue
    const counts = samples.filter((sample) => sample.name === `${name}_count`)
    for (const { labels, value } of counts) {
      const of = JSON.stringify(Object.entries(labels).sort())
      const buckets = samples.filter(({ name: one, labels: { le, ...rest } }) => {
        const isSame = JSON.stringify(Object.entries(rest).sort()) === of
        return one === `${name}_bucket` && le !== undefined && isSame
      })
      const values = buckets.map((bucket) => bucket.value)
      assert.deepEqual(
        values,
        values.toSorted((a, b) => a - b),
        name,
      )
      assert.deepEqual([buckets.at(-1)?.labels.le, values.at(-1)], ['+Inf', value], name)
    }
  }
}
