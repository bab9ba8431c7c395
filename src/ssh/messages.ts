/** The software name in the server's identification. */
export const softwareName = 'svc'

/** Message numbers: RFC 4250, section 4.1.2. */
export const messages = {
  disconnect: 1,
  debug: 4,
  serviceRequest: 5,
  serviceAccept: 6,
  extInfo: 7,
  kexInit: 20,
  userauthRequest: 50,
  userauthFailure: 51,
  userauthSuccess: 52,
  userauthBanner: 53,
  userauthPkOk: 60,
  globalRequest: 80,
  requestSuccess: 81,
  requestFailure: 82,
  channelOpen: 90,
  channelOpenConfirmation: 91,
  channelOpenFailure: 92,
  channelWindowAdjust: 93,
  channelData: 94,
  channelExtendedData: 95,
  channelEof: 96,
  channelClose: 97,
  channelRequest: 98,
  channelSuccess: 99,
  channelFailure: 100,
} as const

/** Reason codes of SSH_MSG_DISCONNECT: RFC 4253, section 11.1. */
export const disconnectReasons = {
  protocolError: 2,
  serviceNotAvailable: 7,
  byApplication: 11,
  tooManyConnections: 12,
  noMoreAuthMethods: 14,
} as const
