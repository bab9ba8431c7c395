// Shows the operations that have all words of the search, and the groups that have such operations.
document.querySelector('[data-docs-filter]')?.addEventListener('input', ({ target }) => {
  const words = target.value.toLowerCase().split(/\s+/)
  let found = 0
  for (const group of document.querySelectorAll('[data-docs-group]')) {
    const entries = [...group.querySelectorAll('[data-docs-entry]')]
    for (const entry of entries)
      entry.hidden = !words.every((word) => entry.dataset.docsEntry.includes(word))
    group.hidden = entries.every((entry) => entry.hidden)
    if (!group.hidden) found++
  }
  document.querySelector('.docs-none').hidden = found > 0
})
