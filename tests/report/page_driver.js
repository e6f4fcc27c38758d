// page_driver.js - works in a page of `report` as a user does, by pointer and keyboard, and leaves what
// is then shown as JSON in an element, which page_test.rb reads.
'use strict';
const find = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const isShown = (element) => element.getClientRects().length > 0;
const byLabel = (label) => find(`[aria-label="${label}"]`);
const press = (key, at = document.activeElement) =>
  at.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
const type = (input, text) => {
  input.value = text;
  input.dispatchEvent(new Event('input', { bubbles: true }));
};
const pick = (select, text) => {
  select.value = all('option', select).find((one) => one.textContent === text).value;
  select.dispatchEvent(new Event('change', { bubbles: true }));
};
const buttonOf = (text, from = document) =>
  all('button', from).find((one) => isShown(one) && one.textContent.startsWith(text));
const checkbox = (text) =>
  find(
    'input',
    all('label').find((one) => one.textContent.includes(text)),
  );
const lines = (label) =>
  all('tbody tr', byLabel(label)).map((row) => all('td', row).map((cell) => cell.textContent));
const functions = () => lines('functions').map((cells) => cells[4]);
const measure = (text) => pick(byLabel('what is counted'), text);
const filter = (title, text) => type(byLabel(`filter: ${title}`), text);
const chosen = () => find('.chosen h4').textContent;
const bars = () => all('.flame button').map((bar) => bar.title.replace(/: [^:]*$/, ''));
const slide = (label, at) => type(byLabel(label), String(at));
const tree = () => lines('call tree').map((cells) => cells.at(-1));
const view = (name) =>
  find('[role=tablist]')
    .querySelectorAll('button')
    [['functions', 'tree', 'flame graph'].indexOf(name)].click();

const steps = {
  begins_with: () => byLabel('what is counted').selectedOptions[0].textContent,
  by_own: () => {
    measure('bytes asked for');
    return lines('functions').map((cells) => [cells[4], cells[0]]);
  },
  by_total: () => {
    buttonOf('with calls', byLabel('functions')).click();
    return lines('functions').map((cells) => [cells[4], cells[2]]);
  },
  rising: () => {
    buttonOf('with calls', byLabel('functions')).click();
    return functions();
  },
  sorted_how: () => all('th[scope=col]', byLabel('functions')).map((cell) => cell.getAttribute('aria-sort')),
  by_name: () => {
    buttonOf('function', byLabel('functions')).click();
    return functions();
  },
  filtered: () => {
    filter('itself', '>=90K');
    return functions();
  },
  between: () => {
    filter('itself', '1K..100K');
    return functions();
  },
  wrong_filter: () => {
    filter('itself', 'much');
    return [byLabel('filter: itself').getAttribute('aria-invalid'), functions().length];
  },
  unfiltered: () => {
    filter('itself', '');
    buttonOf('itself', byLabel('functions')).click();
    return functions().length;
  },
  searched: () => {
    type(byLabel('find a function'), 'leaks');
    return functions();
  },
  in_arguments: () => {
    checkbox('template').click();
    return functions();
  },
  search_left: () => {
    byLabel('find a function').focus();
    press('Escape');
    return [byLabel('find a function').value, document.activeElement.tagName];
  },
  other_numbers: () => {
    checkbox('all numbers').click();
    return all('th[scope=col]', byLabel('functions')).length;
  },
  keys: () => {
    checkbox('all numbers').click();
    press('Home', find('tbody', byLabel('functions')));
    press('ArrowDown');
    return [chosen(), functions()[1]];
  },
  callers: () => {
    press('End');
    press('Home');
    return lines('callers').map((cells) => [cells[2], cells[0]]);
  },
  lifetimes: () => [lines('sizes'), lines('lifetimes')],
  callee: () => {
    all('tbody tr', byLabel('functions'))
      .find((row) => row.textContent.includes('serve'))
      .click();
    return lines('callees').map((cells) => [cells[2], cells[0]]);
  },
  no_link: () => {
    all('tbody tr', byLabel('functions'))
      .find((row) => row.textContent.includes('cache'))
      .click();
    return find('.chosen a')?.href ?? null;
  },
  link: () => {
    pick(byLabel('editor of links'), 'links: VS Code');
    return find('.chosen a')?.href ?? null;
  },
  link_of_row: () => find('tbody a', byLabel('functions'))?.href ?? null,
  serve_again: () => {
    all('tbody tr', byLabel('functions'))
      .find((row) => row.textContent.includes('serve'))
      .click();
    return chosen();
  },
  only: () => {
    buttonOf('only through it').click();
    return functions();
  },
  not_only: () => {
    buttonOf('only through serve').click();
    return functions().length;
  },
  without: () => {
    buttonOf('without it').click();
    const shown = functions();
    buttonOf('without serve').click();
    return shown;
  },
  slash: () => {
    press('/', find('section.code'));
    return document.activeElement.getAttribute('aria-label');
  },
  tree: () => {
    document.activeElement.blur();
    press('2', find('section.code'));
    return tree();
  },
  opened: () => {
    press('*');
    return tree();
  },
  closed: () => {
    press('Home');
    press('ArrowLeft');
    return tree();
  },
  opened_again: () => {
    press('ArrowRight');
    press('ArrowRight');
    return [
      find('tr[aria-selected=true]', byLabel('call tree')).textContent,
      find('tr', find('tbody', byLabel('call tree'))).getAttribute('aria-expanded'),
    ];
  },
  inverted: () => {
    press('i');
    return lines('call tree').map((cells) => [cells.at(-1), cells[0]]);
  },
  callers_of: () => {
    all('tbody tr', byLabel('call tree'))[0].click();
    return tree().slice(0, 3);
  },
  inverted_flame: () => {
    press('3', find('section.code'));
    return bars();
  },
  flame: () => {
    press('i', find('section.code'));
    return bars();
  },
  flame_keys: () => {
    press('ArrowDown');
    press('ArrowDown');
    const at = document.activeElement.title;
    document.activeElement.click();
    return [at, chosen(), find('.back').hidden];
  },
  flame_back: () => {
    press('Escape');
    return [bars().length, find('.back').hidden];
  },
  next_measure: () => {
    press('m', find('section.code'));
    const to = byLabel('what is counted').selectedOptions[0].textContent;
    press('M', find('section.code'));
    return to;
  },
  wide: () => {
    view('functions');
    return [
      document.documentElement.scrollWidth <= innerWidth,
      all('.work').filter(isShown).length,
      all('.work')
        .filter(isShown)
        .every((box) => box.getBoundingClientRect().right <= innerWidth),
    ];
  },
};

