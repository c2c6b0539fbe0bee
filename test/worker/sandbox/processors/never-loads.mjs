/** A processor whose import never ends. Does not: run. */
await new Promise(() => {});
export default () => {};
