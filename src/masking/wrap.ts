/** Breaks an encoded text into lines of so many characters. */
export function wrap(base64: string, width: number): string {
  return (base64.match(new RegExp(`.{1,${width}}`, 'g')) ?? []).join('\n')
}