// A stretch of time: by sliders, in the tree, and by a drag.
const own = () =>
  lines('functions')
    .map((cells) => [cells[4], cells[0]])
    .filter(([, text]) => text !== '0 bytes');
const stretch = () => [byLabel('from').value, byLabel('until').value].map(Number);
Object.assign(steps, {
  held: () => Chart.getChart(find('.time canvas')).data.datasets.map(({ label }) => label),
  first_half: () => {
    slide('until', 20);
    return own();
  },
  third_quarter: () => {
    slide('until', 30);
    slide('from', 20);
    return own();
  },
  grown: () => {
    measure('growth: made less ended');
    return own();
  },
  shrunk: () => {
    slide('until', 40);
    slide('from', 30);
    return own();
  },
  shrunk_in_tree: () => {
    view('tree');
    return lines('call tree').map((cells) => [cells.at(-1), cells[0]]);
  },
  other_measure: () => {
    measure('alive at the peak');
    return all('.quiet').find((one) => isShown(one) && one.textContent.includes('whole time.'))?.textContent;
  },
  dragged: () => {
    view('functions');
    measure('bytes asked for');
    const canvas = find('.time canvas');
    const {
      scales: { x },
      chartArea: { top },
    } = Chart.getChart(canvas);
    const box = canvas.getBoundingClientRect();
    const point = (name, part) =>
      canvas.dispatchEvent(
        new PointerEvent(name, {
          bubbles: true,
          clientX: box.left + x.left + part * x.width,
          clientY: box.top + top + 5,
        }),
      );
    point('pointerdown', 0.25);
    point('pointermove', 0.5);
    point('pointerup', 0.5);
    return [stretch(), own()];
  },
  whole_again: () => {
    buttonOf('whole time').click();
    return own().length;
  },
});

const results = {};
for (const [name, step] of Object.entries(steps))
  try {
    results[name] = step();
  } catch (error) {
    results[name] = `failed: ${error.message}`;
  }
document.body.append(
  Object.assign(document.createElement('pre'), { id: 'results', textContent: JSON.stringify(results) }),
);
