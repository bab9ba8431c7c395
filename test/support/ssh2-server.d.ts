/** What tests use of ssh2's server, which stands for other people's. */
declare module 'ssh2' {
  import type { EventEmitter } from 'node:events'
  import type { Duplex } from 'node:stream'

  export type Login = {
    method: string
    username: string
    password?: string
    accept(): void
    reject(methods?: string[]): void
  }
  export type Channel = Duplex & { exit(code: number): void; stderr: Duplex }
  export type Session = EventEmitter
  export type Connection = EventEmitter & { end(): void }

  export class Server extends EventEmitter {
    constructor(
      config: { hostKeys: string[]; banner?: string },
      onConnection: (connection: Connection) => void,
    )
    listen(port: number, host: string, listening: () => void): this
    close(): void
    address(): { port: number }
  }

  const ssh2: { Server: typeof Server }
  // biome-ignore lint/style/noDefaultExport: as ssh2 has it
  export default ssh2
}
