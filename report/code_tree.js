// ---- code: a call tree that is opened as one goes ----

const TREE_CHILDREN = 60; // at once, of one node

// `numbersText(node)`: texts of the cells before the name; `choose(node)`.
function codeTree({ choose }) {
  const table = make('table', { role: 'treegrid', 'aria-label': 'call tree' });
  const box = make('div', { className: 'scroll work' }, table);
  const head = table.createTHead(),
    body = table.createTBody();
  let lines = [];
  let state = null;
  const open = new Set(); // nodes
  const more = new Map(); // node: how many of its children are shown
  let at = 0;

  // A search shows what fits, what leads there, and what is below.
  let fitting = new Map();
  function leads(node, depth = 0) {
    if (!fitting.has(node))
      fitting.set(
        node,
        state.fits(node) ||
          (depth < 400 && !state.isUp && node.children().some((child) => leads(child, depth + 1))),
      );
    return fitting.get(node);
  }
  const isBelow = (node) => node !== null && (state.fits(node) || isBelow(node.parent));
  const childrenOf = (node) =>
    state.search === '' || isBelow(node) ? node.children() : node.children().filter((child) => leads(child));

  function collect(node, depth, into) {
    const children = childrenOf(node);
    const until = more.get(node) ?? TREE_CHILDREN;
    children.slice(0, until).forEach((child) => {
      into.push({ node: child, depth, isOpen: open.has(child), isLeaf: childrenOf(child).length === 0 });
      if (open.has(child)) collect(child, depth + 1, into);
    });
    if (children.length > until) into.push({ of: node, depth, rest: children.length - until });
  }
  function lineOf(line, i) {
    const { node, depth } = line;
    const row = make('tr', {
      tabIndex: i === at ? 0 : -1,
      'aria-level': String(depth + 1),
      'aria-selected': String(i === at),
    });
    row.onclick = () => (line.rest ? showMore(line) : toggle(i));
    const sign = line.rest || line.isLeaf ? '' : line.isOpen ? '▾' : '▸';
    const text = line.rest ? `… ${countText(line.rest)} more` : shortName(node.name, 120);
    const name = make(
      'td',
      {
        className: `text name${!line.rest && state.search !== '' && state.fits(node) ? ' hit' : ''}`,
        title: line.rest ? '' : node.name,
      },
      make('span', { className: 'sign', textContent: sign }),
      text,
    );
    name.style.setProperty('--depth', String(Math.min(depth, 40)));
    if (!line.rest && !line.isLeaf) row.setAttribute('aria-expanded', String(line.isOpen));
    row.append(
      ...state.columns.map((column) =>
        line.rest ? make('td', { className: column.narrow ? 'narrow' : '' }) : workCell(column, node),
      ),
      name,
    );
    return row;
  }
  function draw(focused = body.contains(document.activeElement)) {
    lines = [];
    collect(state.root, 0, lines);
    at = Math.min(Math.max(at, 0), lines.length - 1);
    body.replaceChildren(...lines.map(lineOf));
    if (focused && at >= 0) body.children[at].focus();
  }
  function go(to) {
    if (lines.length === 0) return;
    const last = body.children[at];
    at = Math.min(Math.max(to, 0), lines.length - 1);
    for (const [line, is] of [
      [last, false],
      [body.children[at], true],
    ]) {
      line.tabIndex = is ? 0 : -1;
      line.setAttribute('aria-selected', String(is));
    }
    body.children[at].focus();
    if (lines[at].node) choose(lines[at].node);
  }
  // A node with one child opens that, too: a path without branches is one step.
  function openNode(node) {
    for (let one = node, i = 0; one && i < 200; i += 1) {
      open.add(one);
      const children = childrenOf(one);
      one = children.length === 1 ? children[0] : null;
    }
  }
  function toggle(i) {
    at = i;
    const { node, isOpen, isLeaf } = lines[i];
    if (isOpen) open.delete(node);
    else if (!isLeaf) openNode(node);
    draw(true);
    choose(node);
  }
  function showMore({ of }) {
    more.set(of, (more.get(of) ?? TREE_CHILDREN) + 200);
    draw(true);
  }
  // The path that has most, as far as more than half of a node is in one child.
  function openHeaviest(node) {
    for (let one = node; one;) {
      open.add(one);
      const [first] = childrenOf(one);
      one = first && codeWeight(first) > codeWeight(one) / 2 ? first : null;
    }
    draw(true);
  }
  const keys = {
    ArrowDown: () => go(at + 1),
    ArrowUp: () => go(at - 1),
    Home: () => go(0),
    End: () => go(lines.length - 1),
    PageDown: () => go(at + 15),
    PageUp: () => go(at - 15),
    ArrowRight: ({ node, isOpen, isLeaf }) => (isOpen ? go(at + 1) : node && !isLeaf && toggle(at)),
    ArrowLeft: ({ node, isOpen, depth }) =>
      isOpen && node
        ? toggle(at)
        : depth > 0 && go(lines.slice(0, at).findLastIndex((line) => line.depth < depth)),
    Enter: (line) => (line.rest ? showMore(line) : toggle(at)),
    '*': ({ node }) => node && openHeaviest(node),
  };
  body.onkeydown = (event) => {
    if (!(event.key in keys) || !lines[at]) return;
    event.preventDefault();
    keys[event.key](lines[at]);
  };
  return {
    element: make('div', {}, box),
    focus: () => draw(true),
    show(newState) {
      const isOther = !state || newState.root !== state.root;
      state = newState;
      fitting = new Map();
      if (isOther) {
        open.clear();
        more.clear();
        at = 0;
      }
      head.replaceChildren(
        make(
          'tr',
          {},
          ...[
            ...state.columns,
            {
              isText: true,
              title: state.isUp ? 'function, and who calls it' : 'function, and what it calls',
            },
          ].map((column) =>
            make('th', { scope: 'col', textContent: column.title, className: cellClass(column) }),
          ),
        ),
      );
      const [first] = state.root.children();
      if (isOther && first && !state.isUp) openNode(first);
      if (state.search !== '') openFitting(state.root, 0);
      draw();
    },
  };

  // What a search finds is shown, if that is not too much.
  function openFitting(node, depth) {
    if (depth > 100 || open.size > 300 || state.isUp) return;
    for (const child of childrenOf(node))
      if (!state.fits(child)) {
        open.add(child);
        openFitting(child, depth + 1);
      }
  }
}
