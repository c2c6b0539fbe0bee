# The module trafikey as a plain shared library, for node-gyp. The flags are those of CMakeLists.txt and
# src/dev/build.ts, which copies it to the folder above. It does not lie there in the package: npm would run it at every
# install from a lock file, whatever "gypfile" says. Does not: need Node's headers.
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
