/** A processor without the function it should export. Does not: run. */
export default { handle() {} };
