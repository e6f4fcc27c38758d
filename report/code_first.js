// ---- code: what to look at first, as in the text ----

// A row leads to its function, by the number that it stands out for. Null: nothing does.
function codeFirst(model, { change }) {
  const { first, by, all } = model.sides.at(-1).code;
  const rows = first ? objectsOf(first) : [];
  if (rows.length === 0) return null;
  const lineOf = ({ name, number, value, where }) => {
    const measure = MEASURES.find(({ key }) => key === number);
    const look = make('button', {
      type: 'button',
      textContent: shortName(name, 60),
      title: name,
      onclick: () =>
        change({ measure, chosen: model.functions.find((one) => one.name === name)?.index ?? null }),
    });
    const place = make('td', { className: 'text', textContent: shortPlace(where) });
    if (where !== place.textContent) place.title = where;
    return make(
      'tr',
      {},
      make('td', { textContent: measure.text(value) }),
      make('td', { className: 'narrow', textContent: partText(value, all[number]) }),
      make('td', { className: 'kind', textContent: measure.title }),
      make('td', { className: 'text' }, look),
      place,
    );
  };
  const table = make('table', { 'aria-label': `${by}s to look at first` });
  table.createTBody().append(...rows.map(lineOf));
  return make(
    'div',
    { className: 'first' },
    make('h4', { textContent: `${by[0].toUpperCase()}${by.slice(1)}s to look at first` }),
    make('div', { className: 'scroll work' }, table),
  );
}
