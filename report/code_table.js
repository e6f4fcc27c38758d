// ---- tables to work with: they sort and filter by each column, and rows are chosen ----

// A function's name without arguments of templates, as the search looks at it.
function withoutArguments(name) {
  let text = name;
  for (let before = ''; text !== before;) {
    before = text;
    text = text.replace(/(?<!operator|operator<)<(?:[^<>]|->)*>/g, '');
  }
  return text;
}

const plainNames = new Map();
function plainName(name, hasArguments) {
  if (hasArguments) return name.toLowerCase();
  if (!plainNames.has(name)) plainNames.set(name, withoutArguments(name).toLowerCase());
  return plainNames.get(name);
}

const nameFits = (name, { search, inArguments }) =>
  search === '' || plainName(name, inArguments).includes(search.toLowerCase());

// "1M" or ">=1M": at least so much; "<5": less; "1K..2M": between. K, M, G, T are powers of 1024.
// Returns a function; null: it is none of these.
function conditionOf(text) {
  const number = (of) => {
    const match = of.trim().match(/^([-−]?[\d.]+)\s*([KMGT]?)(?:iB|B)?\s*%?$/i);
    return match
      ? Number(match[1].replace('−', '-')) * 1024 ** ' KMGT'.indexOf(match[2].toUpperCase() || ' ')
      : NaN;
  };
  const [, sign, rest] = text.trim().match(/^(>=|<=|>|<|=|≥|≤)?(.*)$/);
  const [low, high] = rest.includes('..') ? rest.split('..').map(number) : [number(rest), Infinity];
  if (Number.isNaN(low) || Number.isNaN(high)) return null;
  const tests = {
    '>': (value) => value > low,
    '<': (value) => value < low,
    '<=': (value) => value <= low,
    '≤': (value) => value <= low,
    '=': (value) => value === low,
  };
  return tests[sign] ?? ((value) => value >= low && value <= high);
}

// A column is { title, isText, value(row), text(row), whole(row), link(row), part(row), narrow }:
// what it is sorted by, and what is shown; `whole` is shown on hover; `part` a share of 1 as a bar;
// `narrow`: left out where there is little room; `below(row)`: shown below the text there.
const cellClass = (column) => [column.isText ? 'text' : '', column.narrow ? 'narrow' : ''].join(' ').trim();

function workCell(column, row) {
  const text = column.text(row);
  const cell = make('td', { className: cellClass(column) });
  const link = column.link?.(row);
  cell.append(link ? make('a', { href: link, textContent: text, tabIndex: -1 }) : text);
  const whole = column.whole?.(row) ?? text;
  if (whole !== text) cell.title = whole;
  const below = column.below?.(row);
  if (below) cell.dataset.below = below;
  const part = column.part?.(row) ?? 0;
  if (part > 0) cell.style.setProperty('--part', `${100 * Math.min(part, 1)}%`);
  return cell;
}

