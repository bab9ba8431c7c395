import { Agent, get } from 'node:http'

// A process of its own: in that of the bench, the start of each git would be measured, too.

const everyMs = 4

const [url = ''] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })
let latencies: number[] = []

setInterval(ask, everyMs)
// Each message asks for what was measured since the one before.
process.on('message', () => {
  process.send?.(latencies)
  latencies = []
})
process.on('disconnect', () => process.exit())

/** Does not wait for earlier answers, so that a server that pauses is late for all who ask meanwhile. */
function ask(): void {
  const startedAt = performance.now()
  get(`${url}/health`, { agent }, (response) => {
    if (response.statusCode !== 200) throw new Error(`GET /health answered ${response.statusCode}.`)
    response.resume().on('end', () => latencies.push(performance.now() - startedAt))
  })
}
