// Tokens of the API, of runs and of the built-in runner, plain or percent-encoded. Truncated tokens match, too, unless
// the rest is too short to help a guess.
const tokenShape = /(svc)(?:_|%5f)[0-9a-z]{16,}|(svcrun|svcrunner)(?:_|%5f)[\w-]{16,}/gi
// The same with any character percent-encoded, once or repeatedly.
const encodedShape =
  /(?:s|%(?:25)*[57]3)(?:v|%(?:25)*[57]6)(?:c|%(?:25)*[46]3)(?:(?:_|%(?:25)*5f)(?:[0-9a-z]|%(?:25)*[2-7][0-9a-f]){16,}|(?:r|%(?:25)*[57]2)(?:u|%(?:25)*[57]5)(?:n|%(?:25)*[46]e)(?:[ner]|%(?:25)*[4-7][0-9a-f]){0,3}(?:_|%(?:25)*5f)(?:[\w-]|%(?:25)*[2-7][0-9a-f]){16,})/gi

/** Replaces the tokens in a text by `[hidden]`. */
export function redactTokens(text: string): string {
  return text.replace(tokenShape, '$1$2_[hidden]').replace(encodedShape, '[hidden]')
}
