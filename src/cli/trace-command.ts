/**
 * `emq trace`: one job through happy path, failure fork and recovery, on wire 4 and wire 6 side by side.
 * Ends with 1 when the two executors do not agree. Does not: touch a queue that is in use.
 */
import type { Command } from 'commander';

import { EXIT } from './exit.js';
import { addCommand, type Run } from './program.js';
import { addTls } from './target.js';
import { drawEnd, drawPath, drawScene, sceneJson } from './trace/draw.js';
import { play, type TraceOptions } from './trace/play.js';

const EXAMPLES = `
Examples:
  emq trace                                   on two private nodes
  emq trace --json | jq -c '[.step, .agree]'  one JSON line a step, and a last one for all
  emq trace --url6 unix:///run/valkey.sock    wire 6 on a node of yours, in an unused queue that is removed again`;

export function addTrace(program: Command, run: Run): void {
  addTls(addCommand(program, 'trace', 'walk one job through both executors, call by call', EXAMPLES))
    .option('--url4 <url>', 'a wire 4 node (default: a private one)')
    .option('--url6 <url>', 'a wire 6 node (default: a private one)')
    .option('--queue <name>', 'the queue to use; on a given node it must be unused', 'trace')
    .action(
      run(async (options: TraceOptions, terminal) => {
        let path: unknown;
        const scenes = await play(options, terminal, (scene) => {
          if (path !== scene.path) terminal.print(drawPath(scene, terminal));
          path = scene.path;
          terminal.print(drawScene(scene, terminal));
          terminal.emit(sceneJson(scene));
        });
        const odd = scenes.flatMap((scene) => scene.differences);
        terminal.print(drawEnd(scenes, terminal));
        terminal.emit({ summary: { steps: scenes.length, agree: odd.length === 0, differences: odd } });
        return odd.length === 0 ? EXIT.ok : EXIT.notInOrder;
      }),
    );
}
