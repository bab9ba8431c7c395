import { Pool } from 'undici'

// The baseline for webhooks: requests of the same size, without decisions, signatures or records.

const [address = '', count = '0', bytes = '0', atOnce = '1'] = process.argv.slice(2)
const { origin, pathname } = new URL(address)
const pool = new Pool(origin, { connections: Number(atOnce), pipelining: 1 })
const body = Buffer.alloc(Number(bytes), 'x')
let left = Number(count)

async function send(): Promise<void> {
  while (left-- > 0) {
    const answer = await pool.request({ path: pathname, method: 'POST', body })
    await answer.body.dump()
  }
}

await Promise.all(Array.from({ length: Number(atOnce) }, send))
await pool.close()
