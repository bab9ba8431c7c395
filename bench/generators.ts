/** A text in the format of git-fast-import(1). */
export function toData(content: string): string {
  return `data ${Buffer.byteLength(content)}\n${content}\n`
}

const words =
  'a ref moves when its commit is on the disk and the server reports to the client what was kept'.split(
    ' ',
  )

/** A line of a text. */
export function line(random: (below: number) => number): string {
  const chosen = Array.from({ length: 4 + random(8) }, () => words[random(words.length)])
  return `${random(100_000)} ${chosen.join(' ')}`
}

/** Deterministic pseudorandom integers from 0: mulberry32. */
export function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
