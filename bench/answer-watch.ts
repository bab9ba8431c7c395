import { Agent, get } from 'node:http'

// A process of its own: in that of the bench, the start of each git would be measured, too.

const everyMs = 8

const [url = '', token = ''] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })
const headers = { authorization: `Bearer ${token}` }
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
  get(url, { agent, headers }, (response) => {
    if (response.statusCode !== 200) throw new Error(`${url} answered ${response.statusCode}.`)
    response.resume().on('end', () => latencies.push(performance.now() - startedAt))
  })
}
