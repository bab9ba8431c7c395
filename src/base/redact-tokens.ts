// Tokens of the API, of runs and of the runner beside the server, as they are or percent-encoded. One that was cut short
// counts, too, unless so little is left that it does not help to guess the rest.
const tokenShape = /(svc)(?:_|%5f)[0-9a-z]{16,}|(svcrun|svcrunner)(?:_|%5f)[\w-]{16,}/gi
// The same where any of the characters are percent-encoded, once or more often.
const encodedShape =
  /(?:s|%(?:25)*[57]3)(?:v|%(?:25)*[57]6)(?:c|%(?:25)*[46]3)(?:(?:_|%(?:25)*5f)(?:[0-9a-z]|%(?:25)*[2-7][0-9a-f]){16,}|(?:r|%(?:25)*[57]2)(?:u|%(?:25)*[57]5)(?:n|%(?:25)*[46]e)(?:[ner]|%(?:25)*[4-7][0-9a-f]){0,3}(?:_|%(?:25)*5f)(?:[\w-]|%(?:25)*[2-7][0-9a-f]){16,})/gi

/** A text without the tokens in it, wherever it came from. */
export function redactTokens(text: string): string {
  return text.replace(tokenShape, '$1$2_[hidden]').replace(encodedShape, '[hidden]')
}
