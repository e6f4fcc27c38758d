// ---- code: the flame graph, either way up ----

// Bars { node, left, width, depth } as fractions of the width, without those narrower than `least`;
// `zoomed` and the bars above it have the whole width. What shrank has no width.
function flameBars(zoomed, least, sideOf) {
  const width = (node) => Math.max(node.sides[sideOf], 0);
  const above = [];
  for (let node = zoomed.parent; node; node = node.parent) above.unshift(node);
  const bars = above.map((node, depth) => ({ node, left: 0, width: 1, depth }));
  const walk = (node, left, part, depth) => {
    bars.push({ node, left, width: part, depth });
    const children = node.children().filter((child) => width(child) > 0);
    const whole = Math.max(width(node), sum(children.map(width)), 1);
    let at = left;
    for (const child of children.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const share = (part * width(child)) / whole;
      if (share >= least && depth < 600) walk(child, at, share, depth + 1);
      at += share;
    }
  };
  walk(zoomed, 0, 1, above.length);
  return bars;
}

// The same function has the same colour everywhere.
const hueOf = (text) => [...text].reduce((hash, letter) => (hash * 31 + letter.codePointAt(0)) % 360, 7);

// Of two traces: red grew, blue shrank, the more the stronger.
function changeColour({ sides: [before, after] }) {
  const part = (after - before) / Math.max(before, after, 1);
  return `hsl(${part > 0 ? 12 : 215} ${Math.round(80 * Math.abs(part))}% var(--light))`;
}

function codeFlame({ choose }) {
  const graph = make('div', { className: 'flame' });
  // Deep stacks scroll here, so that what is below stays near; the keyboard gets there, too.
  const frame = make(
    'div',
    { className: 'deep', tabIndex: 0, role: 'region', 'aria-label': 'flame graph' },
    graph,
  );
  const says = make('p', { className: 'says' });
  const back = make('button', { type: 'button', textContent: 'show all', className: 'back' });
  let state = null,
    zoomed = null,
    bars = [],
    at = 0;
  const draws = () => state.sideOf;
  const partText = (node) => `${node.name}: ${state.text(node)}`;
  // The total in functions that match, each object once.
  const found = (node) => (state.fits(node) ? node.sides[draws()] : sum(node.children().map(found)));

  function barOf({ node, left, width, depth }, i) {
    const isFitting = state.search !== '' && state.fits(node);
    const bar = make('button', {
      type: 'button',
      tabIndex: i === at ? 0 : -1,
      title: partText(node),
      textContent: width > 0.01 ? shortName(node.name, 80) : '',
      className: [codeInterpreted.has(node.name) ? 'interpreted' : '',
        state.search === '' ? '' : isFitting ? 'hit' : 'miss'].join(' ').trim(),
      onclick: () => zoom(node),
      onfocus: () => {
        says.textContent = partText(node);
      },
      onpointerenter: () => {
        says.textContent = partText(node);
      },
    });
    Object.assign(bar.style, {
      left: `${100 * left}%`,
      width: `${100 * width}%`,
      top: `calc(${depth} * var(--bar))`,
    });
    bar.style.setProperty('--hue', String(hueOf(node.name)));
    if (node.sides.length > 1) bar.style.background = changeColour(node);
    return bar;
  }
  function draw(focused = graph.contains(document.activeElement)) {
    bars = flameBars(zoomed, 0.0015, draws());
    at = Math.max(
      bars.findIndex(({ node }) => node === zoomed),
      0,
    );
    graph.replaceChildren(...bars.map(barOf));
    graph.style.height = `calc(${bars.reduce((most, { depth }) => Math.max(most, depth), 0) + 1} * var(--bar))`;
    back.hidden = zoomed === state.root;
    says.textContent =
      state.search === ''
        ? partText(zoomed)
        : `${share(found(state.root), state.root.sides[draws()]) || '0 %'} in functions with "${state.search}"`;
    if (focused) graph.children[at].focus();
  }
  function zoom(node) {
    zoomed = node;
    draw(true);
    choose(node);
  }
  back.onclick = () => {
    frame.scrollTop = 0;
    zoom(state.root);
  };
  // Where a key leads from a bar: to one above, to the widest below, or beside.
  function target(key) {
    const { node, depth } = bars[at];
    const beside = bars.filter((bar) => bar.depth === depth).sort((a, b) => a.left - b.left);
    const below = bars.filter((bar) => bar.node.parent === node).sort((a, b) => b.width - a.width);
    return {
      ArrowUp: bars.find((bar) => bar.node === node.parent),
      ArrowDown: below[0],
      ArrowLeft: beside[beside.indexOf(bars[at]) - 1],
      ArrowRight: beside[beside.indexOf(bars[at]) + 1],
    }[key];
  }
  frame.onkeydown = (event) => {
    if (event.key === 'Escape') zoom(state.root);
    const to = target(event.key);
    if (!event.key.startsWith('Arrow')) return;
    event.preventDefault();
    if (!to) return;
    graph.children[at].tabIndex = -1;
    at = bars.indexOf(to);
    graph.children[at].tabIndex = 0;
    graph.children[at].focus();
  };
  return {
    element: make('div', {}, back, frame, says),
    focus: () => graph.children[at].focus(),
    show(newState) {
      if (!state || newState.root !== state.root) {
        zoomed = newState.root;
        frame.scrollTop = 0;
      }
      state = newState;
      draw();
    },
  };
}
