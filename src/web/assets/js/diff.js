{
  // The number in the new file is in the last cell but one, unified and split.
  const numberOf = (row) => +row.querySelector('td[data-n]:nth-last-child(2)')?.dataset.n
  const numberBeside = (row, step) => {
    let next = row[step]
    while (next && !numberOf(next)) next = next[step]
    return next && numberOf(next)
  }

  /** Shows unchanged lines in place of the row that leads to them. */
  const unfold = (link) =>
    loadPage(link.href, (page) => {
      const whole = page?.querySelector('.diff-lines')
      const fold = link.closest('tr')
      const from = numberBeside(fold, 'previousElementSibling') ?? 0
      const to = numberBeside(fold, 'nextElementSibling') ?? Infinity
      const rows = [...(whole?.rows ?? [])].filter((row) => {
        const number = numberOf(row)
        return number > from && number < to
      })
      if (!whole) return location.assign(link.href)
      // The last lines of the file are all shown.
      if (!rows.length) return fold.remove()
      for (const row of rows) row.removeAttribute('id')
      rows[0].tabIndex = -1
      fold.replaceWith(...rows)
      rows[0].focus()
    })

  document.addEventListener('click', (event) => {
    const link = event.target.closest('.fold a')
    if (link && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault()
      unfold(link)
    }
    const row = event.target.closest('.diff-lines td[data-n], .blame td[data-n]')?.parentElement
    if (row?.id && !event.target.closest('a')) location.hash = row.id
  })

  // What is selected in one side of a split diff does not have the other one.
  document.addEventListener('mousedown', ({ target }) => {
    const cell = target.closest('.split .diff-lines td')
    if (cell) cell.closest('table').dataset.side = cell.cellIndex < 2 ? 'left' : 'right'
  })
}
