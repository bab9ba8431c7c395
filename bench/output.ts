/** Tells the person at the terminal what goes on. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
