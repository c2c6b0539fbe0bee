/** A CommonJS processor. Does not: know modules. */
module.exports = async (job) => `common ${job.payload.value}`;
