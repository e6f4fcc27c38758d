// ---- code: what functions ask for; everything for one measure, stretch of time and focus ----

const VIEWS = ['functions', 'tree', 'flame graph'];

// With most of the table's number first, as in the text: what may leak comes before all others.
function codeFirstMeasure({ measures }, codes) {
  const leaks = codes.at(-1).may_leak.name.length > 0 && measures.find(({ key }) => key === 'end_bytes');
  return leaks || measures[0];
}

function codeFunctionColumns(model, state, all) {
  const { text, key } = state.measure;
  const of = (name) => ({ index }) => all.map((side) => side[name][index]);
  const side = model.sides.length - 1;
  const { code } = model.sides[side];
  const margin = ({ rows }) => (state.range === null && state.only === null && state.without === null
    && code.rows[`${key}_margin`]?.[rows[side]]) || 0;
  const totals = codeSideColumns(of('total'), text, all, 'with calls');
  const columns = [...codeSideColumns(of('own'), text, all, 'itself'), ...(all.length > 1 ? totals.slice(-1) : totals)];
  // Its number, or the difference; and the same with what it calls.
  const [own, total] = all.length > 1 ? [columns[2], columns[3]] : [columns[0], columns[2]];
  const plain = own.text;
  own.text = (row) => plain(row) + (margin(row) > 0 ? ` ± ${text(margin(row))}` : '');
  columns.forEach((column) => { column.first = column === (code.sort === 'total' ? total : own); });
  const where = ({ rows }) => code.where[key]?.[rows[side]] || code.where.bytes?.[rows[side]] || '';
  return [...columns, ...(state.hasAllNumbers ? codeOtherColumns(model, state) : []),
    { title: code.by, isText: true, value: ({ name }) => name.toLowerCase(),
      text: ({ name }) => (code.by === 'stack' ? firstLines(name) : shortName(name, 90)), whole: ({ name }) => name },
    { title: 'where', isText: true, value: where, text: (row) => shortPlace(where(row)), whole: where,
      link: (row) => codeLink(codePlace(model, row), state.editor) }];
}

// Of a stack, the innermost functions.
const firstLines = (text, most = 8) => text.split('\n').slice(0, most).join('\n');

