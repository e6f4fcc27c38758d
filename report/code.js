// ---- code: what functions ask for; everything for one measure, stretch of time and focus ----

// With most of the table's number first, as in the text: what may leak comes before all others. Where
// more is mapped than was alive, both together.
function codeFirstMeasure({ measures }, codes) {
  const { all, may_leak } = codes.at(-1);
  const find = (wanted) => measures.find(({ key }) => key === wanted);
  const leaks = may_leak.name.length > 0 && find('end_bytes');
  return (all.mapped > all.peak_bytes && find('both')) || leaks || measures[0];
}

// ---- what the views show ----

function codeShowFunctions(model, state, table) {
  const all = codeNumbers(model, state);
  const has = ({ index }) => all.some(({ own, total }) => own[index] !== 0 || total[index] !== 0);
  const rows = model.functions.filter(
    (one) => one.isListed && (state.hasAllNumbers || has(one)) && nameFits(one.name, state),
  );
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
  const {
    measure: { text },
    search,
    isUp,
    sideOf,
  } = state;
  const fitting = new Map();
  const fits = ({ name }) => {
    if (!fitting.has(name)) fitting.set(name, search !== '' && nameFits(name, state));
    return fitting.get(name);
  };
  view.show({
    root: codeRootOf(model, state, all),
    fits,
    search,
    isUp,
    sideOf,
    columns: codeSideColumns(({ sides }) => sides, text, all, ''),
    text: ({ sides }) =>
      sides.length > 1
        ? `${sides.map((value) => signedText(value, text)).join(' → ')}`
        : `${signedText(sides[0], text)}, ${partText(sides[0], all[0].whole)}`,
  });
}

// ---- all ----

function codeHeaviest(model, state) {
  const [all] = codeNumbers(model, state).slice(-1);
  return all.own.reduce((most, value, at) => (value > all.own[most] ? at : most), 0);
}

// Shows the codes of one trace, or of two; returns what draws over time, or null.
function showCode(codes, names, into) {
  const model = codeModel(codes);
  const state = {
    measure: codeFirstMeasure(model, codes),
    range: null,
    only: null,
    without: null,
    chosen: null,
    search: '',
    inArguments: false,
    view: 0,
    isUp: false,
    sideOf: codes.length - 1,
    hasAllNumbers: false,
    editor: keptEditor(),
  };
  const change = (more) => {
    Object.assign(state, more);
    show();
  };
  const choose = (index) => {
    if (index >= 0) {
      state.chosen = index;
      chosen.show();
    }
  };
  const chosen = codeChosen(model, state, {
    choose: (index) => {
      choose(index);
      show();
    },
    change,
  });
  const views = [
    workTable({
      label: 'functions',
      hasFilters: true,
      choose: ({ index }) => choose(index),
      enter: ({ index }) => {
        choose(index);
        chosen.focus();
      },
    }),
    codeTree({ choose: (node) => choose(node.function) }),
    codeFlame({ choose: (node) => choose(node.function) }),
  ];
  const time = model.isTimed ? codeTime(codes, names, { change: (range) => change({ range }) }) : null;
  const controls = codeControls(model, state, names, change);
  function show() {
    controls.show();
    views.forEach(({ element }, at) => {
      element.hidden = at !== state.view;
    });
    if (state.view === 0) codeShowFunctions(model, state, views[0]);
    else codeShowNodes(model, state, views[state.view]);
    chosen.show();
  }
  into.append(
    make(
      'section',
      {
        className: 'code wide',
        'aria-label': 'by code',
        onkeydown: codeKeys(model, state, views, controls.search, change),
      },
      make('h3', { textContent: 'By code' }),
      ...[codeFirst(model, { change }), time?.element].filter((part) => part),
      ...controls.elements,
      make(
        'div',
        { className: 'beside' },
        make('div', {}, ...views.map(({ element }) => element)),
        chosen.element,
      ),
      codeKeysHelp(),
    ),
  );
  state.chosen = codeHeaviest(model, state);
  show();
  return time;
}
