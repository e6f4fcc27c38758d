// ---- code: all about the chosen function: its place, numbers, callers, callees and sizes ----

// How editors are asked to open a file at a line.
const EDITORS = {
  '': null,
  'VS Code': (file, line) => `vscode://file${file}:${line}`,
  VSCodium: (file, line) => `vscodium://file${file}:${line}`,
  JetBrains: (file, line) => `idea://open?file=${file}&line=${line}`,
  'Sublime Text': (file, line) => `subl://open?url=file://${file}&line=${line}`,
  TextMate: (file, line) => `txmt://open?url=file://${file}&line=${line}`,
  Emacs: (file, line) => `org-protocol://open-source?file=${file}&line=${line}`,
};

// Kept for the next page; a browser may refuse to.
function keptEditor(newName) {
  try {
    if (newName !== undefined) localStorage.setItem('malloctape-editor', newName);
    return localStorage.getItem('malloctape-editor') ?? '';
  } catch {
    return newName ?? '';
  }
}

// The file and line where the function asks for most, of the last side that knows it.
function codePlace(model, of) {
  for (let side = model.sides.length - 1; side >= 0; side -= 1) {
    const { rows } = model.sides[side].code;
    const row = of.rows[side];
    if (row >= 0 && rows.file[row])
      return { file: rows.file[row], line: rows.line[row], module: rows.module[row] };
    if (row >= 0 && rows.module[row]) return { module: rows.module[row] };
  }
  return {};
}

// The name of a file may have "&", "#" and "?", which would end it.
function codeLink({ file, line }, editor) {
  const open = EDITORS[editor];
  const whole = file?.split('/').map(encodeURIComponent).join('/');
  return open && whole?.startsWith('/') && line > 0 ? open(whole, line) : null;
}

// Sizes of what the function makes: { size, made, bytes, ... } of the last side.
function codeSizes(model, of) {
  const side = model.sides.length - 1;
  const { sizes } = model.sides[side].code;
  return sizes
    ? objectsOf(sizes)
        .filter((one) => one.of === of.rows[side])
        .map((one) => ({ ...one, index: one.size }))
    : [];
}

// Lifetimes of what it makes: { title, objects, part }, from its sizes.
const LIFETIMES = [
  ['up to 100 calls', 'short_lived'],
  ['1 000', 'ended_1000'],
  ['10 000', 'ended_10000'],
  ['100 000', 'ended_100000'],
  ['1 000 000', 'ended_1000000'],
  ['ended later', 'ended_later'],
  ['alive at the end', 'end_objects'],
];

function codeLifetimes(bySize) {
  const all = (key) => sum(bySize.map((one) => one[key] ?? 0));
  const ended = sum(LIFETIMES.slice(0, -1).map(([, key]) => all(key)));
  const left = Math.max(all('made') - ended, 0); // others that are alive at the end are of a base
  const of = ([, key]) => (key === 'end_objects' ? Math.min(all(key), left) : all(key));
  const known = Math.max(sum(LIFETIMES.map(of)), 1);
  return LIFETIMES.map((one, index) => ({
    title: one[0],
    index,
    objects: of(one),
    part: of(one) / known,
  })).filter(({ objects }) => objects > 0);
}

const LIFETIME_COLUMNS = [
  { title: 'objects', value: (row) => row.objects, text: (row) => countText(row.objects) },
  { title: '%', value: (row) => row.part, text: (row) => partText(row.part, 1), part: (row) => row.part },
  { title: 'ended after', first: true, isText: true, value: (row) => -row.index, text: (row) => row.title },
];

const SIZE_COLUMNS = [
  { title: 'size from', value: (row) => row.size, text: (row) => bytesText(row.size) },
  ...[
    ['objects', 'made', countText],
    ['bytes', 'bytes', bytesText],
    ['at the peak', 'peak_bytes', bytesText],
    ['at the end', 'end_bytes', bytesText],
  ].map(([title, key, text]) => ({
    title,
    first: key === 'bytes',
    value: (row) => row[key] ?? 0,
    text: (row) => text(row[key] ?? 0),
  })),
];

