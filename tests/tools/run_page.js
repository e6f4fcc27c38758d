// run_page.js - runs the scripts of a page, without a browser and without Chart.js, and prints a
// line for each figure: its title, how many numbers it draws, "in steps" where it does so, and the
// rows of its table, which are on lines of their own below, from two spaces on; one for each fact, and one for each row of tables
// that belong to no figure.
//
//   node run_page.js PAGE.html
//
// Fails where a script fails, where a chart draws what is no number, and where a row of a table is
// not as long as its head, or where Chart.js would write 1,234.
'use strict';
const fs = require('fs');
const vm = require('vm');

class Element {
  constructor(tag) {
    Object.assign(this, { tag, children: [], style: { setProperty() {} }, textContent: '', dataset: {} });
  }
  replaceChildren(...all) { this.children = all; }
  append(...more) { this.children.push(...more); }
  setAttribute(name, value) { this[name] = value; }
  contains() { return false; }
  add(tag) { const child = new Element(tag); this.append(child); return child; }
  createTHead() { return this.add('thead'); }
  createTBody() { return this.add('tbody'); }
  insertRow() { return this.add('tr'); }
  all(tag) {
    return this.children.flatMap((child) => (child instanceof Element
      ? [...(child.tag === tag ? [child] : []), ...child.all(tag)] : []));
  }
}

const html = fs.readFileSync(process.argv[2], 'utf8');
const elements = new Map([['data', { textContent: html.match(/id="data">([^]*?)<\/script>/)[1] }]]);
const byId = (id) => {
  if (!elements.has(id)) elements.set(id, new Element('div'));
  return elements.get(id);
};

// Whatever a chart can be asked to draw: numbers, null where there is none, points, ranges.
function check(value, where) {
  if (Array.isArray(value)) return value.forEach((one) => check(one, where));
  if (value !== null && typeof value === 'object')
    return ['x', 'y'].forEach((key) => key in value && check(value[key], where));
  if (value !== null && !Number.isFinite(value)) throw new Error(`${where} draws ${value}`);
}

const drawn = new Map();
class Chart {
  constructor(canvas, config) {
    const where = canvas['aria-label'];
    this.draw = () => {};
    if (/undefined|NaN/.test(where)) throw new Error(`a figure is called '${where}'`);
    config.data.datasets.forEach((one) => check(one.data, where));
    if (config.data.labels?.some((one) => /^….{0,15}$/.test(one))) throw new Error(`${where} has labels that are cut`);
    const count = config.data.datasets.reduce((sum, one) => sum + one.data.length, 0);
    const steps = count > 0 && config.data.datasets.every(({ stepped, data }) => stepped === 'after'
      || data.length > 1 && data.every((one, i) => i % 2 === 0 || (one?.y === data[i - 1]?.y && one?.x > data[i - 1]?.x)));
    drawn.set(canvas, `${count} drawn${steps ? ' in steps' : ''}`);
  }
  destroy() {}
}
const shown = (value) => value.toLocaleString(Chart.defaults.locale);
Chart.LinearScale = class { getLabelForValue(value) { return shown(value); } };
Chart.LogarithmicScale = class extends Chart.LinearScale {};
Chart.defaults = { font: {}, plugins: { legend: { labels: {} } },
  scales: { linear: { ticks: { callback: shown } }, logarithmic: { ticks: { callback: shown } } } };

const context = vm.createContext({ Chart, console,
  document: { getElementById: byId, createElement: (tag) => new Element(tag), documentElement: {} },
  matchMedia: () => ({ matches: false, addEventListener() {} }),
  getComputedStyle: () => ({ getPropertyValue: () => '#000000' }) });
const scripts = [...html.matchAll(/<script>([^]*?)<\/script>/g)].map((match) => match[1]);
const chartjs = scripts.findIndex((text) => text.includes('Chart.js v'));
vm.runInContext(scripts.filter((_, i) => i !== chartjs).join('\n'), context);

const numbers = Object.values(Chart.defaults.scales).map(({ ticks }) => ticks.callback(1234567.5));
for (const Scale of [Chart.LinearScale, Chart.LogarithmicScale])
  numbers.push(new Scale().getLabelForValue(1234567.5));
if (numbers.some((text) => text !== '1 234 567.5')) throw new Error(`charts have ${numbers}`);

const textOf = (one) => (one instanceof Element ? one.textContent + one.children.map(textOf).join('') : one);
const lineOf = (cells) => cells.map((one) => textOf(one).replace('\n', ' ')).join(' | ');

for (const figure of [...elements.values()].flatMap((one) => (one.all ? one.all('figure') : []))) {
  const rows = figure.all('tr').map((row) => row.children);
  if (rows.some((row) => row.length !== rows[0].length)) throw new Error('a table has ragged rows');
  const canvas = figure.all('canvas')[0];
  console.log(`${(canvas ?? figure)['aria-label'].split(': ')[0]}: `
    + `${canvas ? `${drawn.get(canvas)}, ` : ''}${Math.max(rows.length - 1, 0)} rows`);
  rows.forEach((cells) => console.log(`  ${lineOf(cells)}`));
}
// The part "By code": its measures, and what its tables show at first.
for (const section of byId('charts').all('section')) {
  const measures = section.all('select').find((one) => one['aria-label'] === 'what is counted');
  console.log(`By code: ${measures.all('option').map((one) => one.textContent).join(', ')}`);
  for (const table of section.all('table')) {
    console.log(`By code, ${table['aria-label']}:`);
    table.all('tr').forEach((row) => console.log(`  ${lineOf(row.children)}`));
  }
}
for (const fact of byId('facts').all('div'))
  console.log(fact.children.map((one) => one.textContent).join(': '));
for (const row of byId('tables').all('tr')) console.log(lineOf(row.children));
