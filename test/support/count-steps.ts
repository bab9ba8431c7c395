import { Session } from 'node:inspector/promises'

/** Methods of the language that take time for what they pass: how much, by their object, their arguments and result. */
type Cost = (self: unknown, args: readonly unknown[], result: unknown) => number

const lengthOf = (value: unknown) => Number(Object(value).length ?? 0)

/** How far an `indexOf` has looked. */
const searched: Cost = (self, [part, start], result) => {
  const from = Math.min(Math.max(0, Number(start ?? 0)), lengthOf(self))
  return typeof result === 'number' && result >= 0
    ? result - from + lengthOf(part)
    : lengthOf(self) - from
}
const wholeSelf: Cost = (self) => lengthOf(self)
const wholeResult: Cost = (_self, _args, result) => lengthOf(result)

const costs: [holder: object, name: string, cost: Cost][] = [
  [String.prototype, 'indexOf', searched],
  [String.prototype, 'includes', wholeSelf],
  [String.prototype, 'split', wholeSelf],
  [String.prototype, 'replaceAll', wholeSelf],
  [String.prototype, 'toLowerCase', wholeSelf],
  [Array.prototype, 'indexOf', searched],
  [Array.prototype, 'includes', wholeSelf],
  [Array.prototype, 'join', wholeResult],
  [Buffer.prototype, 'indexOf', searched],
  [Buffer.prototype, 'copy', wholeSelf],
  [Buffer, 'concat', wholeResult],
  [JSON, 'stringify', wholeResult],
]

/**
 * Counts what functions of src/ execute: each block of code as often as it runs, and what methods of the language pass.
 * The same work has the same count on every machine.
 */
export async function openStepCounter() {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  let inMethods = 0
  const originals = costs.map(([holder, name, cost]) => {
    const original = Reflect.get(holder, name)
    Reflect.set(holder, name, function (this: unknown, ...args: unknown[]) {
      const result = Reflect.apply(original, this, args)
      inMethods += cost(this, args, result)
      return result
    })
    return [holder, name, original] as const
  })

  async function taken(): Promise<number> {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result
      .filter(({ url }) => url.includes('/src/'))
      .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
      .reduce((sum, { count }) => sum + count, 0)
  }

  return {
    async count(work: () => unknown): Promise<number> {
      await taken()
      inMethods = 0
      await work()
      const passed = inMethods
      return passed + (await taken())
    },
    async [Symbol.asyncDispose]() {
      for (const [holder, name, original] of originals) Reflect.set(holder, name, original)
      await session.post('Profiler.stopPreciseCoverage')
      session.disconnect()
    },
  }
}