// `choose(row)` is called when a row is chosen, by pointer or keyboard, `enter(row)` by Enter or a
// double click. Rows have an `index`, by which the chosen one is found again.
function workTable({ label, hasFilters, choose, enter = choose, rowsAtOnce = 200 }) {
  let columns = [],
    rows = [],
    fitting = [],
    drawn = 0,
    chosen = null;
  const sort = { at: 0, isRising: false };
  const conditions = new Map();
  const table = make('table', { role: 'grid', 'aria-label': label });
  const box = make('div', { className: 'scroll work' }, table);
  const says = make('p', { className: 'quiet' });
  const head = table.createTHead(),
    body = table.createTBody();

  function fill(until) {
    for (; drawn < Math.min(until, fitting.length); drawn += 1) {
      const row = fitting[drawn];
      const line = make(
        'tr',
        { tabIndex: -1, 'aria-selected': 'false' },
        ...columns.map((column) => workCell(column, row)),
      );
      line.onclick = () => pick(row);
      line.ondblclick = () => enter(row);
      body.append(line);
    }
  }
  function mark(focused) {
    const at = fitting.findIndex((row) => row.index === chosen);
    if (at >= drawn) fill(at + rowsAtOnce);
    [...body.children].forEach((line, i) => {
      line.setAttribute('aria-selected', String(i === at));
      line.tabIndex = i === Math.max(at, 0) ? 0 : -1;
    });
    if (focused && at >= 0) body.children[at].focus();
  }
  function pick(row) {
    chosen = row.index;
    mark(true);
    choose(row);
  }
  function draw() {
    const isFocused = body.contains(document.activeElement);
    const { value, isText } = columns[sort.at];
    const way = sort.isRising ? 1 : -1;
    const tests = [...conditions].filter(([at, test]) => test && at < columns.length);
    fitting = rows.filter((row) => tests.every(([at, test]) => test(columns[at].value(row))));
    fitting.sort((a, b) => way * (isText ? (value(a) < value(b) ? -1 : 1) : value(a) - value(b)));
    drawn = 0;
    body.replaceChildren();
    fill(rowsAtOnce);
    mark(isFocused);
    says.textContent =
      fitting.length === rows.length ? '' : `${countText(fitting.length)} of ${countText(rows.length)}`;
    [...head.children[0].children].forEach((cell, at) =>
      cell.setAttribute('aria-sort', at !== sort.at ? 'none' : sort.isRising ? 'ascending' : 'descending'),
    );
  }
  function sortBy(at) {
    sort.isRising = at === sort.at ? !sort.isRising : Boolean(columns[at].isText);
    sort.at = at;
    draw();
  }
  function filterCell(column, at) {
    const input = make('input', {
      type: 'text',
      size: 4,
      placeholder: column.isText ? 'has' : '≥',
      title: column.isText ? 'only rows with this text' : '10K: at least so much; <5; 1M..2M',
      'aria-label': `filter: ${column.title}`,
    });
    input.oninput = () => {
      const text = input.value.trim();
      const test =
        text === ''
          ? null
          : column.isText
            ? (value) => value.toLowerCase().includes(text.toLowerCase())
            : conditionOf(text);
      input.setAttribute('aria-invalid', String(text !== '' && test === null));
      conditions.set(at, test);
      draw();
    };
    return make('td', { className: cellClass(column) }, input);
  }
  function drawHead() {
    head.replaceChildren(
      make(
        'tr',
        {},
        ...columns.map((column, at) => {
          const button = make('button', {
            type: 'button',
            textContent: column.title,
            onclick: () => sortBy(at),
          });
          return make('th', { scope: 'col', className: cellClass(column) }, button);
        }),
      ),
    );
    conditions.clear();
    if (hasFilters) head.append(make('tr', { className: 'filters' }, ...columns.map(filterCell)));
  }
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity };
  body.onkeydown = (event) => {
    const at = fitting.findIndex((row) => row.index === chosen);
    if (event.key === 'Enter' && at >= 0) enter(fitting[at]);
    if (!(event.key in moves) || fitting.length === 0) return;
    event.preventDefault();
    pick(fitting[Math.min(Math.max(at + moves[event.key], 0), fitting.length - 1)]);
  };
  box.onscroll = () => {
    if (box.scrollTop + box.clientHeight > box.scrollHeight - 400) fill(drawn + rowsAtOnce);
  };
  return {
    element: make('div', {}, box, says),
    focus: () => mark(true),
    // The order stays as long as the columns do.
    show(newRows, newColumns, newChosen) {
      const isOther =
        newColumns.map(({ title }) => title).join() !== columns.map(({ title }) => title).join();
      const isFirst = columns.length === 0;
      const count = columns.length;
      [rows, columns, chosen] = [newRows, newColumns, newChosen];
      if (isOther) {
        if (isFirst || count !== columns.length)
          Object.assign(sort, {
            at: Math.max(
              columns.findIndex(({ first }) => first),
              0,
            ),
            isRising: false,
          });
        drawHead();
      }
      draw();
    },
  };
}
