'use strict';
// The page is complete without this: it adds tooltips, keys, zoom, sorting, filtering and copying.
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const make = (name, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
  };

  // ---- tooltips: by pointer, and by arrow keys within a chart ----

  const tip = make('div', { id: 'tip', hidden: true });
  tip.setAttribute('role', 'status');
  document.body.append(tip);
  let current = null;

  const hide = () => {
    tip.hidden = true;
    if (current) current.classList.remove('is-current');
    current = null;
  };

  const show = (mark, focused) => {
    hide();
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const middle = Math.min(Math.max(box.left + box.width / 2, 8), document.documentElement.clientWidth - 8);
    const left = Math.min(Math.max(middle - tip.offsetWidth / 2, 8), document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = box.top > tip.offsetHeight + 12;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above ? box.top - tip.offsetHeight - 6 : box.bottom + 6) + scrollY}px`;
    current = mark;
    if (focused) {
      mark.classList.add('is-current');
      const pane = mark.closest('.scroll');
      if (pane && (box.left < pane.getBoundingClientRect().left || box.right > pane.getBoundingClientRect().right)) {
        pane.scrollLeft += box.left - pane.getBoundingClientRect().left - pane.clientWidth / 2;
        show(mark, false);
        mark.classList.add('is-current');
      }
    }
  };

  for (const chart of all('main svg[role="img"]')) {
    const marks = all('title', chart).map((title) => {
      const mark = title.parentNode;
      mark.dataset.tip = title.textContent;
      title.remove();  // else the browser shows a second tooltip
      return mark;
    });
    if (marks.length === 0) continue;
    chart.tabIndex = 0;
    chart.addEventListener('pointerover', (event) => event.target.dataset.tip && show(event.target, false));
    chart.addEventListener('pointerout', hide);
    chart.addEventListener('blur', hide);
    chart.addEventListener('keydown', (event) => {
      const at = marks.indexOf(current);
      const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? marks.length - 1 : at - 1, Home: 0, End: marks.length - 1 }[event.key];
      if (event.key === 'Escape') hide();
      if (to === undefined) return;
      event.preventDefault();
      show(marks[Math.min(Math.max(to, 0), marks.length - 1)], true);
    });
  }
  addEventListener('keydown', (event) => event.key === 'Escape' && hide());

  // ---- zoom of timelines: places are percentages, so a wider drawing is a closer look ----

  for (const timeline of all('.timeline')) {
    const pane = timeline.querySelector('.scroll');
    const drawing = timeline.querySelector('.wide');
    const shown = make('span', { textContent: '100 %' });
    let factor = 1;
    const zoom = (to, at = pane.clientWidth / 2) => {
      const place = (pane.scrollLeft + at) / drawing.offsetWidth;
      factor = Math.min(Math.max(to, 1), 32);
      drawing.style.width = factor === 1 ? '' : `${factor * 100}%`;
      pane.scrollLeft = place * drawing.offsetWidth - at;
      shown.textContent = `${Math.round(factor * 100)} %`;
    };
    const button = (text, label, action) => {
      const node = make('button', { type: 'button', textContent: text, onclick: action });
      node.setAttribute('aria-label', label);
      return node;
    };
    timeline.prepend(make('div', { className: 'tools' }, button('−', 'zoom out', () => zoom(factor / 2)),
      button('+', 'zoom in', () => zoom(factor * 2)), button('whole step', 'show the whole step', () => zoom(1)), shown));
    pane.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(factor * (event.deltaY < 0 ? 1.25 : 0.8), event.clientX - pane.getBoundingClientRect().left);
    }, { passive: false });
    pane.addEventListener('keydown', (event) => {
      if (event.key === '+') zoom(factor * 2);
      if (event.key === '-') zoom(factor / 2);
    });
  }

  // ---- tables: sorted by a column, filtered by words ----

  const value_of = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.v ?? cell.textContent;
    return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
  };

  const compare = (a, b) => {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    return String(a).localeCompare(String(b), 'en', { numeric: true });
  };

  const sort = (table, column, descending) => {
    const body = table.tBodies[0];
    const missing = 1e99;  // stays last either way
    const rows = Array.from(body.rows).map((row, place) => ({ row, place, value: value_of(row, column) }));
    rows.sort((a, b) => {
      if ((a.value === missing) !== (b.value === missing)) return a.value === missing ? 1 : -1;
      return (descending ? compare(b.value, a.value) : compare(a.value, b.value)) || a.place - b.place;
    });
    body.append(...rows.map(({ row }) => row));
    all('th', table).forEach((head, i) => {
      if (i === column) head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
  };

  for (const table of all('table.sortable')) {
    all('th', table).forEach((head, column) => {
      const button = make('button', { type: 'button', textContent: head.textContent });
      button.addEventListener('click', () => sort(table, column, head.getAttribute('aria-sort') === 'ascending'));
      head.replaceChildren(button);
    });
    const words = make('input', { type: 'search', placeholder: 'filter: words of a row', size: 24 });
    words.setAttribute('aria-label', 'filter the rows');
    const count = make('span');
    count.setAttribute('role', 'status');
    const outcomes = make('select', {}, make('option', { value: '', textContent: 'every outcome' }),
      make('option', { value: 'measured', textContent: 'measured' }), make('option', { value: 'failed', textContent: 'failed' }));
    outcomes.setAttribute('aria-label', 'outcome');
    const filter = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        const measured = row.cells[row.cells.length - 1].textContent === 'measured';
        const fits = outcomes.value === '' || measured === (outcomes.value === 'measured');
        row.hidden = !fits || !wanted.every((word) => text.includes(word));
        left += row.hidden ? 0 : 1;
      }
      count.textContent = `${left} of ${table.tBodies[0].rows.length} rows`;
    };
    words.addEventListener('input', filter);
    outcomes.addEventListener('change', filter);
    table.closest('.scroll').before(make('div', { className: 'tools' }, words, outcomes, count));
    filter();
  }

  // ---- copying, printing ----

  for (const code of all('.code')) {
    const button = make('button', { type: 'button', textContent: 'copy' });
    button.addEventListener('click', async () => {
      const text = code.querySelector('code').textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = 'copied';
      } catch {
        getSelection().selectAllChildren(code.querySelector('code'));
        button.textContent = 'selected';
      }
      setTimeout(() => { button.textContent = 'copy'; }, 1500);
    });
    code.classList.add('copyable');
    code.append(button);
  }

  let opened = [];
  addEventListener('beforeprint', () => {
    opened = all('details:not([open])');
    for (const one of opened) one.open = true;
  });
  addEventListener('afterprint', () => opened.forEach((one) => { one.open = false; }));
})();
