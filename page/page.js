'use strict';

// Long lists are written shorter (page/page_pack.h).
function unpacked(value) {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(unpacked);
  if (value.packed === 'texts') {
    const texts = unpacked(value.texts);
    return unpacked(value.at).map((at) => texts[at]);
  }
  if (value.packed === 'mostly') {
    const list = new Array(value.length).fill(value.value);
    const is = unpacked(value.is);
    unpacked(value.at).forEach((at, i) => { list[at] = is[i]; });
    return list;
  }
  let last = 0;
  if (value.packed === 'steps') return value.steps.map((step) => { last += step; return last; });
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, unpacked(one)]));
}

const data = unpacked(JSON.parse(document.getElementById('data').textContent));
const MIB = 1024 * 1024;

// An element: `properties` are its own ("textContent"), or attributes ("role", "aria-label").
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name === 'role' || name === 'scope' || name.includes('-')) element.setAttribute(name, value);
    else element[name] = value;
  element.append(...children);
  return element;
}

// ---- colours ----

// Any two colours of a set are at least 34 apart in CIE Lab for normal vision and for each kind of
// colour blindness (simulated by the model of Machado and others), and have a contrast of at least
// 3:1 to the background. In addition, lines and points differ in form.
const COLOURS = {
  light: ['#154dff', '#f55717', '#522346', '#978a7e', '#d85fcd', '#6f0b04', '#27007f'],
  dark: ['#0089c8', '#f4e01a', '#d13200', '#48ff9c', '#931eff', '#c9e9ff', '#9e5a61'],
};
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 5], [5, 5], [2, 6]];
const POINTS = ['circle', 'rect', 'triangle', 'rectRot', 'cross', 'crossRot', 'star'];

const theme = matchMedia('(prefers-color-scheme: dark)');
const palette = (at) => COLOURS[theme.matches ? 'dark' : 'light'][at % COLOURS.light.length];
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// These allocators have the same colour on every page. Any other gets one of those that are left, by
// its name.
const ALLOCATORS = [/*ALLOCATORS*/];

function allocatorColour(name) {
  const known = ALLOCATORS.indexOf(name.replace(/-(noswitch|system)$/, ''));
  const sum = [...name].reduce((so_far, letter) => so_far + letter.codePointAt(0), 0);
  const others = Math.max(COLOURS.light.length - ALLOCATORS.length, 1);
  return palette(known >= 0 ? known : ALLOCATORS.length + sum % others);
}

// ---- charts ----

const round = (value, digits = 3) => Number(value.toPrecision(digits));
// Formats Chart.js's numbers, on axes and in tooltips, as in texts.
const spaced = (method) => function (...of) { return method.apply(this, of).replaceAll(',', ' '); };

function spaceNumbers(scale, name) {
  scale.prototype.getLabelForValue = spaced(scale.prototype.getLabelForValue);
  const { ticks } = Chart.defaults.scales[name];
  ticks.callback = spaced(ticks.callback);
  ticks.autoSkipPadding = 8;
}

const countText = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ' ');

// The style of a line with form number `form`: lines of the same colour differ in form.
function lineStyle(lineColour, form) {
  return { borderWidth: 2, borderColor: lineColour, backgroundColor: lineColour,
    borderDash: DASHES[form % 7], pointStyle: POINTS[form % 7] };
}

function axis(text, more = {}) {
  return { title: { display: true, text }, grid: { color: variable('--line') }, ...more };
}

// In a tooltip, a value has the unit of its axis.
function tooltipText({ chart, dataset, formattedValue }) {
  const { indexAxis, scales } = chart.options;
  const unit = (indexAxis === 'y' ? scales.x : scales.y)?.title?.text ?? '';
  return `${dataset.label ? `${dataset.label}: ` : ''}${formattedValue} ${unit}`.trim();
}

function chartOptions(more) {
  const plugins = { tooltip: { callbacks: { label: tooltipText } }, ...more.plugins };
  return { animation: false, responsive: true, maintainAspectRatio: false, ...more, plugins };
}

// ---- names ----

// A name of at most `most` letters: arguments of templates are shortened, the innermost first, so
// that the member stays.
function shortName(name, most = 40) {
  let text = name;
  for (let before = ''; text.length > most && text !== before;) {
    before = text;
    text = text.replace(/(?<!operator)<(?!…>)((?:[^<>]|<…>|->)+)>/g, '<…>');
  }
  return text.length > most ? `…${text.slice(1 - most)}` : text;
}

// ---- figures ----

const numberText = (value) => (Array.isArray(value) ? value.map(numberText).join(' to ')
  : value === null || value === undefined ? '–'
    : Number.isInteger(value) ? countText(value) : String(round(value, 4)));

