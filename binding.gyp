# The module trafikey as a plain shared library, for node-gyp. The flags are those of CMakeLists.txt and
# src/dev/build.ts. Does not: need Node's headers, and is never run by an installation ("gypfile": false).
{
  'targets': [
    {
      'target_name': 'trafikey',
      'type': 'shared_library',
      'product_prefix': '',
      'product_extension': 'so',
      'sources': ['<!@(ls module/*.c)'],
      'cflags': ['-std=c11', '-O2', '-fPIC', '-Wall', '-Wextra', '-Werror', '-Wconversion', '-fvisibility=hidden'],
      'conditions': [
        ['OS=="mac"', {
          'xcode_settings': {
            'OTHER_CFLAGS': ['-std=c11', '-O2', '-Wall', '-Wextra', '-Werror', '-Wconversion', '-fvisibility=hidden'],
            'OTHER_LDFLAGS': ['-undefined dynamic_lookup'],
          },
        }],
      ],
    },
  ],
}
