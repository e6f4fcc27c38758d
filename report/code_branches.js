// ---- code: call trees, from the outermost function in and from the innermost one out ----
//
// A node is { name, function, sides, parent, children() }; `sides` has its number in each trace, with
// what it calls, or, the other way up, with those that call it. Children are made when asked for.

const codeWeight = ({ sides }) => Math.max(...sides.map(Math.abs));

function codeSorted(nodes) {
  return nodes
    .filter((node) => codeWeight(node) > 0)
    .sort(
      (a, b) => Math.abs(codeValue(b.sides)) - Math.abs(codeValue(a.sides)) || codeWeight(b) - codeWeight(a),
    );
}

function codeNode(of, parent, children) {
  const node = { ...of, parent };
  let made = null;
  node.children = () => {
    made ??= codeSorted(children(node));
    return made;
  };
  return node;
}

const codeSides = (numbers, of, key) => numbers.map((side, i) => (of.at[i] < 0 ? 0 : side[key][of.at[i]]));

function codeDown(model, numbers) {
  const nodesOf = (branches) => (parent) =>
    branches.map((branch) =>
      codeNode(
        {
          name: branch.name,
          function: branch.function,
          sides: codeSides(numbers, branch, 'branchTotal'),
        },
        parent,
        nodesOf(branch.children),
      ),
    );
  return codeNode(
    { name: 'all', function: -1, sides: numbers.map(({ all }) => all) },
    null,
    nodesOf(model.roots),
  );
}

// Each node has the branches it is on: pairs of what the path brings, and how far it has come. It begins
// where the table counts it.
function codeUp(model, numbers) {
  const nodesOf = (paths) => (parent) => {
    const groups = new Map();
    for (const { sides, at } of paths) {
      if (!groups.has(at.function)) groups.set(at.function, { paths: [], sides: sides.map(() => 0), at });
      const group = groups.get(at.function);
      group.paths.push({ sides, at });
      sides.forEach((value, i) => {
        group.sides[i] += value;
      });
    }
    return [...groups.values()].map((group) =>
      codeNode(
        { name: group.at.name, function: group.at.function, sides: group.sides },
        parent,
        nodesOf(
          group.paths
            .filter(({ at }) => at.parent)
            .map((path) => ({ sides: path.sides, at: path.at.parent })),
        ),
      ),
    );
  };
  const paths = model.branches
    .map((branch) => ({
      at: codeOwnBranch(
        branch,
        ({ parent }) => parent,
        (one) => model.isOwner[one.function] === 1,
      ),
      sides: codeSides(numbers, branch, 'branchOwn'),
    }))
    .filter(({ sides }) => sides.some((value) => value !== 0));
  return codeNode({ name: 'all', function: -1, sides: numbers.map(({ all }) => all) }, null, nodesOf(paths));
}

// ---- callers and callees ----

// What the function is asked for by each caller, and asks for through each callee: objects of a
// recursion count once for each. { callers, callees }, rows of { function, name, sides }.
function codeCalls(model, numbers, of) {
  const add = (to, branch, sides) => {
    const key = branch ? branch.function : -1;
    if (!to.has(key))
      to.set(key, {
        function: key,
        index: key,
        name: branch ? branch.name : '(nothing: outermost)',
        sides: sides.map(() => 0),
      });
    sides.forEach((value, i) => {
      to.get(key).sides[i] += value;
    });
  };
  const [callers, callees] = [new Map(), new Map()];
  const walk = (branch, isWithin, seen) => {
    const isIt = branch.function === of;
    const sides = codeSides(numbers, branch, 'branchTotal');
    if (isIt && !isWithin) add(callers, branch.parent, sides);
    const isCallee = branch.parent?.function === of && !isIt && !seen.includes(branch.function);
    if (isCallee) add(callees, branch, sides);
    const further = isCallee ? [...seen, branch.function] : seen;
    branch.children.forEach((child) => walk(child, isWithin || isIt, further));
  };
  model.roots.forEach((branch) => walk(branch, false, []));
  return { callers: codeSorted([...callers.values()]), callees: codeSorted([...callees.values()]) };
}
