/**
 * `echomq/dev`: a private Valkey for development and tests, and the building of the module.
 * Does not: belong in production, where a server has an operator.
 */
export { findServer, homeFolder, type FindServerOptions, type FoundServer } from './find.js';
export { startServer, defaultModulePath, type EmbeddedServer, type StartServerOptions } from './server.js';
export type { Ended } from './process.js';
export { buildModule, type BuildModuleOptions, type BuildWay, type BuiltModule } from './build.js';
