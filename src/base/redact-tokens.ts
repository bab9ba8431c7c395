// Tokens of the API, of runs and of the runner beside the server, as they are or percent-encoded. One that was cut short
// counts, too, unless so little is left that it does not help to guess the rest.
const tokenShape = /(svc)(?:_|%5f)[0-9a-z]{16,}|(svcrun|svcrunner)(?:_|%5f)[\w-]{16,}/gi

/** A text without the tokens in it, wherever it came from. */
export function redactTokens(text: string): string {
  return text.replace(tokenShape, '$1$2_[hidden]')
}
