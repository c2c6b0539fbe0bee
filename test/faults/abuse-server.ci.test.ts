/** A server in trouble: every trouble, on both executors. */
import { EXECUTORS } from '../conformance/stage.js';
import { serverTroubles, TROUBLES } from './abuse-server.js';

serverTroubles(EXECUTORS, Object.keys(TROUBLES));
