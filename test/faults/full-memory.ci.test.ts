/** Full memory, with every eviction policy, on both executors. */
import { EXECUTORS } from '../conformance/stage.js';
import { fullMemory, POLICIES } from './full-memory.js';

fullMemory(EXECUTORS, POLICIES);
