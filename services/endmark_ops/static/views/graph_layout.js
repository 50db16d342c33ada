// Places for the boxes of a graph: a column by the number of steps before a box, a row so that no lines cross.

/**
 * Returns {column, row} of each box by its id. Boxes are {id, inputs, sink}, of which those without inputs stand in
 * the order of their lines, and each one but a sink feeds one other. So all rows of boxes form a tree.
 */
export function placesOf(boxes) {
  const byId = new Map(boxes.map((each) => [each.id, each]));
  const depth = (id) => 1 + Math.max(-1, ...byId.get(id).inputs.map(depth));
  const steps = boxes.filter(({ sink, inputs }) => !sink && inputs.length).sort((a, b) => depth(a.id) - depth(b.id));
  const sources = boxes.filter(({ inputs }) => !inputs.length);
  // Sinks of later steps stand above, so that lines to the others pass below these steps.
  const sinks = boxes.filter(({ sink }) => sink).sort((a, b) => depth(b.id) - depth(a.id));
  const middle = (Math.max(sources.length, sinks.length) - 1) / 2;
  const rows = new Map();
  for (const some of [sources, sinks])
    some.forEach(({ id }, i) => rows.set(id, middle + i - (some.length - 1) / 2));
  const comesFrom = (id, other) => id === other || byId.get(id).inputs.some((input) => comesFrom(input, other));
  for (const { id, inputs } of steps) {
    const isBehindSinks = sinks.some((sink) => inputs.some((input) => comesFrom(input, sink.inputs[0])));
    const own = sinks.filter((sink) => comesFrom(sink.id, id));
    const beside = isBehindSinks && own.length ? own.map((sink) => sink.id) : inputs;
    rows.set(id, mean(beside.map((each) => rows.get(each))));
  }
  const last = 1 + Math.max(...[...sources, ...steps].map(({ id }) => depth(id)));
  return new Map(
    boxes.map(({ id, sink }) => [id, { column: sink ? last : depth(id), row: rows.get(id) }]),
  );
}

const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