// `state` is that of code.js. `choose(index)`: another function.
function codeChosen(model, state, { choose, change }) {
  const title = make('h4', {});
  const place = make('p', { className: 'quiet' });
  const numbers = make('p', {});
  const none = () => {};
  const callers = workTable({ label: 'callers', choose: none, enter: ({ index }) => choose(index) });
  const callees = workTable({ label: 'callees', choose: none, enter: ({ index }) => choose(index) });
  const sizes = workTable({ label: 'sizes', choose: none });
  const lifetimes = workTable({ label: 'lifetimes', choose: none });
  const sizesPart = make(
    'div',
    {},
    make('h5', { textContent: 'Sizes (whole time)' }),
    sizes.element,
    make('h5', { textContent: 'Lifetimes in calls' }),
    lifetimes.element,
  );
  const callersPart = make('div', {}, make('h5', { textContent: 'Callers' }), callers.element);
  const calleesPart = make('div', {}, make('h5', { textContent: 'Callees' }), callees.element);
  const only = make('button', {
    type: 'button',
    textContent: 'only through it',
    onclick: () => change({ only: state.chosen, without: null }),
  });
  const without = make('button', {
    type: 'button',
    textContent: 'without it',
    onclick: () => change({ without: state.chosen, only: null }),
  });
  const parts = make(
    'div',
    {},
    title,
    place,
    numbers,
    make('div', { className: 'controls' }, only, without),
    callersPart,
    calleesPart,
    sizesPart,
  );
  const hint = make('p', {
    className: 'quiet',
    textContent: 'Choose a function: its callers, callees and sizes are shown here.',
  });

  function showPlace(of) {
    const where = codePlace(model, of);
    const link = codeLink(where, state.editor);
    const text = where.file ? `${where.file}:${where.line}` : (where.module ?? '');
    place.replaceChildren(...(link ? [make('a', { href: link, textContent: text })] : [text]));
  }
  function show() {
    const of = model.functions[state.chosen];
    [parts.hidden, hint.hidden] = [!of, Boolean(of)];
    if (!of) return;
    title.textContent = of.name;
    showPlace(of);
    only.hidden = without.hidden = !model.branches.some((branch) => branch.function === state.chosen);
    const all = codeNumbers(model, state);
    const { text } = state.measure;
    const sidesText = (key) =>
      all
        .map((side) =>
          `${signedText(side[key][state.chosen], text)} ${
            all.length === 1 ? `(${partText(side[key][state.chosen], side.whole)})` : ''
          }`.trim(),
        )
        .join(' → ');
    numbers.textContent = `${state.measure.title}: itself ${sidesText('own')}, with what it calls ${sidesText('total')}`;
    const { callers: up, callees: down } = codeCalls(model, all, state.chosen);
    const columns = codeCallColumns(state.measure, all);
    callers.show(
      [
        ...up,
        ...codeUntold(
          up,
          all.map((side) => side.total[state.chosen]),
        ),
      ],
      columns,
      null,
    );
    callees.show(down, columns, null);
    calleesPart.hidden = down.length === 0;
    callersPart.hidden = up.length === 0;
    const bySize = codeSizes(model, of);
    sizesPart.hidden = bySize.length === 0;
    if (bySize.length > 0) {
      sizes.show(bySize, SIZE_COLUMNS, null);
      lifetimes.show(codeLifetimes(bySize), LIFETIME_COLUMNS, null);
    }
  }
  return {
    element: make('aside', { className: 'chosen', 'aria-label': 'the chosen function' }, hint, parts),
    show,
    focus: () => callers.focus(),
  };
}

// What callers ask for that are in no branch, because theirs is small.
function codeUntold(callers, total) {
  const sides = total.map((value, i) => value - sum(callers.map((one) => one.sides[i])));
  const isMuch = callers.length > 0 && sides.some((value, i) => value > total[i] / 1000);
  return isMuch ? [{ name: '(in small branches)', function: -1, index: -1, sides }] : [];
}
