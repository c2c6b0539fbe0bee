/** What a compiler makes of a default export in CommonJS. Does not: differ otherwise. */
Object.defineProperty(exports, '__esModule', { value: true });
exports.default = async (job) => `compiled ${job.payload.value}`;
