/** A Content-Disposition header: RFC 6266, with the encoding of RFC 8187. */
export function toContentDisposition(fileName: string): string {
  const plain = fileName.replace(/[^\w.-]/g, '_')
  if (plain === fileName) return `attachment; filename="${plain}"`
  const encoded = encodeURIComponent(fileName).replace(
    /['()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
