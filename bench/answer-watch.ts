import { Agent, get } from 'node:http'

// A separate process, so that the start of each git in the benchmark is not measured.

const everyMs = 8

const [url = '', token = ''] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })
const headers = { authorization: `Bearer ${token}` }
let latencies: number[] = []

setInterval(ask, everyMs)
// Each message requests the times measured since the previous one.
process.on('message', () => {
  process.send?.(latencies)
  latencies = []
})
process.on('disconnect', () => process.exit())

/** Does not wait for earlier responses, so a pause of the server delays all requests made during it. */
function ask(): void {
  const startedAt = performance.now()
  get(url, { agent, headers }, (response) => {
    if (response.statusCode !== 200) throw new Error(`${url} answered ${response.statusCode}.`)
    response.resume().on('end', () => latencies.push(performance.now() - startedAt))
  })
}
