/**
 * What of the ids is public. The halves of a snowflake (`spell`) are not: they are a matter between this folder's files.
 */
export { EPOCH_MS, SNOWFLAKE_MAX, encodeId, isBranded, parseId, type BrandedId, type IdParts } from './brand.js';
export { Minter, defaultMinter, mint, type MinterOptions } from './mint.js';
