// Picks lines of code or of a log by a click on their numbers, or by dragging over them. The address names them, and links
// to other versions of the file keep them.
{
  const lines = 'pre.code > code > span, .log li[id]'
  const form = /^#(s\d+-)?L(\d+)(?:-L(\d+))?$/
  let first
  const pick = (prefix, from, to) => {
    const [start, end] = from < to ? [from, to] : [to, from]
    for (const line of document.querySelectorAll('.picked')) line.classList.remove('picked')
    for (let line = start; line <= end; line++)
      document.getElementById(`${prefix}L${line}`)?.classList.add('picked')
    return `#${prefix}L${start}${start === end ? '' : `-L${end}`}`
  }
  const keep = () => {
    for (const link of document.querySelectorAll('a[data-keeps-lines]')) link.hash = location.hash
  }
  const go = (hash) => {
    history.replaceState(null, '', hash)
    keep()
  }
  const lineAt = ({ target, clientX }) => {
    const line = target.closest?.(lines)
    if (!line || clientX - line.getBoundingClientRect().left >= 64) return
    const [, prefix = '', number] = form.exec(`#${line.id}`) ?? []
    return number && { prefix, number: +number }
  }
  const show = () => {
    const [, prefix = '', from, to] = form.exec(location.hash) ?? []
    const line = from && document.getElementById(`${prefix}L${from}`)
    if (!line) return
    pick(prefix, +from, +(to ?? from))
    if (to) line.scrollIntoView()
    keep()
  }
  if (document.querySelector(lines)) {
    show()
    addEventListener('hashchange', show)
    document.addEventListener('pointerdown', (event) => {
      const line = lineAt(event)
      if (!line) return
      event.preventDefault()
      if (!event.shiftKey || first?.prefix !== line.prefix) first = line
      go(pick(line.prefix, first.number, line.number))
    })
    document.addEventListener('pointermove', (event) => {
      const line = event.buttons === 1 && first && lineAt(event)
      if (line && line.prefix === first.prefix) go(pick(line.prefix, first.number, line.number))
    })
  }
}
