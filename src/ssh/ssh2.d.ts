/** The parts of ssh2 that svc uses: its transport (RFC 4253), most of which is undocumented. */
declare module 'ssh2/lib/protocol/Protocol.js' {
  export type HostKey = { type: string; getPublicSSH(): Buffer; sign(data: Buffer): Buffer | Error }

  type Config = {
    server: true
    hostKeys: Record<string, HostKey>
    ident: string
    offer: object
    onWrite: (bytes: Buffer) => void
    onError: (error: Error) => void
    onHeader: () => void
    onHandshakeComplete: () => void
    messageHandlers: { DISCONNECT: () => void }
  }

  export type KeyExchange = {
    type: string
    sessionID: Buffer
    remoteExtInfoEnabled: boolean
    /** The payload of the client's SSH_MSG_KEXINIT, as it goes into the exchange hash. */
    _remoteKexinit: Buffer
    convertPublicKey: (received: Buffer) => Buffer
    computeSecret: (received: Buffer) => Buffer | Error
    getPublicKey: () => Buffer
  }

  /** A number ends the parsing of the received bytes. */
  type OnPayload = (payload: Buffer) => number | false | undefined

  // biome-ignore lint/style/noDefaultExport: as ssh2 has it
  export default class Protocol {
    constructor(config: Config)
    start(): void
    parse(bytes: Buffer, start: number, end: number): void
    rekey(): void
    cleanup(): void
    /** Set while keys are being exchanged. */
    _kexinit: Buffer | undefined
    _kex: KeyExchange | undefined
    /** The payloads of all messages but those of the first key exchange. */
    _onPayload: OnPayload
    _decipher: { _onPayload: OnPayload }
    /** A packet's payload begins at its fifth byte. */
    _cipher: { allocPacket(payloadBytes: number): Buffer; encrypt(packet: Buffer): void }
  }
}