const shortPlace = (text) => (text.startsWith('/') ? text.replace(/^.*\//, '') : text);

// Each other measure, of itself and with what it calls.
function codeOtherColumns(model, state) {
  return model.measures.filter((one) => one !== state.measure).flatMap((measure) => {
    const all = codeNumbers(model, { ...state, measure });
    return ['own', 'total'].map((name) => {
      const value = ({ index }) => codeValue(all.map((side) => side[name][index]));
      return { title: name === 'own' ? measure.title : '… with calls', value, text: (row) => signedText(value(row), measure.text) };
    });
  });
}

// ---- controls ----

function codeCheck(label, onchange) {
  const input = make('input', { type: 'checkbox', onchange: () => onchange(input.checked) });
  return { input, element: make('label', {}, input, ` ${label}`) };
}

function codeSelect(label, options, value, onchange) {
  const select = make('select', { 'aria-label': label, onchange: () => onchange(Number(select.value)) },
    ...options.map((text, i) => make('option', { value: String(i), textContent: text })));
  select.value = String(value);
  return select;
}

// What is looked at: the measure, a name, the view, and how; show() follows `state`.
function codeControls(model, state, names, change) {
  const measures = codeSelect('what is counted', model.measures.map(({ title }) => title), 0,
    (at) => change({ measure: model.measures[at] }));
  const search = make('input', { type: 'search', placeholder: 'find a function', value: '', 'aria-label': 'find a function',
    oninput: () => change({ search: search.value }) });
  const inArguments = codeCheck('also in template arguments', (is) => change({ inArguments: is }));
  const allNumbers = codeCheck('all numbers', (is) => change({ hasAllNumbers: is }));
  const isUp = codeCheck('from the innermost out', (is) => change({ isUp: is }));
  const side = codeSelect('whose widths', names.map((name) => `widths: ${name}`), state.sideOf, (at) => change({ sideOf: at }));
  const editors = Object.keys(EDITORS);
  const editor = codeSelect('editor of links', editors.map((name) => (name ? `links: ${name}` : 'no links for an editor')),
    editors.indexOf(state.editor), (at) => change({ editor: keptEditor(editors[at]) }));
  const focus = make('button', { type: 'button', onclick: () => change({ only: null, without: null }) });
  const tabs = VIEWS.map((name, at) => make('button', { type: 'button', role: 'tab', textContent: name,
    onclick: () => change({ view: at }) }));
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
  return { search, show, elements: [
    make('div', { className: 'controls' }, measures, search, inArguments.element),
    make('div', { className: 'controls' }, make('div', { role: 'tablist', className: 'tabs' }, ...tabs),
      isUp.element, allNumbers.element, side, focus, editor), note] };
}

// ---- keys ----

const CODE_KEYS = [['/', 'find a function'], ['1 2 3', 'functions, tree, flame graph'], ['m, M', 'next, previous measure'],
  ['i', 'the other way up'], ['↑ ↓, Home, End', 'another row'], ['→ ←', 'open, close; beside'], ['*', 'open the heaviest path'],
  ['Enter', 'callers and callees; zoom'], ['Escape', 'leave the search; show all']];

const codeKeysHelp = () => make('details', { className: 'keys' }, make('summary', { textContent: 'keys' }),
  make('dl', {}, ...CODE_KEYS.map(([key, does]) => make('div', {}, make('dt', { textContent: key }), make('dd', { textContent: does })))));

const isTypedInto = ({ tagName, type }) => tagName === 'SELECT'
  || (tagName === 'INPUT' && type !== 'checkbox' && type !== 'range');

function codeKeys(model, state, views, search, change) {
  const next = (step) => {
    const { length } = model.measures;
    change({ measure: model.measures[(model.measures.indexOf(state.measure) + step + length) % length] });
  };
  const look = (at) => { change({ view: at }); views[at].focus(); };
  const keys = { '/': () => search.focus(), m: () => next(1), M: () => next(-1), i: () => change({ isUp: !state.isUp }),
    1: () => look(0), 2: () => look(1), 3: () => look(2) };
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

// ---- what the views show ----

function codeShowFunctions(model, state, table) {
  const all = codeNumbers(model, state);
  const has = ({ index }) => all.some(({ own, total }) => own[index] !== 0 || total[index] !== 0);
  const rows = model.functions.filter((one) => model.isRow(one) && (state.hasAllNumbers || has(one)) && nameFits(one.name, state));
  table.show(rows, codeFunctionColumns(model, state, all), state.chosen);
}

// A tree is kept as long as its numbers are, so that what was opened in it stays open.
const codeRoot = { of: null };
function codeRootOf(model, { isUp }, all) {
  if (codeRoot.of !== all || codeRoot.isUp !== isUp)
    Object.assign(codeRoot, { of: all, isUp, root: (isUp ? codeUp : codeDown)(model, all) });
  return codeRoot.root;
}

// In the tree or the graph.
function codeShowNodes(model, state, view) {
  const all = codeNumbers(model, state);
  const { measure: { text }, search, isUp, sideOf } = state;
  const fitting = new Map();
  const fits = ({ name }) => {
    if (!fitting.has(name)) fitting.set(name, search !== '' && nameFits(name, state));
    return fitting.get(name);
  };
  view.show({ root: codeRootOf(model, state, all), fits, search, isUp, sideOf,
    columns: codeSideColumns(({ sides }) => sides, text, all, ''),
    text: ({ sides }) => (sides.length > 1 ? `${sides.map((value) => signedText(value, text)).join(' → ')}`
      : `${signedText(sides[0], text)}, ${partText(sides[0], all[0].whole)}`) });
}

// ---- all ----

function codeHeaviest(model, state) {
  const [all] = codeNumbers(model, state).slice(-1);
  return all.own.reduce((most, value, at) => (value > all.own[most] ? at : most), 0);
}

// Shows the codes of one trace, or of two; returns what draws over time, or null.
function showCode(codes, names, into) {
  const model = codeModel(codes);
  const state = { measure: codeFirstMeasure(model, codes), range: null, only: null, without: null, chosen: null,
    search: '', inArguments: false, view: 0, isUp: false, sideOf: codes.length - 1, hasAllNumbers: false, editor: keptEditor() };
  const change = (more) => { Object.assign(state, more); show(); };
  const choose = (index) => { if (index >= 0) { state.chosen = index; chosen.show(); } };
  const chosen = codeChosen(model, state, { choose: (index) => { choose(index); show(); }, change });
  const views = [
    workTable({ label: 'functions', hasFilters: true, choose: ({ index }) => choose(index),
      enter: ({ index }) => { choose(index); chosen.focus(); } }),
    codeTree({ choose: (node) => choose(node.function) }),
    codeFlame({ choose: (node) => choose(node.function) }),
  ];
  const time = model.isTimed ? codeTime(codes, names, { change: (range) => change({ range }) }) : null;
  const controls = codeControls(model, state, names, change);
  function show() {
    controls.show();
    views.forEach(({ element }, at) => { element.hidden = at !== state.view; });
    if (state.view === 0) codeShowFunctions(model, state, views[0]);
    else codeShowNodes(model, state, views[state.view]);
    chosen.show();
  }
  into.append(make('section', { className: 'code wide', 'aria-label': 'by code',
    onkeydown: codeKeys(model, state, views, controls.search, change) },
  make('h3', { textContent: 'By code' }), ...[codeFirst(model, { change }), time?.element].filter((part) => part),
  ...controls.elements,
  make('div', { className: 'beside' }, make('div', {}, ...views.map(({ element }) => element)), chosen.element),
  codeKeysHelp()));
  state.chosen = codeHeaviest(model, state);
  show();
  return time;
}
