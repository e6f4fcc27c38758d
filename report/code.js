
// ---- code: call stacks as a flame graph, outermost above, and what functions ask for ----

const NO_CODE = { all: {}, rows: { name: [] }, where: {}, tree: { name: [], parent: [] },
  may_leak: { name: [] } };
const code = data.code ?? NO_CODE;

// What was alive at the peak and what was mapped, together: most of the process.
for (const of of [code.all, code.rows, code.tree])
  if (code.all.mapped > 0)
    of.both = Array.isArray(of.mapped) ? of.mapped.map((bytes, i) => bytes + of.peak_bytes[i])
      : of.mapped + of.peak_bytes;
code.where.both = code.where.peak_bytes?.map((text, i) => text || code.where.mapped[i]);

const MEASURES = [
  { key: 'bytes', title: 'bytes asked for', text: bytesText },
  { key: 'made', title: 'objects made', text: countText },
  { key: 'peak_bytes', title: 'alive at the peak', text: bytesText },
  { key: 'end_bytes', title: 'alive at the end', text: bytesText },
  { key: 'short_lived', title: 'gone within 100 calls', text: countText },
  { key: 'grown_bytes', title: 'grown by realloc or copy', text: bytesText },
  { key: 'remote_frees', title: 'ended by another thread', text: countText },
  { key: 'freed', title: 'objects freed', text: countText },
  { key: 'freed_remote', title: 'remote objects freed', text: countText },
  { key: 'mapped', title: 'resident, mapped', text: bytesText },
  { key: 'both', title: 'alive at the peak, or mapped', text: bytesText },
].filter(({ key }) => code.all[key] > 0);

// The tree with the total of each branch. Parents come before their children.
function flameTree(key) {
  const { name, parent } = code.tree;
  const nodes = name.map((text, i) => ({ text, value: code.tree[key][i], children: [] }));
  const root = { text: 'all', value: 0, children: [], parent: null };
  for (let i = nodes.length - 1; i >= 0; i -= 1) {
    const up = parent[i] === null ? root : nodes[parent[i]];
    nodes[i].parent = up;
    up.value += nodes[i].value;
    if (nodes[i].value > 0) up.children.push(nodes[i]);
  }
  [root, ...nodes].forEach((node) => node.children.sort((a, b) => (a.text < b.text ? -1 : 1)));
  return root;
}

// Bars { node, left, width, depth } as fractions of the width, without those narrower than `least`;
// `zoomed` and the bars above it have the whole width.
function flameBars(zoomed, least) {
  const above = [];
  for (let node = zoomed.parent; node; node = node.parent) above.unshift(node);
  const bars = above.map((node, depth) => ({ node, left: 0, width: 1, depth }));
  const walk = (node, left, width, depth) => {
    bars.push({ node, left, width, depth });
    let at = left;
    for (const child of node.children) {
      const part = width * child.value / node.value;
      if (part >= least) walk(child, at, part, depth + 1);
      at += part;
    }
  };
  walk(zoomed, 0, 1, above.length);
  return bars;
}

// The same function has the same colour everywhere.
const hueOf = (text) => [...text].reduce((hash, letter) => (hash * 31 + letter.codePointAt(0)) % 360, 7);

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

function showFlame(into) {
  const graph = make('div', { className: 'flame' });
  // Deep stacks scroll here, so that the tables stay near; the keyboard gets there, too.
  const frame = make('div', { className: 'deep', tabIndex: 0, role: 'region' }, graph);
  frame.setAttribute('aria-label', 'flame graph');
  const says = make('p', { className: 'says' });
  const search = make('input', { type: 'search', placeholder: 'find a function', value: '' });
  search.setAttribute('aria-label', 'find a function');
  const select = make('select', {},
    ...MEASURES.map(({ title }, i) => make('option', { value: String(i), textContent: title })));
  select.setAttribute('aria-label', 'what the widths are');
  const back = make('button', { type: 'button', textContent: 'show all' });
  let measure = MEASURES[0];
  let zoomed = flameTree(measure.key);
  let root = zoomed;
  const partText = (node) => `${node.text}: ${measure.text(node.value)}, `
    + `${share(node.value, root.value)}`;
  const fits = (node) => search.value !== ''
    && node.text.toLowerCase().includes(search.value.toLowerCase());
  // The total in functions that match, each object once.
  const found = (node) => (fits(node) ? node.value : sum(node.children.map(found)));
  function draw() {
    const bars = flameBars(zoomed, 0.0015);
    graph.replaceChildren(...bars.map(({ node, left, width, depth }) => {
      const bar = make('button', { type: 'button', tabIndex: -1, title: partText(node),
        textContent: width > 0.01 ? shortName(node.text, 80) : '',
        className: search.value === '' ? '' : fits(node) ? 'hit' : 'miss',
        onclick: () => { zoomed = node; draw(); },
        onpointerenter: () => { says.textContent = partText(node); } });
      Object.assign(bar.style, { left: `${100 * left}%`, width: `${100 * width}%`,
        top: `calc(${depth} * var(--bar))` });
      bar.style.setProperty('--hue', String(hueOf(node.text)));
      return bar;
    }));
    const depths = Math.max(...bars.map(({ depth }) => depth)) + 1;
    graph.style.height = `calc(${depths} * var(--bar))`;
    back.hidden = zoomed === root;
    says.textContent = search.value === '' ? partText(zoomed)
      : `${share(found(root), root.value) || '0 %'} in functions with "${search.value}"`;
  }
  function showRoot() {
    frame.scrollTop = 0;
    draw();
  }
  select.onchange = () => {
    measure = MEASURES[Number(select.value)];
    zoomed = root = flameTree(measure.key);
    showRoot();
  };
  search.oninput = draw;
  back.onclick = () => { zoomed = root; showRoot(); };
  const section = make('section', { className: 'code wide' },
    make('h3', { textContent: 'By code' }),
    make('p', { textContent: 'Call stacks, the outermost function above: as wide as what it and '
      + 'those that it calls ask for. A click on one shows it alone.' }),
    make('div', { className: 'controls' }, select, search, back), frame, says);
  draw();
  // As in the text: if something may leak, what is alive at the end comes first.
  const leaks = (one) => Number(code.may_leak.name.length > 0 && one.key === 'end_bytes');
  [...MEASURES].sort((a, b) => leaks(b) - leaks(a)).forEach((one) => addTable(section, rowsOfCode(one), `${code.by}s: ${one.title}`));
  into.append(section);
}

// The rows with the most of one measure.
function rowsOfCode({ key, title, text }) {
  const { rows, all } = code;
  const total = rows[`total_${key}`];
  const by = code.sort === 'total' && total ? total : rows[key];
  const top = rows.name.map((_, i) => i).filter((i) => by[i] > 0)
    .sort((a, b) => by[b] - by[a] || rows[key][b] - rows[key][a]).slice(0, 100);
  const margin = rows[`${key}_margin`] ?? [];
  return { head: [code.by, title, 'share', ...(total ? ['with what it calls'] : []), 'where'],
    rows: top.map((i) => [rows.name[i], text(rows[key][i])
      + (margin[i] > 0 ? ` ± ${text(margin[i])}` : ''), share(rows[key][i], all[key]),
    ...(total ? [text(total[i])] : []),
    code.where[key][i]]) };
}

if (MEASURES.length > 0) showFlame(document.getElementById('charts'));
