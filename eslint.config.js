/**
 * What eslint asks of the TypeScript and JavaScript of this project, types included.
 * Layout is prettier's business, unused names and types are tsc's; here stand the rules that find mistakes.
 * Not among them: no-unnecessary-condition. What callers without types hand in is checked here though the types forbid it,
 * and a flag that was read before an await may be another after it.
 */
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  globalIgnores(['dist/', 'build/', '.tools/', '.valkey/', 'coverage/', '**/*.generated.ts']),
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/consistent-type-imports': ['error', { disallowTypeAnnotations: false }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/only-throw-error': 'error',
      '@typescript-eslint/prefer-promise-reject-errors': 'error',
      '@typescript-eslint/return-await': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/use-unknown-in-catch-callback-variable': 'error',
      // A number in a text is what it looks like; an object is not.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // An async method may have nothing to wait for: it keeps an interface, and it rejects where it would have thrown.
      '@typescript-eslint/require-await': 'off',
      eqeqeq: 'error',
      'no-constant-binary-expression': 'error',
      'no-implicit-coercion': 'error',
      'no-self-compare': 'error',
      'no-template-curly-in-string': 'error',
      'no-restricted-properties': [
        'error',
        { property: 'localeCompare', message: 'Ids are compared by their bytes: use < or Buffer.compare.' },
      ],
    },
  },
  {
    // What users run speaks through its return values and events, never on the console.
    files: ['src/**/*.ts'],
    ignores: ['src/cli/**'],
    rules: { 'no-console': 'error' },
  },
  {
    // A test hands the code what the types forbid, and takes apart replies that have none.
    files: ['test/**/*.ts', 'bench/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.mjs'],
    languageOptions: {
      globals: {
        AbortController: 'readonly',
        AbortSignal: 'readonly',
        Buffer: 'readonly',
        URL: 'readonly',
        clearInterval: 'readonly',
        clearTimeout: 'readonly',
        console: 'readonly',
        fetch: 'readonly',
        performance: 'readonly',
        process: 'readonly',
        setImmediate: 'readonly',
        setInterval: 'readonly',
        setTimeout: 'readonly',
      },
    },
    rules: {
      eqeqeq: 'error',
      'no-undef': 'error',
      'no-unused-vars': 'error',
      'no-const-assign': 'error',
      'no-dupe-keys': 'error',
      'no-unreachable': 'error',
      'no-constant-binary-expression': 'error',
      'no-self-compare': 'error',
      'prefer-const': 'error',
    },
  },
  {
    // The verbs: an error's stack follows awaited calls only, back to the caller of the verb.
    files: ['src/queue/{jobs,job-controls,lanes,admin}.ts'],
    rules: { '@typescript-eslint/return-await': ['error', 'always'] },
  },
);
