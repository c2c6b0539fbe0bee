/** A processor with a codec that cannot decode. Does not: run. */
export const codec = { encode: String };
export default () => {};
