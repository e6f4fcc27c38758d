// ---- code: columns of the tables ----

// Columns of one number, which a row has in each trace: of one, it and its share; of two, what was before
// and after, and the difference.
function codeSideColumns(sidesOf, text, all, title) {
  const value = (row) => codeValue(sidesOf(row));
  if (all.length === 1) {
    const whole = Math.max(Math.abs(all[0].whole), 1);
    return [
      { title: title || 'in all', first: true, value, text: (row) => signedText(value(row), text) },
      {
        title: '%',
        narrow: title !== '',
        value: (row) => (100 * value(row)) / whole,
        text: (row) => partText(value(row), whole),
        part: (row) => Math.abs(value(row)) / whole,
      },
    ];
  }
  return [
    ...['before', 'after'].map((when, side) => ({
      title: when,
      narrow: true,
      value: (row) => sidesOf(row)[side],
      text: (row) => signedText(sidesOf(row)[side], text),
    })),
    {
      title: title === 'with calls' ? title : 'difference',
      first: true,
      value,
      text: (row) => (value(row) > 0 ? '+ ' : '') + signedText(value(row), text),
    },
  ];
}

// Of callers and callees.
function codeCallColumns({ text }, all) {
  const name = {
    title: 'function',
    isText: true,
    value: (row) => row.name.toLowerCase(),
    text: (row) => shortName(row.name, 60),
    whole: (row) => row.name,
  };
  return [...codeSideColumns((row) => row.sides, text, all, ''), name];
}

// Of functions, or whatever the rows are: itself, with what it calls, its name and place.
function codeFunctionColumns(model, state, all) {
  const { text, key } = state.measure;
  const of =
    (name) =>
    ({ index }) =>
      all.map((side) => side[name][index]);
  const side = model.sides.length - 1;
  const { code } = model.sides[side];
  const margin = ({ rows }) =>
    (state.range === null &&
      state.only === null &&
      state.without === null &&
      code.rows[`${key}_margin`]?.[rows[side]]) ||
    0;
  const totals = codeSideColumns(of('total'), text, all, 'with calls');
  const columns = [
    ...codeSideColumns(of('own'), text, all, 'itself'),
    ...(all.length > 1 ? totals.slice(-1) : totals),
  ];
  // Its number, or the difference; and the same with what it calls.
  const [own, total] = all.length > 1 ? [columns[2], columns[3]] : [columns[0], columns[2]];
  const plain = own.text;
  const gap = isNarrow.matches ? '\n' : ' '; // on a phone below it
  own.text = (row) => plain(row) + (margin(row) > 0 ? `${gap}± ${text(margin(row))}` : '');
  columns.forEach((column) => {
    column.first = column === (code.sort === 'total' ? total : own);
  });
  const where = ({ rows }) => code.where[key]?.[rows[side]] || code.where.bytes?.[rows[side]] || '';
  return [
    ...columns,
    ...(state.hasAllNumbers ? codeOtherColumns(model, state) : []),
    {
      title: code.by,
      isText: true,
      value: ({ name }) => name.toLowerCase(),
      text: ({ name }) => (code.by === 'stack' ? firstLines(name) : shortName(name, 90)),
      whole: ({ name }) => name,
      below: (row) => shortPlace(where(row)),
    },
    {
      title: 'where',
      isText: true,
      narrow: true,
      value: where,
      text: (row) => shortPlace(where(row)),
      whole: where,
      link: (row) => codeLink(codePlace(model, row), state.editor),
    },
  ];
}

// Of a stack, the innermost functions.
const firstLines = (text, most = 8) => text.split('\n').slice(0, most).join('\n');

const shortPlace = (text) => (text.startsWith('/') ? text.replace(/^.*\//, '') : text);

// Each other measure, of itself and with what it calls.
function codeOtherColumns(model, state) {
  return model.measures
    .filter((one) => one !== state.measure)
    .flatMap((measure) => {
      const all = codeNumbers(model, { ...state, measure });
      return ['own', 'total'].map((name) => {
        const value = ({ index }) => codeValue(all.map((side) => side[name][index]));
        return {
          title: name === 'own' ? measure.title : '… with calls',
          value,
          text: (row) => signedText(value(row), measure.text),
        };
      });
    });
}
