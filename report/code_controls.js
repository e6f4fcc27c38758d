// ---- code: what is chosen above the views, and by keys ----

const VIEWS = ['functions', 'tree', 'flame graph'];

function codeCheck(label, onchange) {
  const input = make('input', { type: 'checkbox', onchange: () => onchange(input.checked) });
  return { input, element: make('label', {}, input, ` ${label}`) };
}

function codeSelect(label, options, value, onchange) {
  const select = make(
    'select',
    { 'aria-label': label, onchange: () => onchange(Number(select.value)) },
    ...options.map((text, i) => make('option', { value: String(i), textContent: text })),
  );
  select.value = String(value);
  return select;
}

// What is looked at: the measure, a name, the view, and how; show() follows `state`.
function codeControls(model, state, names, change) {
  const measures = codeSelect(
    'what is counted',
    model.measures.map(({ title }) => title),
    0,
    (at) => change({ measure: model.measures[at] }),
  );
  const search = make('input', {
    type: 'search',
    placeholder: 'find a function',
    value: '',
    'aria-label': 'find a function',
    oninput: () => change({ search: search.value }),
  });
  const inArguments = codeCheck('also in template arguments', (is) => change({ inArguments: is }));
  const allNumbers = codeCheck('all numbers', (is) => change({ hasAllNumbers: is }));
  const isUp = codeCheck('from the innermost out', (is) => change({ isUp: is }));
  const side = codeSelect(
    'whose widths',
    names.map((name) => `widths: ${name}`),
    state.sideOf,
    (at) => change({ sideOf: at }),
  );
  const editors = Object.keys(EDITORS);
  const editor = codeSelect(
    'editor of links',
    editors.map((name) => (name ? `links: ${name}` : 'no links for an editor')),
    editors.indexOf(state.editor),
    (at) => change({ editor: keptEditor(editors[at]) }),
  );
  const focus = make('button', { type: 'button', onclick: () => change({ only: null, without: null }) });
  const tabs = VIEWS.map((name, at) =>
    make('button', { type: 'button', role: 'tab', textContent: name, onclick: () => change({ view: at }) }),
  );
  const note = make('p', { className: 'quiet', textContent: 'This number is of the whole time.' });

  function showFocus() {
    const focused = state.only ?? state.without;
    focus.hidden = focused === null;
    if (focused !== null)
      focus.textContent = `${state.only === null ? 'without' : 'only through'} ${shortName(model.functions[focused].name, 40)}  ✕`;
  }
  function show() {
    measures.value = String(model.measures.indexOf(state.measure));
    tabs.forEach((tab, at) => tab.setAttribute('aria-selected', String(at === state.view)));
    isUp.input.checked = state.isUp;
    isUp.element.hidden = state.view === 0;
    allNumbers.element.hidden = state.view !== 0;
    side.hidden = state.view !== 2 || names.length === 1;
    note.hidden = state.range === null || codeIsTimed(model, state);
    showFocus();
  }
  return {
    search,
    show,
    elements: [
      make('div', { className: 'controls' }, measures, search, inArguments.element),
      make(
        'div',
        { className: 'controls' },
        make('div', { role: 'tablist', className: 'tabs' }, ...tabs),
        isUp.element,
        allNumbers.element,
        side,
        focus,
        editor,
      ),
      note,
    ],
  };
}

// ---- keys ----

const CODE_KEYS = [
  ['/', 'find a function'],
  ['1 2 3', 'functions, tree, flame graph'],
  ['m, M', 'next, previous measure'],
  ['i', 'the other way up'],
  ['↑ ↓, Home, End', 'another row'],
  ['→ ←', 'open, close; beside'],
  ['*', 'open the heaviest path'],
  ['Enter', 'callers and callees; zoom'],
  ['Escape', 'leave the search; show all'],
];

const codeKeysHelp = () =>
  make(
    'details',
    { className: 'keys' },
    make('summary', { textContent: 'keys' }),
    make(
      'dl',
      {},
      ...CODE_KEYS.map(([key, does]) =>
        make('div', {}, make('dt', { textContent: key }), make('dd', { textContent: does })),
      ),
    ),
  );

const isTypedInto = ({ tagName, type }) =>
  tagName === 'SELECT' || (tagName === 'INPUT' && type !== 'checkbox' && type !== 'range');

function codeKeys(model, state, views, search, change) {
  const next = (step) => {
    const { length } = model.measures;
    change({ measure: model.measures[(model.measures.indexOf(state.measure) + step + length) % length] });
  };
  const look = (at) => {
    change({ view: at });
    views[at].focus();
  };
  const keys = {
    '/': () => search.focus(),
    m: () => next(1),
    M: () => next(-1),
    i: () => change({ isUp: !state.isUp }),
    1: () => look(0),
    2: () => look(1),
    3: () => look(2),
  };
  return (event) => {
    const { key, target } = event;
    if (key === 'Escape' && target === search) {
      search.value = '';
      change({ search: '' });
      views[state.view].focus();
    }
    if (isTypedInto(target) || event.ctrlKey || event.metaKey || event.altKey || !(key in keys)) return;
    event.preventDefault();
    keys[key]();
  };
}
