# What the scripts of the image share: names, and the password. Sourced, never run.
# Does not: write anything, or change the server.

CONF=/etc/echomq/valkey.conf
RUN=/run/valkey
SOCKET=$RUN/valkey.sock
BRAND=echomq:6.0.0
BRAND_KEY='{emq}:version'

say() {
  echo "echomq: $*" >&2
}

die() {
  say "$*"
  exit 64
}

# Sets `password` from VALKEY_PASSWORD or the file that VALKEY_PASSWORD_FILE names; empty where neither is set.
read_password() {
  password=${VALKEY_PASSWORD-}
  if [ -n "${VALKEY_PASSWORD_FILE-}" ]; then
    [ -z "$password" ] || die 'VALKEY_PASSWORD and VALKEY_PASSWORD_FILE are both set: give one of them'
    [ -r "$VALKEY_PASSWORD_FILE" ] || die "VALKEY_PASSWORD_FILE: user $(id -u) cannot read $VALKEY_PASSWORD_FILE"
    password=$(cat "$VALKEY_PASSWORD_FILE")
    [ -n "$password" ] || die "VALKEY_PASSWORD_FILE: $VALKEY_PASSWORD_FILE is empty"
  fi
  case $password in
    *'
'*) die 'the password must be one line' ;;
  esac
}
