// Shows only the items of a list that have all typed words. The list is in the same menu, or named by its selector.
document.addEventListener('input', ({ target }) => {
  const selector = target.dataset.filter
  if (!selector) return
  const words = target.value.toLowerCase().split(/\s+/)
  const list = target.closest('.menu-list') ?? document
  // The links to whole lists take over what was typed.
  for (const link of list.querySelectorAll('.more a'))
    link.search = new URLSearchParams({ q: target.value })
  for (const item of list.querySelectorAll(selector)) {
    const text = item.textContent.toLowerCase()
    item.hidden = !words.every((word) => text.includes(word))
  }
})

// Arrows choose among the paths that were found, and Enter in the field opens the first.
document.addEventListener('keydown', (event) => {
  const field = document.querySelector('.find input')
  if (!field || !/^(Arrow(Up|Down)|Enter)$/.test(event.key)) return
  const at = event.target.closest('#paths a')
  if (event.target !== field && !at) return
  if (event.key === 'Enter' && (at || !field.dataset.filter)) return
  const links = [...document.querySelectorAll('#paths li:not([hidden]) a')]
  const index = links.indexOf(at)
  event.preventDefault()
  if (event.key === 'Enter') links[0]?.click()
  else if (event.key === 'ArrowDown') links[index + 1]?.focus()
  else (links[index - 1] ?? field).focus()
})

// Replaces what was not complete yet, later and later.
{
  const again = (id, wait) => {
    const replace = (page) => {
      const fresh = page?.getElementById(id)
      if (!fresh) return
      document.getElementById(id).replaceWith(fresh)
      if (fresh.dataset.again) again(id, wait * 2)
    }
    setTimeout(() => loadPage(location.href, replace), wait)
  }
  for (const part of document.querySelectorAll('[data-again]')) again(part.id, +part.dataset.again)
}