function tableOf({ head, rows }) {
  const table = document.createElement('table');
  const cells = (line, values, tag) => values.forEach((value, i) => {
    const cell = document.createElement(i === 0 ? 'th' : tag);
    if (i === 0 || tag === 'th') cell.scope = tag === 'th' ? 'col' : 'row';
    const text = typeof value === 'string' ? value : numberText(value);
    cell.textContent = i === 0 ? shortName(text, 80) : text;
    if (cell.textContent !== text) cell.title = text;
    line.append(cell);
  });
  cells(table.createTHead().insertRow(), head, 'th');
  const body = table.createTBody();
  rows.forEach((row) => cells(body.insertRow(), row, 'td'));
  return table;
}

function addTable(element, table, title = 'as a table') {
  const details = document.createElement('details');
  const summary = document.createElement('summary');
  summary.textContent = title;
  const scroll = document.createElement('div');
  scroll.className = 'scroll';
  scroll.tabIndex = 0;
  scroll.append(tableOf(table));
  details.append(summary, scroll);
  element.append(details);
  return details;
}

// What a chart draws, as a table: a row for each label, or for up to a hundred points in time, with
// the value of each line; the head of the first column is the unit.
function tableOfChart({ data: { labels, datasets }, options: { indexAxis, scales } }) {
  const valueAt = ({ data }, x) =>
    data.reduce((y, point) => (point.x <= x ? point.y : y), null);
  const times = labels ? [] : [...new Set(datasets.flatMap(({ data }) => data.map(({ x }) => x)))]
    .sort((a, b) => a - b).filter((_, i, { length }) => i % Math.ceil(length / 100) === 0);
  const rows = labels
    ? labels.map((label, i) => [[label].flat().join(' '), ...datasets.map(({ data }) => data[i])])
    : times.map((time) => [`${round(time, 5)}\u00a0s`,
      ...datasets.map((one) => valueAt(one, time))]);
  const { title } = indexAxis === 'y' ? scales.x : scales.y;
  return { head: [title.text, ...datasets.map(({ label }) => label ?? '')], rows };
}

// Adds a figure: { title, better, text, config, table, wide, height }. `better` is a short hint
// ("less is better"), `text` goes below the title, `config()` returns Chart.js's configuration.
// `table()` returns { head, rows } of texts and numbers, also for readers who cannot see the chart;
// if it is missing, the table is made from the chart. `wide`: across the page; `height` in rem.
// config() is called again when the page changes between light and dark.
function addFigure(figure, into) {
  const element = document.createElement('figure');
  if (figure.wide) element.className = 'wide';
  const caption = document.createElement('figcaption');
  const title = document.createElement('strong');
  if (figure.better) {
    const better = document.createElement('span');
    better.textContent = figure.better;
    title.append(better);
  }
  title.append(figure.title);
  caption.append(title, figure.text || '');
  const box = document.createElement('div');
  box.className = 'canvas';
  if (figure.height) box.style.height = `${figure.height}rem`;
  figure.canvas = document.createElement('canvas');
  figure.canvas.setAttribute('role', 'img');
  figure.canvas.setAttribute('aria-label', `${figure.title}: as a table below`);
  box.append(figure.canvas);
  element.append(caption, box);
  addTable(element, figure.table ? figure.table() : tableOfChart(figure.config()));
  into.append(element);
}

// `other`: something else with a draw() of its own, or null.
function showFigures(figures, into, other = null) {
  figures.forEach((figure) => addFigure(figure, into));
  Chart.defaults.locale = 'en';
  spaceNumbers(Chart.LinearScale, 'linear');
  spaceNumbers(Chart.LogarithmicScale, 'logarithmic');
  function draw() {
    Chart.defaults.color = variable('--text');
    Chart.defaults.borderColor = variable('--line');
    Chart.defaults.font.family = 'system-ui, sans-serif';
    Object.assign(Chart.defaults.plugins.legend.labels, { usePointStyle: true, boxWidth: 8, boxHeight: 8 });
    for (const figure of figures) {
      if (figure.chart) figure.chart.destroy();
      figure.chart = new Chart(figure.canvas, figure.config());
    }
    other?.draw();
  }
  theme.addEventListener('change', draw);
  draw();
}

// The machine of a comparison, as in the text.
function machineText({ processor, processors, numa_nodes: nodes, system, governor, load,
  transparent_hugepages: pages }) {
  return [processor, `${processors} processor${processors === 1 ? '' : 's'}`
      + (nodes > 1 ? ` on ${nodes} NUMA nodes` : ''), system,
    governor && `governor ${governor}`, pages && `transparent huge pages ${pages}`,
    typeof load === 'number' && `load ${load.toFixed(2)}`].filter((text) => text).join(', ');
}

// Facts [name, text]; those without a text are left out.
function showFacts(facts) {
  const list = document.createElement('dl');
  for (const [name, text] of facts.filter((fact) => fact[1])) {
    const fact = document.createElement('div');
    ['dt', 'dd'].forEach((tag, i) => {
      const element = document.createElement(tag);
      element.textContent = [name, text][i];
      fact.append(element);
    });
    list.append(fact);
  }
  document.getElementById('facts').append(list);
}
